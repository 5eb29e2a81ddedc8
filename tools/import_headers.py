#!/usr/bin/env python3
"""Vendor's headers → tracepoints/<api>.yaml. Run by hand when an API moves; the YAML is committed, the headers are not.

The headers say what exists; what a call means stands in tools/importer/<api>.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from importer import cuda
from importer.clang import ImportFailed, read
from importer.writer import write

APIS = {"cuda": cuda}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("api", choices=sorted(APIS))
    parser.add_argument("--include", type=Path, required=True, help="folder of the headers")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: standard output)")
    args = parser.parse_args()
    api = APIS[args.api]
    try:
        first = api.rules(args.include, read("", (), "\0"))
        headers = read(first.text, first.options, first.prefix, first.language)
        text = write(headers, api.rules(args.include, headers))
    except ImportFailed as error:
        print(f"import_headers.py: {error}", file=sys.stderr)
        return 1
    if args.output:
        args.output.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
