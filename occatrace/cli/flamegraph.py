"""`occa_prof flamegraph RUN`: where host time and memory went, by nesting of ranges and calls."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from occatrace.cli import standard
from occatrace.cli.messages import UsageError, complain
from occatrace.cli.timeline import check_output
from occatrace.core import files, progress
from occatrace.run.folder import result, run_facts
from occatrace.run.opening import open_run

EPILOG = """\
FILE.html opens in any browser, without internet: point, click to zoom, search. FILE.speedscope.json opens at
https://www.speedscope.app (it stays on your machine); FILE.folded is for flamegraph.pl, inferno and similar tools;
FILE.pb.gz is for pprof.

Frames are the program's ranges, in them OCCA calls, in them the backend's calls, with all threads of a process combined.
Their weight is host time (ns), all memory that they allocated (bytes), the part of it in use at the peak, the device time
of the work that they launched (ns), the bytes that it moved, host time while no device of the process had work (ns), the
number of allocations, or processor time by samples (--sample-stacks). A run with --call-paths has the program's functions, from
main on, around its calls. Calls that were only counted (-m tally) are not included.

examples:
  occa_prof flamegraph RUN
  occa_prof flamegraph RUN -o run.speedscope.json
  occa_prof flamegraph RUN -o run.folded --weight memory
"""
# By the end of the file's name; the first is the default.
FORMATS = {
    "html": (".html",),
    "speedscope": (".json",),
    "folded": (".folded", ".collapsed", ".txt"),
    "pprof": (".pb.gz",),
}


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.epilog = EPILOG
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write to FILE, or with --format to standard output: - (default: RUN/flamegraph.html)",
    )
    parser.add_argument("--format", choices=tuple(FORMATS), help="write this format (default: by the suffix of FILE)")
    parser.add_argument(
        "--weight",
        choices=("time", "memory", "peak", "device-time", "bytes", "idle", "allocations", "cpu"),
        help="set the weight of folded stacks (default: time); the other formats have all weights",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    from occatrace.core.duck import duckdb
    from occatrace.errors import StoreError
    from occatrace.store.tables import open_store
    from occatrace.views import flamegraph

    folder = open_run(args.run)
    form = args.format or next(
        (name for name, ends in FORMATS.items() if args.output and args.output.name.endswith(ends)), None
    )
    if form is None and args.output:
        if standard.is_standard(args.output):
            raise UsageError("-o -: add --format html, speedscope, folded or pprof")
        raise UsageError(f"{args.output}: name it .html, .speedscope.json, .folded or .pb.gz, or add --format")
    form = form or "html"
    if args.weight and form != "folded":
        raise UsageError("--weight is for folded stacks (-o FILE.folded): the other formats have all weights")
    default = {
        "html": "flamegraph.html",
        "speedscope": "flamegraph.speedscope.json",
        "folded": "flamegraph.folded",
        "pprof": "flamegraph.pb.gz",
    }
    output: Path = args.output or result(folder.path, default[form])
    if not standard.is_standard(output):
        check_output(output, args.force or args.output is None)
    try:
        with open_store(folder.path) as store:
            with progress.phase("joining calls to stacks"):
                found = flamegraph.stacks(store)
            facts = run_facts(folder.path)
            missing = store.losses(facts)
        if form == "pprof":
            from occatrace.views import pprof

            content = pprof.profile(found)
        else:
            out = io.StringIO()
            if form == "html":
                from occatrace.views import flame_page

                flame_page.render(found, facts, missing, out)
            elif form == "speedscope":
                flamegraph.speedscope(found, out)
            else:
                flamegraph.folded(found, out, args.weight or "time")
            content = out.getvalue().encode("utf-8", "replace")
        if form == "folded" and not content:
            complain(f"nothing was recorded for --weight {args.weight or 'time'}: the file is empty")
        if not standard.is_standard(output):
            files.replace(output, content)
    except StoreError as error:
        raise UsageError(str(error)) from None
    except duckdb.Error as error:
        raise UsageError(f"{folder.path}: no flame graph can be made: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror or error})") from None
    if standard.is_standard(output):
        standard.write(content)  # whose reader may have gone: that is no file that cannot be written
        return 0
    count = content.count(b"\n") if form == "folded" else sum(len(tree.names) for tree in found)
    where = {
        "html": " (open it in a browser)",
        "speedscope": " (open it at https://www.speedscope.app)",
        "folded": "",
        "pprof": " (read it with `pprof -http : FILE`)",
    }[form]
    print(f"{output}: {count:,} stacks of {len(found)} process{'es' if len(found) != 1 else ''}{where}")
    return 0
