#!/usr/bin/env python3
"""Vendor's headers → tracepoints/<api>.yaml; of libraries on top → tracepoints/libraries/<library>.yaml.
Run by hand when an API moves; the YAML is committed, the headers are not.

The headers say what exists; what a call means stands in tools/importer/<api>.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from importer import cuda, cudart, hip, ze
from importer.clang import ImportFailed
from importer.libraries import LIBRARIES, import_library
from importer.mpi import import_mpi
from importer.opencl import import_opencl
from importer.writer import write

IMPORTERS: Mapping[str, Callable[[Sequence[Path]], str]] = {
    "cuda": lambda includes: write(*cuda.load(includes)),
    "cudart": lambda includes: write(*cudart.load(includes)),
    "hip": lambda includes: write(*hip.load(includes)),
    "ze": lambda includes: write(*ze.load(includes)),
    "opencl": import_opencl,
    "mpi": import_mpi,
    **{name: partial(lambda name, includes: import_library(name, includes[0]), name) for name in LIBRARIES},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("api", choices=sorted(IMPORTERS))
    parser.add_argument(
        "--include",
        type=Path,
        required=True,
        action="append",
        help="folder of the headers; of several versions the newest first (of MPI: the headers themselves)",
    )
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: standard output)")
    args = parser.parse_args()
    try:
        text = IMPORTERS[args.api](args.include)
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
