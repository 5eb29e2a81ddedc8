"""Programs that end, fork, spawn or load their API in a hazardous way: the program is unharmed, the run is readable, and
what had been written counts. The traced program knows its own truth (tests/programs/hazards/hazard.c)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import occatrace
from tests.support.runs import OCCA_PROF, ROOT
from tests.support.suites.session import nothing_left

# One round of work in the program.
LAUNCHES, WRITTEN, READ = 100, 4096, 4096


@pytest.fixture(scope="session")
def hazard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("hazard") / "hazard"
    subprocess.run(
        ["gcc", "-O1", "-o", program, ROOT / "tests/programs/hazards/hazard.c", "-ldl", "-lpthread"], check=True
    )
    return program


def profile(run: Path, program: Path, *args: str, timeout: float = 300, **kw: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OCCA_PROF, "-o", str(run), str(program), *args], text=True, capture_output=True, timeout=timeout, **kw
    )


def report(run: Path, *names: str) -> dict[str, Any]:
    command = [*OCCA_PROF, "report", str(run), "--format", "json"]
    for name in names:
        command += ["--report", name]
    done = subprocess.run(command, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table = next(r for r in document["reports"] if r["name"] == name)
    columns = [c["name"] for c in table["columns"]]
    return [row if isinstance(row, dict) else dict(zip(columns, row, strict=True)) for row in table["rows"]]


def check_rounds(run: Path, rounds: int) -> dict[str, Any]:
    """The reports say what the program did: nothing is missing and nothing is counted twice."""
    document = report(run, "gpu_kern_sum", "gpu_mem_size_sum", "api_sum")
    kernels = {r["name"]: r for r in rows(document, "gpu_kern_sum")}
    assert kernels["add"]["calls"] == rounds * LAUNCHES
    calls = {r["name"]: r["calls"] for r in rows(document, "api_sum")}
    assert calls["clEnqueueNDRangeKernel"] == rounds * LAUNCHES
    assert calls["clFinish"] == rounds
    copies = {r["name"]: r for r in rows(document, "gpu_mem_size_sum")}
    assert copies["HtoD"]["bytes"] == rounds * WRITTEN
    assert copies["DtoH"]["bytes"] == rounds * READ
    assert document["losses"]["events"] == 0
    return document


@pytest.mark.parametrize(
    ("way", "status"),
    [
        ("exit3", 3),
        ("_exit", 4),
        ("segv", 128 + signal.SIGSEGV),
        ("abort", 128 + signal.SIGABRT),
        ("kill9", 128 + signal.SIGKILL),
    ],
)
def test_the_way_a_program_ends_passes_through_and_its_work_is_there(
    hazard: Path, tmp_path: Path, way: str, status: int
) -> None:
    run = tmp_path / "run"
    assert profile(run, hazard, way).returncode == status
    check_rounds(run, 1)


def test_a_forked_child_is_a_process_of_the_run(hazard: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert profile(run, hazard, "fork").returncode == 0
    document = check_rounds(run, 1)
    calls = {r["name"]: r["calls"] for r in rows(document, "api_sum")}
    assert calls["clCreateKernel"] == 2  # one in the parent, one in the child
    facts = json.loads((run / "run.json").read_text())
    assert len(facts["processes"]) == 2
    with occatrace.open(run) as opened:
        parent, child = opened.sql(
            "SELECT min(p.start_ns), min(c.start_ns), max(c.end_ns) FROM calls c JOIN processes p USING (process)"
            " GROUP BY process ORDER BY process"
        ).fetchall()
    (began, first, _), (forked, first_of_child, last_of_child) = parent, child
    assert began < first < forked < first_of_child < last_of_child  # it begins as it is forked, not with its parent


@pytest.mark.parametrize(("binding", "known"), [("", True), ("false", True), ("close", False)])
def test_the_processors_that_a_process_may_use(hazard: Path, tmp_path: Path, binding: str, known: bool) -> None:
    """Where OpenMP binds threads, the main thread's processors are not those of the process."""
    run, mine = tmp_path / "run", max(os.sched_getaffinity(0))
    command = [*OCCA_PROF, "-q", "-o", str(run), "taskset", "-c", str(mine), str(hazard), "exit3"]
    done = subprocess.run(command, capture_output=True, timeout=300, env=os.environ | {"OMP_PROC_BIND": binding})
    assert done.returncode == 3
    with occatrace.open(run) as opened:
        assert opened.sql("SELECT cpus FROM processes").fetchall() == [(str(mine) if known else "",)]


