"""Examples of subcommands, for `--help` and the manual pages; longer helps have theirs in the modules."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Subcommand → commands, each with what it does. tests/unit/test_shell.py parses each of them.
EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "report": (
            ("occa_prof report RUN", "print the summary again"),
            ("occa_prof report RUN --report gpu_gaps --rows 5", "print the first rows of one report"),
            ("occa_prof report RUN --by rank --filter-time 50%:", "print the second half, per rank"),
            ("occa_prof report RUN --format html -o run.html", "write one page with tables and plots"),
        ),
        "why": (
            ("occa_prof why RUN", "show what decided the run time"),
            ("occa_prof why RUN --what-if 'kernel:dot*0.5'", "predict the run time with a kernel twice as fast"),
        ),
        "efficiency": (
            ("occa_prof efficiency RUN", "print the factors of one run"),
            ("occa_prof efficiency --scale run1 run2 run4", "compare runs with more and more ranks or threads"),
        ),
        "import": (("occa_prof import profile.sqlite -o RUN", "make a run of an export of nsys"),),
        "top": (
            ("occa_prof top", "watch the newest run in this folder"),
            ("occa_prof top RUN --once", "print one screen"),
        ),
        "annotate": (
            ("occa_prof annotate RUN", "list the source files of recorded calls"),
            ("occa_prof annotate RUN solver.cpp", "print the lines around them with device time and calls"),
        ),
        "trace": (
            ("occa_prof trace RUN | less", "read the calls in time order"),
            ("occa_prof trace RUN --absolute -o calls.txt", "write them with absolute times"),
        ),
        "query": (
            ("occa_prof query RUN", "list the tables and their columns"),
            ("occa_prof query RUN 'FROM failures' --format csv", "print a table as CSV"),
            ("occa_prof query RUN 'SELECT name, count(*) FROM activities GROUP BY name'", "count device work by name"),
        ),
        "export": (
            ("occa_prof export RUN -o tables", "write Parquet files into a folder"),
            ("occa_prof export RUN -o trace --format otf2", "write an OTF2 archive, for otf2-print or Vampir"),
            ("occa_prof export RUN1 RUN2 --format extrap --parameter n=1,2 -o x.jsonl", "write runs for Extra-P"),
            ("occa_prof export RUN -o run.db --format sqlite --calls", "write one SQLite file with the single calls"),
        ),
        "view": (
            ("occa_prof view RUN", "open the timeline in a browser"),
            ("occa_prof view RUN --at gap:1", "begin at the longest time without device work"),
            ("occa_prof view RUN --no-browser --port 9123", "serve it on this port, as for an SSH tunnel"),
        ),
        "digest": (("occa_prof digest RUN --tokens 1000", "print the most important facts in at most 1000 tokens"),),
        "ci": (("occa_prof ci runs/* -o site", "write the history of the runs in a folder, oldest first"),),
        "mcp": (("occa_prof mcp runs", "serve the runs below a folder to the assistant that starts this"),),
        "doctor": (
            ("occa_prof doctor", "list what is installed and what is missing"),
            ("occa_prof doctor --report RUN > bug.md", "collect what a bug report needs"),
        ),
        "paths": (('cc -I"$(occa_prof paths --include)" main.c', "compile with occatrace.h"),),
        "start": (('eval "$(occa_prof start work)"', "record what this shell runs from now on"),),
        "stop": (
            ('eval "$(occa_prof stop work)"', "end the session `work` and print its summary"),
            ("occa_prof stop RUN", "end the recording of a run while its program goes on"),
        ),
        "pause": (("occa_prof pause RUN", "pause the recording, from another shell"),),
        "resume": (("occa_prof resume RUN", "resume the recording"),),
        "env": (('eval "$(occa_prof env)"; ./a.out', "record into an LTTng session of yours"),),
        "schema": (
            ("occa_prof schema report", "print the schema of `report RUN --format json`"),
            ("occa_prof schema gpu_kern_sum", "print it with the fields of one report"),
        ),
        "completion": (
            ('eval "$(occa_prof completion bash)"', "complete words in this shell; for all: put it into ~/.bashrc"),
            ("occa_prof completion fish > ~/.config/fish/completions/occa_prof.fish", "the same for fish"),
        ),
    }
)


def text(command: str) -> str:
    """The examples of a subcommand as lines of its help."""
    examples = EXAMPLES.get(command, ())
    width = max((len(words) for words, _ in examples if len(words) <= 52), default=0)
    lines = [
        f"  {words:{width}}  {about}" if len(words) <= width else f"  {words}\n  {'':{width}}  {about}"
        for words, about in examples
    ]
    return "examples:\n" + "\n".join(lines) if lines else ""
