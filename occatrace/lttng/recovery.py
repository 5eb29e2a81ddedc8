"""Runs that did not end. One that is still being recorded is told from one of which everything was killed at once; what
the buffers of that still hold is brought into its trace by lttng-crash."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from occatrace.core import disk, files, scratch
from occatrace.lttng.chunks import written
from occatrace.lttng.packets import EVENTS, EVENTS_MAGIC
from occatrace.run import checksums, install
from occatrace.run import folder as runs
from occatrace.run.layout import RUN_MARK
from occatrace.run.liveness import NODE_MARK, is_held, is_recorded, named_folders, sockets_of, unended
from occatrace.run.nodes import host_name

PATIENCE_S = 15.0  # for a keeper that is at its work: it saves all there is, and better
LIMIT_S = 120.0  # for lttng-crash
KILLED = "occa_prof was killed before the recording ended: what came after that is missing"
KEEPER, CONSUMER = "occa_keeper", "lttng-consumerd"


def rescue(run: Path) -> None:
    """Bring what the buffers of a killed run still hold into its trace, and note it; nothing where there is nothing to do."""
    info = unended(run)
    if info is None or not runs.is_writable(run) or is_held(run) or is_recorded(run):
        return
    disk.clear_reserves(run)
    with contextlib.suppress(OSError):
        (run / runs.HELD).unlink()
    notes = list(info.notes)
    trace = _trace_of(run)
    for buffers in () if trace.is_symlink() else _buffers(run, info):
        if not _wait(buffers, KEEPER, CONSUMER):
            continue
        notes.append(f"everything was killed at once: {save(buffers, trace)}")
        shutil.rmtree(buffers, ignore_errors=True)
        for sockets in sockets_of(run, re.escape(buffers.name.rpartition("-")[2])):
            shutil.rmtree(sockets, ignore_errors=True)  # nobody listens there
    for each in run.glob("trace/[!.]*/"):
        if not each.is_symlink() and not (each / checksums.FILE).exists():
            checksums.write(each)
    if notes == list(info.notes) and not any("was killed" in note for note in notes):
        notes.append(KILLED)
    if notes != list(info.notes):
        runs.read_run(run).updated(notes=tuple(notes))


def save(buffers: Path, trace: Path) -> str:
    """Bring what buffers without a daemon still hold into a trace; what became of it, in words."""
    tool = install.lttng_tool("lttng-crash")
    if tool is None:
        return "the last events are missing (lttng-crash of lttng-tools could have read them from the buffers)"
    if not _wait(buffers, CONSUMER):
        return "the last events are missing: something still reads the buffers"
    try:
        with tempfile.TemporaryDirectory(dir=trace.parent, prefix=scratch.prefix()) as temporary:
            out = Path(temporary, "trace")
            words = [str(tool), f"--extract={out}", str(buffers / "buffers")]
            subprocess.run(words, check=True, capture_output=True, timeout=LIMIT_S)

            count = _append(out, written(trace))
    except (OSError, subprocess.SubprocessError) as error:
        return f"the last events are missing: the buffers cannot be read ({error})"
    if not count:
        return "all of the trace had been written"
    return f"the last {count:,} bytes of the trace come from its buffers"


def _buffers(run: Path, info: runs.RunInfo) -> Iterator[Path]:
    """Folders of a run's buffers on this machine: the caller's own, and marked as of this run."""
    name = re.compile(f"occatrace-{os.geteuid()}-{info.id}{NODE_MARK}")
    for folder in named_folders(Path(info.session.get("shm", "/dev/shm")), name):
        content = folder / "buffers"
        if files.is_private(folder) and _is_marked(folder, run) and content.is_dir() and not content.is_symlink():
            yield folder


def _is_marked(buffers: Path, run: Path) -> bool:
    try:
        return int(files.read_file(buffers / RUN_MARK, 64, follow=False)) == run.stat().st_ino
    except (OSError, ValueError):
        return False


def _wait(buffers: Path, *servants: str) -> bool:
    """Wait until none of these processes is at work for some buffers; whether these are there then."""
    end = time.monotonic() + PATIENCE_S
    while any(_serves(process, servants, str(buffers)) for process in Path("/proc").glob("[0-9]*")):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return buffers.exists()


def _serves(process: Path, servants: tuple[str, ...], buffers: str) -> bool:
    try:
        name = (process / "comm").read_text().strip()
        if name not in servants:
            return False
        return buffers in (process / ("cmdline" if name == KEEPER else "maps")).read_text(errors="replace")
    except OSError:
        return False


def _trace_of(run: Path) -> Path:
    """The trace of this machine."""
    there = [path for path in run.glob("trace/[!.]*") if path.is_dir() and not path.is_symlink()]
    return there[0] if len(there) == 1 else run / "trace" / host_name()


def _append(found: Path, trace: Path) -> int:
    """Put what was found behind what is there, whose folders and files may not be links; how many bytes."""
    count = 0
    for source in sorted(path for path in found.rglob("*") if path.is_file() and not path.is_symlink()):
        with files.folder_below(trace.parent, (trace.name, *source.relative_to(found).parent.parts)) as folder:
            shutil.rmtree(folder / "index", ignore_errors=True)  # it knows nothing of what is added
            count += _append_file(source, folder / source.name)
    return count


def _append_file(source: Path, target: Path) -> int:
    if source.name == "metadata":
        # All of it, whereas that in the trace may have been cut off.
        with source.open("rb") as piece, files.open_own(target, "wb") as stream:
            shutil.copyfileobj(piece, stream)
        return 0
    with source.open("rb") as piece, files.open_own(target, "ab") as stream:
        stream.truncate(_whole_packets(target))
        stream.seek(0, os.SEEK_END)
        shutil.copyfileobj(piece, stream)
    return source.stat().st_size


def _whole_packets(stream: Path) -> int:
    """The length of a stream without a packet that was cut off while it was written."""
    size, at = stream.stat().st_size, 0
    with stream.open("rb") as file:
        while at + EVENTS.size <= size:
            file.seek(at)
            magic, *_, bits, _ = EVENTS.unpack(file.read(EVENTS.size))
            if magic != EVENTS_MAGIC or not bits or at + bits // 8 > size:
                break
            at += bits // 8
    return at
