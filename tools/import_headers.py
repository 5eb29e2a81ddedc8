#!/usr/bin/env python3
"""Vendor's headers → tracepoints/<api>.yaml; of libraries on top → tracepoints/libraries/<library>.yaml.
Run by hand when an API moves; the YAML is committed, the headers are not.

The headers say what exists; what a call means stands in tools/importer/<api>.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from importer import cuda, cudart, hip
from importer.clang import ImportFailed
from importer.libraries import LIBRARIES, import_library
from importer.writer import write

APIS = {"cuda": cuda.load, "cudart": cudart.load, "hip": hip.load}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("api", choices=sorted([*APIS, *LIBRARIES]))
    parser.add_argument(
        "--include",
        type=Path,
        required=True,
        action="append",
        help="folder of the headers; of several versions the newest first",
    )
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: standard output)")
    args = parser.parse_args()
    try:
        on_top = args.api in LIBRARIES
        text = import_library(args.api, args.include[0]) if on_top else write(*APIS[args.api](args.include))
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
