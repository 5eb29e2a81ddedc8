"""`occa_prof report RUN`: prints reports of a run, and the summary that ends every run."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from occatrace.cli import choice, standard
from occatrace.core import files, halfway
from occatrace.core.checked import printable
from occatrace.core.units import duration
from occatrace.errors import RunError
from occatrace.run.folder import result, run_facts
from occatrace.run.liveness import is_held, is_recorded
from occatrace.run.opening import open_run

if TYPE_CHECKING:
    from occatrace.render import Document
    from occatrace.reports import Report
    from occatrace.store.losses import Losses
    from occatrace.store.tables import Store

FORMATS = ("table", "csv", "tsv", "json", "markdown", "html")
PICTURES = ("svg", "png")


class BadInput(RunError):
    """What the user gave cannot be used; the message is one line that says what to do."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Print reports of a run. Percentages name their total; times and sizes have units."
    parser.add_argument("run", metavar="RUN", nargs="?", type=Path, help="read this run folder")
    parser.add_argument(
        "--report",
        metavar="NAME,…",
        action="extend",
        type=choice.names_of_reports,
        default=[],
        help="print these reports; may be repeated (default: the summary)",
    )
    parser.add_argument("--list", action="store_true", help="list the reports; also with --format json")
    parser.add_argument(
        "--format", choices=(*FORMATS, *PICTURES), default="table",
        help="print in this format (default: table); html without --report: a page with plots; svg and png: for one --plot",
    )  # fmt: skip
    parser.add_argument(
        "--plot",
        metavar="NAME",
        help="draw one plot (timeline, util, mem, counters, ranks, critical, kernels, durations, traffic), or bars of any report,"
        " to RUN/NAME.svg, or -o FILE.png",
    )
    parser.add_argument(
        "--source-text", action="store_true",
        help="show the text of source lines in the html page, read from the program's files on this machine",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=("duckdb", "dask"), default="duckdb",
        help="compute with duckdb, or the reports of the summary with dask workers, for runs of very many ranks",
    )  # fmt: skip
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare the trace with the checksums of the recording; print no report",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="use this Dask cluster (default: workers on this machine)"
    )
    choice.add_options(parser.add_argument_group("selection and format"))
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """-o FILE, for all commands that print."""
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write to FILE, not to standard output (-)")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for."""
    from occatrace import reports

    if args.list:
        _list(args.format)
        from occatrace.reports import recipes

        for problem in recipes.problems().values():
            print(f"! {printable(problem)}", file=sys.stderr)
        return 0
    if args.run is None:
        raise BadInput("no run given: occa_prof report RUN (occa_prof report --list lists the reports)")
    for name in args.report:
        reports.definition(name)
    if not args.run.exists() and str(args.run) in reports.definitions():
        raise BadInput(f"{args.run} is a report, not a run: occa_prof report RUN --report {args.run}")
    chosen = choice.Choice.of(args)
    folder = open_run(args.run).path
    if args.verify:
        return _verify(folder)
    if args.engine == "dask" or args.scheduler:
        return _by_dask(folder, args, chosen)
    if args.plot or args.format in PICTURES:
        return _picture(folder, args, chosen)
    if args.source_text and (args.format != "html" or args.report):
        raise BadInput("--source-text is for the page of a run: add --format html, and leave out --report")
    if args.format == "html" and args.output is None and sys.stdout.isatty():
        raise BadInput("a page is not for the terminal: name a file, as in -o report.html")
    with output(args.output, args.force) as out:
        print_reports(folder, out, args.report, args.format, chosen, args.source_text)
    if args.output is not None and args.output.is_file() and not standard.is_standard(args.output):
        what = "page" if args.format == "html" else "reports" if len(args.report) != 1 else "report"
        how = " (open it in a browser)" if args.format == "html" else ""
        print(f"{args.output}: {what}, {args.output.stat().st_size / 1000:,.0f} kB{how}")
    return 0


