"""`occa_prof timeline RUN`: writes the timeline of a run for Perfetto."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from occatrace.cli import standard
from occatrace.cli.choice import add_names
from occatrace.cli.messages import UsageError, complain
from occatrace.core import progress
from occatrace.core.units import Range, nanoseconds, parse_range
from occatrace.run.folder import result
from occatrace.run.opening import open_run

if TYPE_CHECKING:
    from occatrace.views.timeline import Format, Options, Written

_SUFFIXES: Mapping[Format, str] = {"perfetto": ".pftrace", "csv": ".csv", "json": ".json"}
LARGE = 1_000_000_000  # bytes from which a browser has work to do

EPILOG = """\
times: 1.5s, 200ms, 30us, 8ns, 2m; a bare number is seconds. They count from the first call, range or work of the
run, as Perfetto does for a whole timeline.

examples:
  occa_prof timeline RUN -o run.pftrace.gz
  occa_prof timeline RUN -o part.pftrace --filter-time 1.2s:1.4s --min-duration 5us
  occa_prof timeline RUN -o run.pftrace --split rank      run.rank0.pftrace, run.rank1.pftrace, …
  occa_prof timeline RUN --track 'long=SELECT start_ns AS ts, end_ns - start_ns AS dur, name FROM activities WHERE dur > 1e6'
  occa_prof timeline RUN -o - --format csv | head
  cat run.rank0.pftrace run.rank3.pftrace > both.pftrace  join files of one run, or of several

