#!/usr/bin/env python3
"""Model to code: reads tracepoints/*.yaml and writes wrappers, providers, tables and documentation.

Run by CMake; only this file touches the disk. The stages live in tools/generator/.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from generator.emit import files_of
from generator.libraries import parse_libraries
from generator.model import Model
from generator.parse import ModelError, parse_folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of the YAML files")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--output", type=Path, help="folder for the generated files")
    where.add_argument(
        "--docs", type=Path, help="write only the documentation, into this folder (the repository's docs/)"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the files and write nothing")
    args = parser.parse_args()
    try:
        model = parse_folder(args.model)
        files = files_of(Model((*model.apis, *parse_libraries(args.model / "libraries"))))
    except ModelError as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 1
    if args.docs:
        files = {name.removeprefix("docs/"): text for name, text in files.items() if name.startswith("docs/")}
    for name, text in files.items():
        path = (args.output or args.docs) / name
        if args.list:
            print(path)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        # An unchanged file keeps its time stamp, so that nothing is compiled again.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