def _list(fmt: str) -> None:
    """The names of the reports, as text or as JSON."""
    from occatrace import reports
    from occatrace.render.schemas import LISTS

    known = reports.definitions()
    if fmt == "json":
        rows = [{"name": name, "title": entry.title, "about": entry.about} for name, entry in known.items()]
        print(json.dumps({"schema": LISTS, "reports": rows}, indent=1, ensure_ascii=False))
        return
    if fmt != "table":
        raise BadInput("--list prints text, or JSON with --format json")
    width = max(map(len, known))
    for name, entry in known.items():
        print(f"{name:{width}}  {entry.title}: {entry.about}")


def _verify(folder: Path) -> int:
    """Say which files are not as they were recorded."""
    from occatrace.run import checksums

    if is_recorded(folder) or is_held(folder):
        raise BadInput(f"{folder} is being recorded: checksums are written at its end")
    found = checksums.verify(folder)
    for damage in found.damaged:
        print(f"{damage.file} {damage.what}")
    files = f"{found.files} file{'s' if found.files != 1 else ''}"
    if found.damaged:
        print(f"{len(found.damaged)} of {files} damaged")
        return 2
    print(f"{files}, {found.bytes:,} bytes: as they were recorded")
    return 0


def print_reports(
    run: Path,
    out: TextIO,
    names: Sequence[str] = (),
    fmt: str = "table",
    chosen: choice.Choice | None = None,
    source_text: bool = False,
) -> None:
    """Write the given reports of a run, or its summary. `source_text`: a page has the text of source files. Raises a RunError where
    the run cannot be read."""
    from occatrace.render import Document, renderer
    from occatrace.store.tables import open_store

    chosen = chosen or choice.Choice()
    with open_store(run) as store:
        facts = run_facts(run)
        if _can_stream(names, fmt, chosen):
            _stream(store, facts, out, names, fmt, chosen)
            return
        if fmt == "html" and not names:
            from occatrace.views import page

            read = _source_reader(facts) if source_text else None
            renderer(fmt)(page.collect(store, facts, chosen.scoped(store), chosen.rows_of, read), out)
            return
        made = chosen.reports(store, names)
        losses = store.losses(facts)
        document = Document(facts, losses, made, brief=not names and chosen.brief)
        render(document, out, fmt)
        if fmt == "table" and not made:
            why = why_nothing(facts, losses) if chosen.window is None else " in this part of the run"
            out.write(f"nothing was recorded{why}\n")


def _source_reader(facts: Mapping[str, Any]) -> Callable[[str], tuple[Sequence[str] | None, str]]:
    from occatrace.run.sources import read_source

    return lambda path: read_source([Path(path)], facts)


def _can_stream(names: Sequence[str], fmt: str, chosen: choice.Choice) -> bool:
    """Whether there is a report of single events, whose rows are written as they come."""
    from occatrace import reports

    if chosen.by is not None or not any(map(reports.is_endless, names)):
        return False
    from occatrace.render import stream

    return len(names) == 1 or (chosen.sort is None and fmt in stream.EACH)


def _stream(
    store: Store, facts: Mapping[str, Any], out: TextIO, names: Sequence[str], fmt: str, chosen: choice.Choice
) -> None:
    """Write reports one after another, in bounded memory."""
    from occatrace import reports
    from occatrace.render import Document, stream

    document = Document(facts, store.losses(facts), [])
    say_losses(document, fmt)
    of_graph = reports.of_graph(store, names)
    made: dict[str, Report] = {}
    with ExitStack() as stack:

        def part(name: str) -> stream.Part:
            stack.close()  # the one before is written: what it holds is memory that this one needs
            if reports.is_endless(name):
                report, rows = stack.enter_context(chosen.opened(store, name))
                come = stream.blocks(stream.Rows(rows))
            else:
                if name not in made:
                    # Those that share the graph of the run are made together, and held until they are written.
                    wanted = of_graph if name in of_graph else [name]
                    made.update(zip(wanted, chosen.reports(store, wanted), strict=True))
                report = made.pop(name)
                come = iter([(report.rows, True)])
            say_notes([report], fmt)
            return report, come

        parts = map(part, names)
        if len(names) == 1:
            report, come = next(parts)
            stream.render(replace(document, reports=[report]), come, out, fmt)
        else:
            stream.render_each(document, parts, out, fmt)


