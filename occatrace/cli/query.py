"""`occa_prof query RUN "SELECT …"`: DuckDB's SQL over the tables of a run; nothing is changed by it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from occatrace.cli.report import FORMATS, add_output, output, say_losses
from occatrace.run.opening import open_run

_LIST = (
    "SELECT table_name AS name, column_count AS columns FROM duckdb_tables() WHERE NOT temporary"
    " UNION ALL SELECT view_name, column_count FROM duckdb_views() WHERE NOT internal AND NOT temporary ORDER BY 1"
)


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Query the tables of a run with SQL. `occa_prof help schema` describes them; `calls` has every call\n"
        "that was recorded as an event (-m full: all; others are counted, in `call_stats`), and views like\n"
        '"opencl.clFinish" have those of one function, with the arguments in the struct `args`.'
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument("sql", metavar="SQL", nargs="?", help="run this SELECT (default: list the tables)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="print in this format (default: table)")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Answer the query."""
    from occatrace.api import QueryError, select
    from occatrace.core import reasons
    from occatrace.core.duck import duckdb
    from occatrace.render import Document, stream
    from occatrace.reports import of_query
    from occatrace.store.losses import Losses
    from occatrace.store.tables import open_store

    folder = open_run(args.run).path
    with open_store(folder) as store:
        if not args.sql:
            store.functions()
        result = select(store, args.sql or _LIST)
        document = Document({}, replace(Losses.none(), partial=store.partial), [of_query(result)])
        with output(args.output, args.force) as out:
            say_losses(document, args.format)
            try:
                stream.render(document, stream.blocks(result), out, args.format)
            except duckdb.Error as error:
                raise QueryError(reasons.of_query(error)) from error
    return 0
