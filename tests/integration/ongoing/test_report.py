"""Reports of a run that goes on: of all that has happened by then, said to be partial, and without a trace in what comes after."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import occatrace
from occatrace import _native
from occatrace.errors import StoreError
from occatrace.ingest import live_buffers
from occatrace.run import liveness
from occatrace.run.nodes import host_name
from occatrace.run.opening import open_run
from occatrace.store import tables
from occatrace.store.tables import native_reader
from tests.support import runs
from tests.support.runs import until
from tests.support.suites.ongoing import Start, Stepper

SIZE = 65536


def kernels(document: dict[str, Any]) -> dict[str, int]:
    """Launches by kernel, from a report of kernels."""
    return {row["name"]: row["calls"] for report in document["reports"] for row in report["rows"]}


def with_steps(stepper: Stepper, count: int) -> dict[str, Any]:
    """The report of kernels once it knows all steps that are done. What is finished is written within a tenth of a
    second, and older than another when it is shown."""
    wanted = {"once": count, "twice": 2 * count}

    def seen() -> dict[str, Any] | None:
        document = stepper.report("gpu_kern_sum")
        assert document["partial"] is True
        assert document["losses"]["partial"].startswith("PARTIAL: the program still runs")
        assert document["losses"]["events"] == 0 and not document["losses"]["killed"]
        return document if kernels(document) == wanted else None

    found: dict[str, Any] = until(seen, f"a report of {count} steps")
    return found


def test_report_at_any_time(start: Start) -> None:
    stepper = start()
    for count in (3, 10):
        stepper.steps(count)
        with_steps(stepper, count)
    # For people the first line says it.
    text = stepper.occa_prof("report", stepper.run).stdout
    assert text.startswith("! PARTIAL: the program still runs; below are its first ")
    assert "HtoD" in text and "clEnqueueNDRangeKernel" in text
    # No tables are left that anybody might take for those of the whole.
    assert not (stepper.run / "tables").exists()
    assert not list(stepper.run.glob(".scratch*"))
    stepper.steps(12)
    errors = stepper.end()
    assert "PARTIAL" not in errors and "lost" not in errors
    done = json.loads(stepper.occa_prof("report", stepper.run, "--format", "json").stdout)
    assert "partial" not in done and "partial" not in done["losses"]
    assert kernels({"reports": [r for r in done["reports"] if r["name"] == "gpu_kern_sum"]}) == {
        "once": 12,
        "twice": 24,
    }


def test_other_commands_say_it_too(start: Start, tmp_path: Path) -> None:
    stepper = start("-q")
    stepper.steps(5)
    with_steps(stepper, 5)
    query = stepper.occa_prof("query", stepper.run, 'SELECT count(*) AS n FROM "opencl.clEnqueueNDRangeKernel"')
    assert query.stdout.startswith("! PARTIAL") and query.stdout.split()[-1] == "15"
    query = stepper.occa_prof("query", stepper.run, "SELECT 1 AS n", "--format", "csv")
    assert query.stdout.split() == ["n", "1"] and query.stderr.startswith("! PARTIAL")
    trace = stepper.occa_prof("trace", stepper.run)
    assert "PARTIAL" in trace.stderr and trace.stdout.count("clEnqueueNDRangeKernel") == 15
    timeline = stepper.occa_prof("timeline", stepper.run, "-o", tmp_path / "x.pftrace")
    assert "PARTIAL" in timeline.stderr and (tmp_path / "x.pftrace").stat().st_size > 0
    export = stepper.occa_prof("export", stepper.run, "-o", tmp_path / "tables")
    assert "PARTIAL" in export.stderr
    assert json.loads((tmp_path / "tables" / "tables.json").read_text())["partial"].startswith("PARTIAL")
    with occatrace.open(stepper.run) as run:
        assert run.losses.partial and run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'").fetchall() == [
            (15,)
        ]
    stepper.end()
    with occatrace.open(stepper.run) as run:
        assert run.losses.partial is None
        assert run.sql("SELECT count(*), sum(bytes) FROM activities WHERE kind = 'HtoD'").fetchall() == [(5, 5 * SIZE)]


def test_calls_that_are_only_counted(start: Start) -> None:
    stepper = start("-m", "tally", "-q")
    stepper.steps(7)

    def counted() -> bool:
        document = stepper.report("api_sum")
        rows = [row for report in document["reports"] for row in report["rows"]]
        return {row["name"]: row["calls"] for row in rows}.get("clEnqueueNDRangeKernel") == 21

    until(counted, "21 launches")
    stepper.end()


def test_buffers_that_fill_while_they_are_read(tmp_path: Path) -> None:
    """Every event is seen once, in the look of its time, wherever it was then: in a buffer, on its way, in a file."""
    program = tmp_path / "busy"
    source = runs.ROOT / "tests" / "programs" / "ongoing" / "busy.c"
    subprocess.run(["gcc", "-O1", f"-I{runs.ROOT / 'include'}", source, "-o", program, "-pthread"], check=True)
    folder = tmp_path / "run"
    command = [*runs.OCCA_PROF, "-q", "-o", folder, program, "2000", "60"]
    process = subprocess.Popen([str(word) for word in command], text=True, stdout=subprocess.PIPE)
    until(lambda: (folder / "trace").is_dir(), "the trace")
    watch = live_buffers.HostWatch(folder, open_run(folder).info, host_name())
    assert watch.complete
    seen = []
    since, looks, whole = -1, 0, False
    while not whole:
        whole = process.poll() is not None
        look = watch.look(tmp_path / "looks", since, whole)
        if look.spans:
            for batch in look.open(native_reader, None, since):
                times = batch.columns["ts"]
                assert since < int(times.min()) and int(times.max()) <= look.until
                seen.append(batch.columns["tid"].astype(np.uint64) << np.uint64(32) | batch.columns["seq"])
            looks += 1
        look.close()
        since = look.until
    assert process.communicate()[0].strip() == "480000" and looks > 1
    with _native.Reader(str(folder / "trace")) as reader:
        there = sum(len(batch) for batch in reader)
    assert there > 480000 and not watch.gaps
    numbers = np.concatenate(seen)
    assert len(numbers) == len(np.unique(numbers)) == there


def test_what_another_node_records_is_not_taken_for_complete(tmp_path: Path) -> None:
    """A shared folder, looked at from a machine on which nothing of the run is: nobody can be asked whether it goes on."""
    run = runs.profiled(runs.Run, tmp_path / "run", [sys.executable, "-c", "import json"], "-q")
    assert run.status == 0, run.stderr
    facts = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps(facts | {"ended": None}))
    (run.folder / "control").mkdir()
    place = run.folder / "control" / "elsewhere.json"
    place.write_text(json.dumps({"file": "/nowhere/switch", "pid": 1}))
    with occatrace.open(run.folder) as partial:
        assert "(of elsewhere" in (partial.losses.partial or "")
        assert partial.sql("SELECT count(*) FROM processes").fetchall() == [(1,)]
    assert not (run.folder / "tables").exists()
    # A node of several that has been silent for long is dead: what there is, is all there will be.
    (run.folder / "nodes").mkdir()
    node = run.folder / "nodes" / "elsewhere.json"
    node.write_text("{}")
    assert liveness.is_recorded(run.folder)
    os.utime(node, (1, 1))
    assert not liveness.is_recorded(run.folder)
    place.unlink()
    node.unlink()
    node.parent.rmdir()
    assert run.sql("SELECT count(*) FROM processes") == [(1,)]
    assert (run.folder / "tables").exists()


def test_with_other_temporary_files(start: Start, tmp_path: Path) -> None:
    """The sockets of the session are where the recording process has its temporary files, not where the report has its own."""
    (tmp_path / "there").mkdir(mode=0o700)
    stepper = start("-q", TMPDIR=str(tmp_path / "there"))
    stepper.steps(2)
    with_steps(stepper, 2)
    stepper.end()
    assert json.loads((stepper.run / "run.json").read_text())["notes"] == []


def test_a_copy_of_a_run_that_goes_on(start: Start, tmp_path: Path) -> None:
    stepper = start("-q")
    stepper.steps(1)
    shutil.copytree(stepper.run, tmp_path / "copy")
    stepper.end()
    done = runs.execute([*runs.OCCA_PROF, "report", tmp_path / "copy"])
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "copy it when the program has ended" in done.stderr


def test_the_end_of_a_run_is_waited_for(tmp_path: Path) -> None:
    """Its session has been stopped, and run.json does not say yet how it ended: nobody was killed."""
    run = runs.profiled(runs.Run, tmp_path / "run", [sys.executable, "-c", "import json"], "-q")
    file = run.folder / "run.json"
    facts = json.loads(file.read_text())
    file.write_text(json.dumps(facts | {"ended": None}))
    with (run.folder / ".recording").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert liveness.is_held(run.folder) and not liveness.is_recorded(run.folder)
        command = [*runs.OCCA_PROF, "query", run.folder, "SELECT count(*) AS n FROM processes", "--format", "csv"]
        process = subprocess.Popen(list(map(str, command)), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until(lambda: list(run.folder.glob(".scratch*")), "a report that waits")
        file.write_text(json.dumps(facts))
        (run.folder / ".recording").unlink()
    output, errors = process.communicate(timeout=runs.PATIENCE)
    assert output.split() == ["n", "1"] and not errors
    assert json.loads(file.read_text())["notes"] == facts["notes"]


def test_a_program_that_runs_untraced_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PATIENCE_S", 0.0)
    run = runs.profiled(runs.Run, tmp_path / "run", [sys.executable, "-c", "import json"], "-q")
    file = run.folder / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"ended": None}))
    with (run.folder / ".recording").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="nothing of it can be read yet"):
            run.sql("SELECT count(*) FROM processes")


def test_a_run_of_which_nothing_has_been_seen_yet(start: Start) -> None:
    stepper = start("-q", "--trace", "cuda")
    stepper.steps(1)
    text = stepper.occa_prof("report", stepper.run).stdout
    assert text.startswith("! PARTIAL") and text.splitlines()[-1].startswith("nothing was recorded so far: ")
    stepper.end()