def render(document: Document, out: TextIO, fmt: str) -> None:
    """Write a document; what a format has no place for goes to standard error."""
    from occatrace.render import renderer

    say_losses(document, fmt)
    renderer(fmt)(document, out)


def say_losses(document: Document, fmt: str) -> None:
    """Say what a format has no place for."""
    if fmt in ("csv", "tsv"):
        for line in document.losses.lines():
            print(f"! {printable(line)}", file=sys.stderr)
    say_notes(document.reports, fmt)


def say_notes(made: Sequence[Report], fmt: str) -> None:
    """Print notes that a format has no place for."""
    if fmt in ("csv", "tsv"):
        for report in made:
            for note in report.notes:
                print(f"! {report.name}: {printable(note)}", file=sys.stderr)


# What starts a capture that was chosen by --capture-range; of range:NAME the program opens the range.
_STARTS = {
    "cudaProfilerApi": "never called cudaProfilerStart or cuProfilerStart",
    "hipProfilerApi": "never called hipProfilerStart",
    "api": "never called occatrace_capture_start()",
}


def why_nothing(facts: Mapping[str, Any], losses: Losses) -> str:
    """Of a run without any row, what is known of the cause, as the end of a line. `facts`: its run.json."""
    if losses.captured:
        recorded, whole = losses.captured
        chosen = str(facts.get("choice", {}).get("OCCATRACE_CAPTURE_RANGE", "none"))
        of_nodes: Mapping[str, Any] = facts.get("captures") or {}
        if of_nodes and not any(of_nodes.values()):
            return f": the program ran for {duration(whole)} and ended before recording began (--delay, --start-paused)"
        if recorded == 0 and chosen.startswith("range:"):
            name = chosen.removeprefix("range:")
            return f": the program never opened a range called {printable(name)!r} (NVTX, ROCTX, ITT, occatrace.h; --capture-range)"
        if recorded == 0 and chosen in _STARTS:
            return f": the program {_STARTS[chosen]} (--capture-range {chosen})"
        return (
            f": no traced call began in the {duration(recorded)} that were recorded of {duration(whole)}; record more of the"
            " run (--delay, --duration, --collect, --capture-range, pause and resume)"
        )
    if losses.partial:
        return " so far: no traced API was used, or none of its calls has ended"
    if losses.excluded:
        return ": filters left out all that was called (above)"
    return ": no traced API was used, or the program was not reached (occa_prof doctor)"


def _picture(folder: Path, args: argparse.Namespace, chosen: choice.Choice) -> int:
    """Write a single plot; of a report that is no plot, bars of its first column of time, size or count."""
    from occatrace import reports
    from occatrace.reports import recipes
    from occatrace.store.tables import open_store
    from occatrace.views import plots
    from occatrace.views.plots import charts, draw
    from occatrace.views.rows import Rows

    if args.plot is None:
        raise BadInput(f"which plot? --plot NAME, one of: {', '.join(plots.PLOTS)}")
    if args.report:
        raise BadInput("--plot draws a plot and --report prints a report: give only one of them")
    suffix = args.output.suffix[1:].lower() if args.output else ""
    fmt = args.format if args.format in PICTURES else suffix if suffix in PICTURES else "svg"
    if args.format not in (*PICTURES, "table"):
        raise BadInput(f"a plot is written as {' or '.join(PICTURES)}, not as {args.format}")
    path: Path = args.output or result(folder, f"{args.plot}.{fmt}")
    with open_store(folder) as store:
        scoped = chosen.scoped(store)
        program = " ".join(map(str, run_facts(folder).get("program", ())))
        if args.plot not in plots.PLOTS and args.plot in {*reports.definitions(), *recipes.problems()}:
            rows = Rows(reports.make(store, args.plot, scoped))
            title, spec = args.plot, rows.spec()
            spec = spec if "title" in spec else charts.titled(spec, rows.title, program)
        else:
            plot = plots.make(plots.source(store, scoped), args.plot)
            if plot is None:
                raise BadInput(
                    f"{folder} has nothing to draw in the plot {args.plot}: {plots.PLOTS[args.plot].nothing}"
                )
            title, spec = plot.title.lower(), charts.titled(plot.chart(plots.ALONE), plot.title, program)
    try:
        content = draw.svg(spec).encode() if fmt == "svg" else draw.png(spec)
    except ValueError as error:  # of a user's own specification
        raise BadInput(f"the plot {args.plot} cannot be drawn: {str(error).partition(chr(10))[0]}") from error
    if standard.is_standard(args.output):
        standard.write(content)
        return 0
    if args.output and os.path.lexists(path) and not args.force:
        raise BadInput(f"{path} exists already: choose another file by -o, or add --force to replace it")
    try:
        files.replace(path, content, 0o666)
    except OSError as error:
        raise BadInput(f"cannot write to {path}: {error.strerror}; choose another file by -o") from error
    print(f"{path}: {title}, {len(content) / 1000:.0f} kB")
    return 0


