"""Runs that did not end. One that is still being recorded is told from one of which everything was killed at once; what
the buffers of that still hold is brought into its trace by lttng-crash."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from occatrace import checksums, disk, scratch, switch
from occatrace import run as runs
from occatrace.job import host_name

PATIENCE_S = 15.0  # for a keeper that is at its work: it saves all there is, and better
LIMIT_S = 120.0  # for lttng-crash
SILENCE_S = 60.0  # after which a node of several is taken for dead
KILLED = "occa_prof was killed before the recording ended: what came after that is missing"
KEEPER, CONSUMER = "occa_keeper", "lttng-consumerd"
_PACKET = struct.Struct("<I16sIQQQQQ")  # begin of a packet of LTTng-UST; the last number is its size in bits
_MAGIC = 0xC1FC1FC1


def is_recorded(run: Path) -> bool:
    """Whether the program of a run is being recorded at this moment."""
    info = _unended(run)
    return info is not None and (
        any(_answers(path) for path in _places(info, "-*/register")) or _is_recorded_elsewhere(run)
    )


def _is_recorded_elsewhere(run: Path) -> bool:
    """Whether another node has begun to record and has not said that it ended: it cannot be asked from here. One of several
    gives signs of life."""
    for place in (run / switch.FOLDER).glob("*.json"):
        if place.stem == host_name():
            continue
        try:
            if time.time() - (run / "nodes" / place.name).stat().st_mtime < SILENCE_S:
                return True
        except OSError:
            return True
    return False


def rescue(run: Path) -> None:
    """Bring what the buffers of a killed run still hold into its trace, and note it; nothing where there is nothing to do."""
    info = _unended(run)
    if not info or is_recorded(run):
        return
    disk.clear_reserves(run)
    notes = list(info.notes)
    for buffers in _places(info):
        if not _wait(buffers, KEEPER, CONSUMER):
            continue
        notes.append(f"everything was killed at once: {save(buffers, _trace_of(run))}")
        shutil.rmtree(buffers, ignore_errors=True)
    for sockets in _places(info, "-*/register"):
        shutil.rmtree(sockets.parent, ignore_errors=True)  # nobody listens there
    for trace in run.glob("trace/[!.]*/"):
        if not trace.is_symlink() and not (trace / checksums.FILE).exists():
            checksums.write(trace)
    if notes == list(info.notes) and not any("was killed" in note for note in notes):
        notes.append(KILLED)
    if notes != list(info.notes):
        runs.open_run(run).updated(notes=tuple(notes))


def save(buffers: Path, trace: Path) -> str:
    """Bring what buffers without a daemon still hold into a trace; what became of it, in words."""
    tool = shutil.which("lttng-crash")
    if tool is None:
        return "the last events are missing (lttng-crash of lttng-tools could have read them from the buffers)"
    if not _wait(buffers, CONSUMER):
        return "the last events are missing: something still reads the buffers"
    try:
        with tempfile.TemporaryDirectory(dir=trace.parent, prefix=scratch.prefix()) as temporary:
            out = Path(temporary, "trace")
            words = [tool, f"--extract={out}", str(buffers / "buffers")]
            subprocess.run(words, check=True, capture_output=True, timeout=LIMIT_S)
            from occatrace import stream

            count = _append(out, stream.written(trace))
    except (OSError, subprocess.SubprocessError) as error:
        return f"the last events are missing: the buffers cannot be read ({error})"
    if not count:
        return "all of the trace had been written"
    return f"the last {count:,} bytes of the trace come from its buffers"


def _unended(run: Path) -> runs.RunInfo | None:
    """What is known of a run that has not said how it ended."""
    try:
        info = runs.open_run(run).info if runs.is_run(run) else None
    except runs.RunError:
        return None
    return info if info and info.id and info.ended is None else None


def _places(info: runs.RunInfo, below: str = "") -> list[Path]:
    """Folders of a run: of its buffers, or (`below`) in those of its sockets. A job has one for each node."""
    shm = Path(str(info.session.get("shm") or "/dev/shm"))
    bases = [shm] if not below else [os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), "/tmp", "/dev/shm"]
    pattern = f"occatrace-{os.getuid()}-{info.id}*{below}"
    return sorted(
        {path for base in bases if base for path in Path(base).glob(pattern) if below or (path / "buffers").is_dir()}
    )


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


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
    there = [path for path in run.glob("trace/*") if path.is_dir()]
    return there[0] if len(there) == 1 else run / "trace" / host_name()


def _append(found: Path, trace: Path) -> int:
    """Put what was found behind what is there; how many bytes."""
    count = 0
    for source in sorted(path for path in found.rglob("*") if path.is_file()):
        target = trace / source.relative_to(found)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(target.parent / "index", ignore_errors=True)  # it knows nothing of what is added
        if source.name == "metadata":
            shutil.copyfile(source, target)  # all of it, whereas that in the trace may have been cut off
            continue
        with source.open("rb") as piece, target.open("ab") as stream:
            stream.truncate(_whole_packets(target))
            stream.seek(0, os.SEEK_END)
            shutil.copyfileobj(piece, stream)
        count += source.stat().st_size
    return count


def _whole_packets(stream: Path) -> int:
    """The length of a stream without a packet that was cut off while it was written."""
    size, at = stream.stat().st_size, 0
    with stream.open("rb") as file:
        while at + _PACKET.size <= size:
            file.seek(at)
            magic, *_, bits = _PACKET.unpack(file.read(_PACKET.size))
            if magic != _MAGIC or not bits or at + bits // 8 > size:
                break
            at += bits // 8
    return at