Open the file at https://ui.perfetto.dev (it stays on your machine). W A S D move there and / searches; select a slice
to see its arguments, and the arrows to the work that it launched.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.epilog = EPILOG
    parser.add_argument("run", metavar="RUN", type=Path, help="read this run folder")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write to FILE, compressed if it ends in .gz; -: to standard output (default: RUN/timeline.pftrace;"
        " RUN/timeline-part.pftrace if options leave something out)",
    )
    parser.add_argument(
        "--track",
        metavar="NAME=SQL",
        action="append",
        default=[],
        type=_track,
        help="add a track with the rows of this SELECT: ts and dur (ns, as in the tables) and name; may be repeated",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument(
        "--format",
        choices=tuple(_SUFFIXES),
        help="write this format (default: by the suffix of FILE, otherwise perfetto); csv: a row per slice, without counters"
        " and arrows; json: Chrome's trace events, for tools that read nothing else: six times as large, slow to load,"
        " less exact",
    )
    parser.add_argument(
        "--split",
        metavar="rank|TIME",
        help="write several files: one per rank (FILE.rank0…), or one per TIME of the run (FILE.000…); each slice is in the"
        " file in which it begins; cat joins the files",
    )
    what = parser.add_argument_group("what to write (default: all)")
    what.add_argument(
        "--filter-time",
        metavar="BEGIN:END",
        help="write only what runs within this part of the run: 1.2s:1.4s from the first call, :25%%, end-500ms:, or times of day"
        " like 2026-11-21T14:03:05",
    )
    what.add_argument("--min-duration", metavar="TIME", help="leave out slices that are shorter")
    what.add_argument(
        "--threads",
        metavar="LIST",
        help="write only these threads, and work launched by them: ids or patterns of names",
    )
    what.add_argument(
        "--apis",
        metavar="LIST",
        help='write only calls of these APIs, as in "occa,opencl"; "device" is the work on devices',
    )
    what.add_argument("--ranks", metavar="LIST", help='write only these ranks of an MPI job, as in "0-3,8"')
    what.add_argument("--filter-name", metavar="REGEX", help="write only slices whose name matches REGEX (unanchored)")
    add_names(parser)
    what.add_argument("--no-counters", action="store_true", help="leave out the counters")
    what.add_argument(
        "--critical-path",
        action="store_true",
        help="add a track with the critical path to each process, and arrows where it goes to another process",
    )


def _track(text: str) -> tuple[str, str]:
    name, _, sql = text.partition("=")
    if not name.strip() or not sql.strip():
        raise argparse.ArgumentTypeError(f"invalid NAME=SQL: {text!r}; see the examples")
    return name.strip(), sql


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    folder = open_run(args.run)
    chosen: Format = args.format or "perfetto"
    for known_format, suffix in _SUFFIXES.items():
        if not args.format and args.output and suffix in args.output.suffixes[-2:]:
            chosen = known_format
    window = parse_range(args.filter_time) if args.filter_time is not None else Range()
    shortest = parse_time(args.min_duration, "--min-duration") if args.min_duration else 0

    from occatrace.core import model
    from occatrace.reports import regex
    from occatrace.views.timeline import ANNOTATIONS, DEVICE, Options

    if args.filter_name:
        regex(args.filter_name)

    apis, known = _split(args.apis), {*model.load().titles, *ANNOTATIONS, DEVICE}
    for api in apis:
        if api not in known:
            raise UsageError(f"--apis {api}: unknown; there are {', '.join(sorted(known))}")
    options = Options(
        window,
        _split(args.threads),
        apis,
        shortest,
        args.filter_name or "",
        parse_ranks(args.ranks),
        args.names,
        counters=not args.no_counters,
        split=parse_split(args.split),
        tracks=tuple(args.track),
        critical_path=args.critical_path,
    )
    stem = "timeline" if replace(options, split=None, critical_path=False) == Options() else "timeline-part"
    if standard.is_standard(args.output):
        if options.split is not None:
            raise UsageError("-o - takes one file: leave out --split")
        with standard.through_file(f"timeline{_SUFFIXES[chosen]}") as path:
            written = write_timeline(folder.path, path, options, chosen)
        _say(written, options)
        return 0
    output: Path = args.output or result(folder.path, f"{stem}{_SUFFIXES[chosen]}")
    earlier = check_output(output, args.force or args.output is None, options.split)
    written = write_timeline(folder.path, output, options, chosen)
    for path in earlier:
        if path not in written.files:
            path.unlink(missing_ok=True)
    _say(written, options)
    advice = "" if chosen == "csv" else " (open it at https://ui.perfetto.dev)"
    sizes = [path.stat().st_size for path in written.files]
    where = f"{written.files[0]} … {written.files[-1].name}: {len(sizes)} files" if len(sizes) > 1 else written.files[0]
    stacks = f"{written.samples:,} samples of stacks, " if written.samples else ""
    print(f"{where}: {written.slices:,} slices, {stacks}{size(sum(sizes))}{advice}")
    return 0


def _say(written: Written, options: Options) -> None:
    """What is not as the reader may expect, on standard error."""
    from occatrace.views.timeline import Options

    if options.split == "rank" and [path.name.split(".")[1] for path in written.files] == ["norank"]:
        complain("the run has no ranks, so --split rank made one file")

    if not written.slices and not written.samples:
        why = "nothing was recorded" if options == Options() else "nothing is left after these filters"
        complain(f"{why}: the timeline {'has only counters' if written.counter_values else 'is empty'}")
    if written.note:
        complain(written.note)
    if written.ranks_missing:
        missing = ", ".join(map(str, written.ranks_missing))
        complain(f"--ranks: rank {missing} is not in this run; there are {written.ranks or 'none'}")


def write_timeline(run: Path, output: Path, options: Options | None = None, format: Format = "perfetto") -> Written:
    """Write the timeline of the run in a folder."""
    from occatrace.core.duck import duckdb
    from occatrace.errors import StoreError
    from occatrace.store.tables import open_store
    from occatrace.views import timeline
    from occatrace.views.timeline import TooManyParts

    def announce(expected: int) -> None:
        if expected > LARGE:
            advice = (
                "--filter-time, --min-duration, --apis, --threads and --ranks make it smaller, --split makes several"
            )
            complain(f"about {size(expected)} will be written, more than a browser shows with ease: {advice}")

    try:
        with open_store(run) as store:
            for line in filter(None, (store.partial, store.calls_lacking)):
                complain(line)
            with progress.phase("writing the timeline"):
                return timeline.write(store, output, options or timeline.Options(), progress.update, announce, format)
    except StoreError as error:
        raise UsageError(str(error)) from None
    except TooManyParts as error:
        raise UsageError(f"--split: {error}") from None
    except duckdb.Error as error:
        raise UsageError(f"{run}: no timeline can be made: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror or error})") from None


def parse_time(text: str, option: str) -> int:
    """Nanoseconds."""
    ns = nanoseconds(text)
    if ns is None:
        raise UsageError(f"{option} {text}: not a time; write 1.5s, 200ms, 30us or 8ns")
    return ns


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def parse_ranks(text: str | None) -> tuple[int, ...]:
    """Numbers of --ranks."""
    ranks: set[int] = set()
    for part in _split(text):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if last < first or last > 1 << 24:
            raise UsageError(f"--ranks {text}: {part} is neither a rank nor a range of ranks; write 0-3,8")
        ranks.update(range(first, last + 1))
    if text is not None and not ranks:
        raise UsageError("--ranks: names no rank; write 0-3,8")
    return tuple(sorted(ranks))


def parse_split(text: str | None) -> int | Literal["rank"] | None:
    """What --split asks for: per rank, or per so many ns."""
    if text is None or text == "rank":
        return "rank" if text else None
    try:
        length = parse_time(text, "--split")
    except UsageError:
        length = 0
    if not length:
        raise UsageError(f"--split {text}: write rank, or a length of time as in 10s")
    return length


def check_output(path: Path, force: bool, split: int | str | None = None) -> list[Path]:
    """Whether a file, or those of --split, may be written there; nothing is overwritten unasked. What is there already."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file by -o")
    there = [path] if os.path.lexists(path) else []
    if split is not None:
        first, dot, rest = path.name.partition(".")
        part = re.compile(re.escape(first) + r"\.(norank|rank\d+|\d{3,})" + re.escape(dot + rest))
        there = [p for p in sorted(path.parent.glob("*")) if part.fullmatch(p.name)] if path.parent.is_dir() else []
    if there and not force:
        raise UsageError(f"{there[0]} exists already: choose another name by -o, or add --force to overwrite it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} does not exist: choose another place by -o")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path.parent} cannot be written to: choose another place by -o")
    return there
