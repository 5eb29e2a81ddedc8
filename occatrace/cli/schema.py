"""`occa_prof schema NAME`: JSON Schemas of what occa_prof writes as JSON."""

from __future__ import annotations

import argparse
import json


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Print the JSON Schema of a JSON output. Its $id ends in the version."
    parser.add_argument(
        "name",
        metavar="NAME",
        help="print the schema of this: report (report, query, compare and efficiency), why, run (run.json), history (history.json of"
        " ci), tables (tables.json of export), reports (report --list), runs (list_runs of mcp), or of one report by its name",
    )


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    from occatrace.render import schemas

    print(json.dumps(schemas.schema(args.name), indent=1, ensure_ascii=False))
    return 0
