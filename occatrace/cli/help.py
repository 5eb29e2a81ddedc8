"""`occa_prof help TOPIC`: a subcommand, a report, or a page of the documentation, which the package contains."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from occatrace.cli.commands import COMMANDS, overview
from occatrace.cli.messages import UsageError
from occatrace.cli.parser import MEANT, closest, of_command
from occatrace.run import install

# Words that people look for, and the page that answers them.
ALSO = {
    "filter": "choosing",
    "filters": "choosing",
    "exit-status": "run-folder",
    "variables": "environment",
    "sql": "python",
    "jupyter": "python",
    "notebook": "python",
    "ci": "python",
    "nsys": "tutorial-from-nsys-nvprof",
    "nvprof": "tutorial-from-nsys-nvprof",
    "ranks": "mpi-jobs",
    "perfetto": "timeline",
    "tables": "schema",
    "html": "pictures",
    "plots": "pictures",
    "opencl": "events/opencl",
}


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Explain a subcommand, a report or a topic."
    parser.epilog = (
        "examples:\n"
        "  occa_prof help                list the subcommands and the topics\n"
        "  occa_prof help timeline       print the options of the subcommand\n"
        "  occa_prof help mpi-jobs       print the page of the documentation\n"
        "  occa_prof help gpu_kern_sum   explain the columns of a report"
    )
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="explain this subcommand, report or topic")
    parser.add_argument("--page", action="store_true", help="prefer the page of the documentation to the subcommand")


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    pages = topics()
    if args.topic is None:
        print(overview())
        width = max(map(len, pages), default=0)
        print("\ntopics (occa_prof help TOPIC):")
        for name, file in pages.items():
            print(f"  {name:{width}}  {title(file)}")
        return 0
    word = args.topic.removesuffix(".md").removeprefix("docs/").lower()
    if word in COMMANDS and not (args.page and word in pages):
        parser, _ = of_command(word)
        parser.print_help()
        if word in pages:
            print(f"\n`occa_prof help --page {word}` prints the page of the documentation.")
        return 0
    page = pages.get(word) or pages.get(ALSO.get(word, ""))
    if page is not None:
        _show(page.read_text(encoding="utf-8"))
        return 0
    from occatrace import reports

    if word in reports.definitions():
        _show(reports.explained(word))
        return 0
    meant = closest(word, [*COMMANDS, *pages, *ALSO]) or reports.alike(word)
    if word in MEANT:
        hint = f"did you mean `{MEANT[word]}`?"
    elif meant:
        hint = f"did you mean `occa_prof help {meant}`?"
    else:
        hint = "`occa_prof help` lists the topics"
    raise UsageError(f"no help on {args.topic!r}; {hint}")


def topics() -> dict[str, Path]:
    """The pages of the documentation by name, as `timeline` and `events/opencl`."""
    folder = install.docs()
    found = sorted(folder.rglob("*.md"))
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in found}


def title(page: Path) -> str:
    """The first heading of a page."""
    with page.open(encoding="utf-8") as lines:
        return next((line[2:].strip() for line in lines if line.startswith("# ")), "")


def _show(text: str) -> None:
    """Markdown: as it is in a pipe, laid out and paged on a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-FRX")
    console = Console(width=min(Console().width, 120))
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))
