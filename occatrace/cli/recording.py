"""What the recording of one program and of the ranks of a node have in common."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from occatrace.core import disk
from occatrace.run import folder as runs

if TYPE_CHECKING:
    from occatrace.record.sampling import Sampler
    from occatrace.record.session import Outcome, Session
    from occatrace.run.control import Plan


def start_sampling(
    run: runs.Run, host: str, args: argparse.Namespace, session: Session, programs: Callable[[], list[int]]
) -> Sampler:
    """Sample the programs that were started, and every process that is traced."""
    from occatrace.record.sampling import Sampler

    registered = session.outcome.processes
    sampler = Sampler(run.path, host, args.choosing.sampling, lambda: [*programs(), *(p.pid for p in registered)])
    sampler.start()
    return sampler


def not_measured(args: argparse.Namespace, sampler: Sampler | None) -> list[str]:
    """At the end: what was to be sampled or counted on this node and could not be, a line each."""
    lines = sampler.stop() if sampler else []
    events = args.choosing.values.get("OCCATRACE_PAPI")
    if events:
        from occatrace._native import papi_refused

        lines += [f"--papi {name or events}: not counted: {why}" for name, why in papi_refused(events)]
    return lines


def note_in(run: runs.Run, say: Callable[[str], object], **changes: Any) -> runs.Run:
    """Write to run.json how a run went, and that it ended. A full disk takes nothing else with it: one line says what is
    missing."""
    try:
        return run.updated(**changes)
    except OSError as error:
        why = disk.needs_room(run.path) if disk.is_full(error) else error.strerror
        say(f"{runs.FILE} does not say how the run ended: {why}")
        return run
    finally:
        if "ended" in changes:
            run.release()


def describe(outcome: Outcome, others: float | None = None) -> runs.SessionFacts:
    """The session for run.json. `others`: the part of the processors' time that other programs used."""
    out: runs.SessionFacts = {"state": outcome.state, "daemon": outcome.daemon}
    if others is not None:
        out["others"] = round(others, 3)
    if outcome.buffers:
        out["buffers"] = {"cpus": outcome.buffers.cpus, "size": outcome.buffers.size, "count": outcome.buffers.count}
    return out


def start_loading(plan: Plan, ready: Callable[[], object] = lambda: None) -> None:
    """Import the modules of the analysis while the program runs: that takes a sixth of a second. The interpreter waits for
    this thread before it ends (no daemon thread): native modules that are still being initialized then crash it.
    `ready` returns when the session has started: the program's first call waits for that, and not for imports.

    Not where recording goes by the clock: imports hold the interpreter, and its turns would be late by 0.1 s and more."""
    if plan.timed:
        return
    with contextlib.suppress(RuntimeError):  # no more threads are allowed (ulimit -u, control groups)
        threading.Thread(target=_load_analysis, args=(ready,), name="load").start()


def _load_analysis(ready: Callable[[], object]) -> None:
    """Import what the analysis needs; whatever fails here fails again, with a message, when it is used."""
    ready()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no linear algebra here: no thread per core
    gc.disable()  # a tenth faster
    try:
        import numpy  # noqa: F401

        import occatrace._native
        import occatrace.cli.report
        import occatrace.ingest
        import occatrace.lttng.recovery
        import occatrace.render.text
        import occatrace.reports.overview
        import occatrace.store.losses  # noqa: F401
        from occatrace.store import tables

        tables.connect_ahead()
    except Exception:
        pass
    finally:
        gc.enable()
