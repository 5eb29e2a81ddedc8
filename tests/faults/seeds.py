"""The valid inputs from which the fuzzing starts: folders, made on the spot. Their content does not depend on the machine, except
that of `live`, a program that is recorded now."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.faults.execution import call_in_child
from tests.faults.mutations import plain_metadata

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
TRACE = "trace/vm/ust/uid/0/64-bit"


def _demo(folder: Path) -> None:
    """A run with tables and single calls."""
    from tests.support.fake import demo_trace, recorded

    made = recorded(
        folder / "made", demo_trace(), host="node0", id="0123abcd", ended="2026-01-01T00:00:00+0000", exit_status=0
    )
    made.rename(folder / "run")
    for left in (*(folder / "run").glob(".*"), folder / "made"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    facts = json.loads((folder / "run" / "run.json").read_text())
    more = {
        "cwd": "/home/user",
        "user": "user",
        "started": "2026-01-01T00:00:00+0000",
        "session": {"state": "recorded", "daemon": "own", "buffers": {"cpus": 2, "size": 4096}, "shm": "/dev/shm/x"},
        "processes": [1],
        "losses": {"events": 3},
        "notes": ["a note"],
        "job": {
            "id": "1",
            "launcher": "mpirun",
            "size": 2,
            "nodes": ["node0"],
            "ranks": [{"rank": 0, "host": "node0", "pid": 1, "state": "ended", "status": 0, "signal": None}],
        },
        "choice": {"OCCATRACE_KERNELS": "a|b"},
        "captures": {"node0": [[0, 10], [20, 1 << 62]]},
        "clocks": {"node0": {"offset": 5, "error": 1}},
    }
    (folder / "run" / "run.json").write_text(json.dumps(facts | more))


def _golden(name: str) -> Callable[[Path], None]:
    """A recorded run without tables; of the declared events those that occur, so that the metadata is short."""

    def make(folder: Path) -> None:
        with tarfile.open(GOLDEN / name / "trace.tar.xz") as archive:
            archive.extractall(folder / "run")
        metadata = folder / "run" / TRACE / "metadata"
        text = plain_metadata(metadata.read_bytes())
        head, *events = text.split("\nevent {")
        from occatrace import _native

        reader = _native.Reader(str(folder / "run" / "trace"), threads=1)
        used = {batch.event for batch in reader}
        kept = [event for event in events if any(f'name = "{name}"' in event for name in used)]
        metadata.write_text("\nevent {".join((head, *kept)))

    return make


def _layouts(folder: Path) -> None:
    """A trace with every kind of field, from tests/fuzz/seeds.py, as a run."""
    made = folder / "made"
    subprocess.run([sys.executable, "-m", "tests.fuzz.seeds", made], cwd=ROOT, check=True)
    for file in sorted(made.iterdir()):
        data = file.read_bytes()
        (size,) = struct.unpack_from("<H", data)
        trace = folder / file.name / "trace" / "h"
        trace.mkdir(parents=True)
        (trace / "metadata").write_bytes(plain_metadata(data[2 : 2 + size]).encode())
        (trace / "stream_0").write_bytes(data[2 + size :])
        (folder / file.name / "run.json").write_text(json.dumps({"schema": 1, "program": ["x"], "host": "h"}))
    shutil.rmtree(made)


def _files(folder: Path) -> None:
    """A recording of each tool that `import` reads, and a run to be read by options."""
    from tests.support.foreign import nsys, rocpd
    from tests.unit.test_import_chrome import kineto

    nsys(folder / "nsys.sqlite")
    rocpd(folder / "rocpd.db")
    (folder / "chrome.json").write_text(json.dumps(kineto()))
    _demo(folder)


def _stream(folder: Path) -> None:
    """What --stream keeps while it records: tables of two pieces, merged from a trace."""
    from occatrace.run import layout
    from occatrace.store import stream

    kept = folder / "run" / layout.STREAM_FOLDER / "h"
    (folder / "run" / "trace" / "h").mkdir(parents=True)
    (kept / "000000-000000").mkdir(parents=True)
    (kept / "000000-000000" / "records.json").write_text("{}")
    part = {"name": "000000-000000", "level": 0, "bytes": 10, "rows": {"calls": 1}}
    manifest = {
        "version": stream.VERSION,
        "state": "",
        "parts": [part],
        "consumed": 0,
        "events": 10,
        "until": 5,
        "keep": 0,
    }
    (kept / stream.MANIFEST).write_text(json.dumps(manifest))
    (folder / "run" / "run.json").write_text(json.dumps({"schema": 1, "program": ["x"], "host": "h"}))


def _live(folder: Path) -> None:
    """The program of tests/integration/hazards, recorded now."""
    program = folder / "hazard"
    source = ROOT / "tests/programs/hazards/hazard.c"
    subprocess.run(["gcc", "-O1", "-o", program, source, "-ldl", "-lpthread"], check=True)
    words = [sys.executable, "-m", "occatrace.cli", "-q", "-m", "full", "-o", folder / "run", program, "exit3"]
    subprocess.run(list(map(str, words)), check=False, capture_output=True, cwd=folder)
    program.unlink()
    shutil.rmtree(folder / "run" / "tables", ignore_errors=True)


BASES: Mapping[str, Callable[[Path], None]] = {
    "empty": lambda folder: None,
    "demo": _demo,
    "opencl": _golden("demo-opencl"),
    "serial": _golden("demo-serial"),
    "layouts": _layouts,
    "files": _files,
    "stream": _stream,
    "live": _live,
}


def make(name: str, parent: Path) -> Path:
    """The folder of a base below `parent`, made at the first call."""
    folder = parent / name
    if not folder.exists():
        folder.mkdir(parents=True)
        call_in_child(lambda: BASES[name](folder), folder)
    return folder