def test_a_sandbox_in_which_opening_anything_kills(hazard: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = profile(run, hazard, "sandbox")
    assert done.returncode == 6, done.stderr
    check_rounds(run, 2)


@pytest.mark.parametrize(("way", "status"), [("daemon", 7), ("daemon-parent", 0)])
def test_the_parent_of_a_daemon_ends_as_it_should(hazard: Path, tmp_path: Path, way: str, status: int) -> None:
    """daemon(3) ends it by an _exit inside the C library."""
    run = tmp_path / "run"
    done = profile(run, hazard, way)
    assert done.returncode == status, done.stderr
    assert done.stdout == ("parent\n" if way == "daemon-parent" else "")
    assert "ended without notice" not in done.stderr
    check_rounds(run, 1)


def test_fifty_compilers_are_not_traced_and_not_hindered(hazard: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = profile(run, hazard, "fork-exec-50")
    assert done.returncode == 0, done.stderr
    check_rounds(run, 1)


def test_64_threads(hazard: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert profile(run, hazard, "threads64").returncode == 0
    check_rounds(run, 65)


def test_an_api_that_is_unloaded_and_loaded_again(hazard: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = profile(run, hazard, "dlclose")
    assert done.returncode == 0, done.stderr
    check_rounds(run, 4)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_occa_prof_is_forwarded_and_the_report_still_comes(
    hazard: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    run = tmp_path / "run"
    prof = subprocess.Popen(
        [*OCCA_PROF, "-o", str(run), str(hazard), "sleep"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert prof.stdout is not None and prof.stdout.readline() == "ready\n"
    prof.send_signal(sent)
    _, errors = prof.communicate(timeout=300)
    assert prof.returncode == 128 + sent
    assert "add" in errors
    check_rounds(run, 1)


def test_nothing_is_left_behind(hazard: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert profile(run, hazard, "exit3").returncode == 3
    nothing_left(json.loads((run / "run.json").read_text(encoding="utf-8"))["id"])


@pytest.mark.parametrize("arguments", [(), ("run",)], ids=["nothing traced", "OpenCL"])
def test_programs_with_the_address_sanitizer_of_gcc(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Its library refuses to start behind any preloaded one, unless it is told that this is meant."""
    program = tmp_path / "sanitized"
    source = tmp_path / "sanitized.c"
    source.write_text(
        """#include <dlfcn.h>
        int main(int count, char **words) {
          (void)words;
          if (count == 1) return 3;
          void *loader = dlopen("libOpenCL.so.1", RTLD_NOW);
          int (*get)(unsigned, void *, unsigned *) = dlsym(loader, "clGetPlatformIDs");
          unsigned platforms = 0;
          return get(0, 0, &platforms) == 0 && platforms > 0 ? 3 : 4;
        }"""
    )
    built = subprocess.run(["gcc", "-fsanitize=address", "-o", program, source, "-ldl"], capture_output=True)
    if built.returncode != 0 or subprocess.run([program], capture_output=True).returncode != 3:
        pytest.skip("needs gcc's address sanitizer")
    # What the user asks of the sanitizer stays: drivers leak.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = profile(tmp_path / "run", program, *arguments, env=environment)
    assert done.returncode == 3, done.stderr
    if arguments:
        calls = {r["name"]: r["calls"] for r in rows(report(tmp_path / "run", "api_sum"), "api_sum")}
        assert calls == {"clGetPlatformIDs": 1}
    else:
        assert "it made no call of an API that is traced" in done.stderr


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("ulimit -n 24", "it may open only 24 files (ulimit -n): allow "),
        ("ulimit -v 480000", "it may map only 468 MiB (ulimit -v): allow 768 MiB or more"),
    ],
)
def test_limits_that_were_lowered_on_the_way(hazard: Path, tmp_path: Path, limit: str, words: str) -> None:
    """By a shell that occa_prof runs: the program is as without occa_prof, and the run says why it is not there."""
    command = ["sh", "-c", f"{hazard} exit3; {limit}; {hazard} exit3"]
    done = subprocess.run(
        [*OCCA_PROF, "-o", str(tmp_path / "run"), *command], text=True, capture_output=True, timeout=300
    )
    assert done.returncode == 3, done.stderr
    check_rounds(tmp_path / "run", 1)
    (note,) = json.loads((tmp_path / "run/run.json").read_text())["notes"]
    assert " not recorded: " in note and words in note


def test_a_process_in_another_pid_namespace(hazard: Path, tmp_path: Path) -> None:
    """LTTng's daemon cannot tell who it is: it is not waited for, and named."""
    apart = ["unshare", "-Ur", "--pid", "--fork"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs namespaces of users")
    run = tmp_path / "run"
    command = ["sh", "-c", f"{' '.join(apart)} {hazard} exit3; {hazard} exit3"]
    done = subprocess.run([*OCCA_PROF, "-o", str(run), *command], text=True, capture_output=True, timeout=300)
    assert done.returncode == 3, done.stderr
    assert "did not begin to record" not in done.stderr
    check_rounds(run, 1)
    (note,) = json.loads((run / "run.json").read_text())["notes"]
    assert " not recorded: it is in a PID namespace of its own" in note
