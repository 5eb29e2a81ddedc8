"""`occa_prof digest RUN`: the facts of a run in few words, for an assistant."""

from __future__ import annotations

import argparse
from pathlib import Path

from occatrace.cli import choice
from occatrace.cli.report import BadInput, add_output, output
from occatrace.run.folder import run_facts
from occatrace.run.opening import open_run

TOKENS = 2000


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = (
        "Print the facts of a run within a number of tokens, for an assistant that reads text. Each fact is a row of a report,\n"
        "with exact values and a reference: [api_sum#2] is the second row of `occa_prof report RUN --report api_sum`.\n"
        "Nothing leaves this machine."
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument(
        "--tokens",
        metavar="N",
        type=int,
        default=TOKENS,
        help=f"limit the text to N tokens, counted as one per two bytes (default: {TOKENS}; at least 500)",
    )
    choice.add_names(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the digest."""
    from occatrace.store.tables import open_store
    from occatrace.views import digest

    if args.tokens < digest.LEAST:
        raise BadInput(f"--tokens {args.tokens}: write at least {digest.LEAST}")
    folder = open_run(args.run).path
    with open_store(folder) as store:
        text = digest.digest(store, run_facts(folder), args.tokens, args.names)
    with output(args.output, args.force) as out:
        out.write(text)
    return 0
