"""Traces for the column tests: recorded from the test emitter, read natively or by Debian's bt2, as rows."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parents[1] / "programs" / "columns"
ORACLE = Path(__file__).with_name("bt2_rows.py")
SYSTEM_PYTHON = "/usr/bin/python3"

# Event name to its rows, each a tuple of (name, value) pairs; the rows are sorted, for streams have no common order.
Rows = dict[str, list[tuple[tuple[str, Any], ...]]]


@functools.cache
def emitter() -> Path:
    """Builds tests/programs/columns/emit.c."""
    folder = Path(tempfile.mkdtemp(prefix="occatrace-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "emit"
    command = ["gcc", "-O2", f"-I{PROGRAMS}", str(PROGRAMS / "emit.c"), "-o", str(program)]
    subprocess.run([*command, "-llttng-ust", "-ldl", "-pthread"], check=True)
    return program


@functools.cache
def why_no_recording() -> str:
    """Why no trace can be recorded here; empty if one can."""
    for tool in ("gcc", "lttng", "lttng-sessiond"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    header = ["gcc", "-E", "-x", "c", "-include", "lttng/tracepoint.h", "/dev/null"]
    found = subprocess.run(header, capture_output=True, check=False)
    return "" if found.returncode == 0 else "liblttng-ust-dev is not installed"


@functools.cache
def why_no_oracle() -> str:
    """Why Debian's bt2 cannot be asked; empty if it can."""
    found = subprocess.run([SYSTEM_PYTHON, "-c", "import bt2"], capture_output=True, check=False)
    return "" if found.returncode == 0 else "python3-bt2 is not installed"


@contextmanager
def _daemon(home: Path) -> Iterator[dict[str, str]]:
    """The environment in which `lttng` finds a daemon: root's running one, or one of our own for the time being."""
    env = dict(os.environ, LTTNG_HOME=str(home))
    running = subprocess.run(["lttng", "list"], env=env, capture_output=True, check=False).returncode == 0
    daemon = None
    if not running:
        daemon = subprocess.Popen(
            ["lttng-sessiond"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(100):
            if subprocess.run(["lttng", "list"], env=env, capture_output=True, check=False).returncode == 0:
                break
    try:
        yield env
    finally:
        if daemon is not None:
            daemon.terminate()
            daemon.wait()


def record(
    out: Path,
    *arguments: str,
    events: str = "columns_test:*",
    contexts: Sequence[str] = (),
    sub_buffer: str = "64K",
    program: Path | None = None,
) -> Path:
    """Runs the emitter, or `program`, under LTTng; returns the trace's folder. 8 MB of events per processor are never lost."""
    session = f"columns-{os.getpid()}-{out.name}"
    with _daemon(out.parent) as env:

        def lttng(*words: str) -> None:
            subprocess.run(["lttng", "-q", *words], env=env, check=True, stdout=subprocess.DEVNULL)

        lttng("create", session, "-o", str(out))
        try:
            lttng("enable-channel", "-s", session, "-u", "ch", "--subbuf-size", sub_buffer, "--num-subbuf", "128")
            lttng("enable-event", "-s", session, "-u", "-c", "ch", events)
            for context in contexts:
                lttng("add-context", "-s", session, "-u", "-t", context)
            lttng("start", session)
            subprocess.run([str(program or emitter()), *arguments], env=env, check=True)
            lttng("stop", session)
        finally:
            lttng("destroy", session)
    return next(path.parent for path in out.rglob("metadata"))


def oracle(path: Path) -> Rows:
    """The rows of a trace as Debian's bt2 sees them."""
    done = subprocess.run([SYSTEM_PYTHON, str(ORACLE), str(path)], check=True, stdout=subprocess.PIPE)
    rows: Rows = pickle.loads(done.stdout)
    return rows


def columns(path: Path, **options: Any) -> Rows:
    """The rows of a trace as the native reader sees them."""
    from occatrace import _native

    reader = _native.Reader(path, **options)
    rows = rows_of(reader)
    for problem in reader.problems:
        print(problem, file=sys.stderr)
    return rows


def assert_same(found: Rows, expected: Rows) -> None:
    """Equality with a short message (pytest's own comparison of long lists takes minutes)."""
    assert sorted(found) == sorted(expected)
    for name, rows in expected.items():
        same = found[name] == rows
        if not same:
            differing = [(f, e) for f, e in zip(found[name], rows, strict=False) if f != e][:1]
            raise AssertionError(
                f"{name}: {len(found[name])} rows, expected {len(rows)}; first difference: {differing}"
            )


def rows_of(reader: Any) -> Rows:
    """All rows of all batches, with strings and lists in place."""
    rows: Rows = {}
    for batch in reader:
        kinds = reader.schema[batch.event]
        values: dict[str, list[Any]] = {}
        for name, kind in kinds.items():
            column = batch.columns[name]
            if kind.startswith("seq<"):
                flat = batch.columns[f"{name}.values"]
                assert column.dtype == "u4" and len(column) == len(batch) + 1 and column[0] == 0
                assert column[-1] == len(flat)
                items = [reader.strings[i] for i in flat] if kind == "seq<str>" else flat.tolist()
                values[name] = [tuple(items[a:b]) for a, b in itertools.pairwise(column)]
            else:
                assert len(column) == len(batch)
                values[name] = [reader.strings[i] for i in column] if kind == "str" else column.tolist()
        made = [tuple(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        rows.setdefault(batch.event, []).extend(made)
    for name in rows:
        rows[name].sort(key=repr)
    return rows
