"""How OCCA programs end: by an exception that nobody catches, or with memory that outlives its device."""

from __future__ import annotations

import pytest

from tests.support.runs import execute
from tests.support.suites.occa import Occa, OccaRun, ProfileOcca

COPY = "Destination memory has size [400], trying to access [0, 4000]"
BUILDS = pytest.mark.parametrize("occa", ["gcc", "clang", "symbolic", "other"], indirect=True)


def uncaught(profile: ProfileOcca, occa: Occa, what: str) -> OccaRun:
    """The program does as without us, and its stack is still there when it ends."""
    plain = execute([occa.program("dies"), "Serial", what], **occa.environment("Serial"))
    run = profile(occa, "dies", "Serial", what)
    assert run.status == (128 - plain.returncode if plain.returncode < 0 else plain.returncode), run.stderr
    if what != "noexcept":  # of which the runtime has unwound a part by then
        assert run.stdout == plain.stdout
        assert "copyFrom" in plain.stdout or "buildKernel" in plain.stdout
    assert run.lost == 0
    return run


@BUILDS
@pytest.mark.parametrize("what", ["copy", "handler"])
def test_an_uncaught_exception_is_a_failed_call(profile: ProfileOcca, occa: Occa, what: str) -> None:
    run = uncaught(profile, occa, what)
    assert run.status == (7 if what == "handler" else 134)
    assert run.errors("memory_copyFrom") == [COPY]
    assert len(run.good("memory_copyFrom")) == 1
    assert run.sql("SELECT function, error FROM failures") == [("occa::memory::copyFrom", COPY)]


def test_an_exception_that_a_function_lets_not_pass(profile: ProfileOcca, gcc_occa: Occa) -> None:
    """The stack is unwound up to that function, and the call is written as that happens: once."""
    run = uncaught(profile, gcc_occa, "noexcept")
    assert run.errors("memory_copyFrom") == [COPY]
    assert run.sql("SELECT error FROM failures") == [(COPY,)]


def test_a_build_that_nobody_catches(profile: ProfileOcca, gcc_occa: Occa) -> None:
    run = uncaught(profile, gcc_occa, "build")
    ((function, error),) = run.sql("SELECT function, error FROM failures")
    assert function == "occa::device::buildKernel" and "absent.okl" in error
    assert run.sql("SELECT * FROM unfinished") == []


@BUILDS
@pytest.mark.parametrize("how", [(), ("free",)], ids=["last handle", "free"])
def test_memory_that_outlives_its_device(profile: ProfileOcca, occa: Occa, how: tuple[str, ...]) -> None:
    check_outlives(profile(occa, "outlives", "Serial", *how))


@pytest.mark.parametrize("how", [(), ("free",)], ids=["last handle", "free"])
def test_memory_that_outlives_its_device_in_occa2(
    profile: ProfileOcca, fake_libraries: dict[str, Occa], how: tuple[str, ...]
) -> None:
    for build in ("plain", "symbolic"):
        check_outlives(profile(fake_libraries[build], "outlives", "Serial", *how))


def check_outlives(run: OccaRun) -> None:
    assert (run.status, run.stdout) == (0, "ok\n"), run.stderr
    assert run.lost == 0
    rows = run.sql("SELECT kind, mode, bytes, end_ns IS NOT NULL FROM allocations WHERE api = 'occa' ORDER BY kind")
    assert rows == [("device", "Serial", 800, True), ("slice", "Serial", 400, True)]
    assert {run.names[row["mode"]] for row in run.of("memory_free")} == {"Serial"}