def print_partial(run: Path, out: TextIO, fmt: str, ranks: int) -> None:
    """Write the summary of a job of very many ranks, from the partial summaries of its nodes."""
    from occatrace.render import Document, renderer
    from occatrace.reports import efficiency, partial
    from occatrace.store import losses
    from occatrace.store.tables import connect

    folders = [file.parent for file in sorted(run.glob("nodes/*/summary/state.parquet"))]
    facts = run_facts(run)
    with halfway.scratch(run) as folder, connect(folder) as con:
        if folders:
            partial.merge_files(folders, folder / "summary", con)
            partial.open_files(folder / "summary", con)
        made = partial.summary(con, ranks) if folders else []
        if made and ranks > 1:
            # Of a smaller job `occa_prof efficiency` makes it of the tables, which such a job does not have in one place.
            made.append(partial.report(con, efficiency.NAME, ranks))
    lost = replace(losses.Losses.none(), notes=list(facts.get("notes", ())))
    renderer(fmt)(Document(facts, lost, made), out)


def _by_dask(folder: Path, args: argparse.Namespace, chosen: choice.Choice) -> int:
    """Print reports that Dask's workers made."""
    from occatrace.render import Document, renderer
    from occatrace.reports import distributed
    from occatrace.store.tables import open_store

    if args.plot or args.format in (*PICTURES, "html") or chosen != choice.Choice():
        raise BadInput("--engine dask makes whole reports: leave out --plot, html and what chooses a part of the run")
    made = distributed.summary(folder, args.report, args.scheduler)
    with open_store(folder) as store, output(args.output, args.force) as out:
        facts = run_facts(folder)
        renderer(args.format)(Document(facts, store.losses(facts), made), out)
    return 0


@contextmanager
def output(path: Path | None, force: bool) -> Iterator[TextIO]:
    """The standard output, or a file that is not overwritten unasked."""
    if path is None or standard.is_standard(path):
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Names are in UTF-8 whatever the locale is; a terminal that does not know a character shows its number, and
            # words of a program need be no valid text.
            old = sys.stdout.encoding.lower() not in ("utf-8", "utf8") and not sys.stdout.isatty()
            sys.stdout.reconfigure(encoding="utf-8" if old else None, errors="backslashreplace")
        yield sys.stdout
        return
    if os.path.lexists(path) and not force:
        raise BadInput(f"{path} exists already: choose another file by -o, or add --force to replace it")
    # Written beside it first: what fails half-way leaves neither half a file nor none in place of an older one.
    special = path.exists() and not path.is_file()
    partial = path if special else halfway.add_path(files.partial_name(path))
    try:
        file = partial.open("w", encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as error:
        why = error.strerror if path.parent.is_dir() else f"the folder {path.parent} does not exist"
        raise BadInput(f"cannot write to {path}: {why}; choose another file by -o") from error
    try:
        with file:
            yield file
        if not special:
            partial.replace(path)
    finally:
        if not special:
            halfway.remove_path(partial)
