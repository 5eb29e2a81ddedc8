"""Memory of OCCA 1.2 and later: by a library that behaves like it (tests/fakes/occa2), and by the real one where there is one."""

from __future__ import annotations

import json

import pytest

import occatrace
from tests.support.suites.occa import MODES, PROGRAMS, Occa, OccaRun, ProfileOcca

MEGA = 1 << 20
FAKES = pytest.mark.parametrize("build", ["plain", "symbolic", "opaque"])


def check_pools(run: OccaRun, mode: str) -> None:
    assert run.status == 0, run.stderr
    truth = json.loads(run.stdout)
    assert run.lost == 0
    with occatrace.open(run.folder) as opened:
        rows = {row["kind"]: row for row in opened.report("mem_usage") if row["api"] == "occa"}
        leaks = [(r["bytes"], r["kind"], r["name"]) for r in opened.report("mem_leaks")]
    device = rows["device"]
    assert (device["high_water_bytes"], device["in_use_bytes"]) == (truth["most"], truth["left"])
    assert (device["allocations"], device["frees"], device["name"]) == (10, 8, mode)
    # The slice that was forgotten, and the buffer that it keeps; and what the program had still in use.
    assert [leak for leak in leaks if leak[2].startswith("occa::")] == [
        (5 * MEGA, "device", "occa::device::malloc"),
        (MEGA, "device", "occa::device::malloc"),
        (128, "slice", "occa::memory::slice"),
    ]
    # Each pool's buffer lies within the call that made it.
    pools = ("memoryPool_resize", "memoryPool_setAlignment", "memoryPool_reserve", "memoryPool_shrinkToFit")
    calls = {row["seq"]: event for event in pools for row in run.of(event)}
    grown = [calls[row["scope"]] for row in run.of("device_malloc") if row["nested"]]
    assert grown == [pools[0], pools[0], *pools[1:], pools[0]]
    moved = run.good("memcpy")
    assert [row["bytes"] for row in moved] == [4096 + 8192] * 4  # side by side, so together
    assert all(row["nested"] and run.names[row["mode"]] == mode for row in moved)
    assert [row["bytes"] for row in run.good("memory_copyFrom")] == [3 * MEGA]
    assert len(run.of("memoryPool_free")) == 2


@FAKES
@pytest.mark.parametrize("mode", ["Serial", "OpenCL", "dpcpp"])
def test_slices_and_pools(profile: ProfileOcca, fake_libraries: dict[str, Occa], build: str, mode: str) -> None:
    check_pools(profile(fake_libraries[build], "pools", mode), mode)


@pytest.mark.parametrize("occa", ["other"], indirect=True)
@pytest.mark.parametrize("mode", MODES)
def test_slices_and_pools_of_the_real_one(profile: ProfileOcca, occa: Occa, mode: str) -> None:
    if not (occa.folder / "include/occa/core/memoryPool.hpp").exists():
        pytest.skip("this OCCA has no memory pools")
    check_pools(profile(occa, "pools", mode), mode)


def check_kinds(run: OccaRun) -> None:
    assert run.status == 0, run.stderr
    rows = run.sql("SELECT kind, bytes FROM allocations WHERE api = 'occa' ORDER BY bytes")
    assert rows == [("device", 400), ("managed", 800), ("host", 1200)]


@FAKES
def test_kinds_of_memory_and_tags(profile: ProfileOcca, fake_libraries: dict[str, Occa], build: str) -> None:
    """Also where the functions that read properties are hidden, as inline functions."""
    check_kinds(profile(fake_libraries[build], "kinds", "OpenCL"))
    run = profile(fake_libraries[build], "kinds", "OpenCL", OCCATRACE_LABELS="pinned")
    assert run.sql("SELECT bytes FROM occa_copies") == [(1200,)]


@pytest.mark.parametrize("occa", ["other"], indirect=True)
def test_kinds_of_memory_of_the_real_one(profile: ProfileOcca, occa: Occa) -> None:
    check_kinds(profile(occa, "kinds", "OpenCL"))


def check_inline(profile: ProfileOcca, occa: Occa) -> None:
    run = profile(occa, "inline", "Serial")
    assert run.status == 0, run.stderr
    lines = json.loads(run.stdout)
    query = (
        "SELECT name, source, line, count(*) FROM kernels JOIN kernel_runs USING (kernel) GROUP BY ALL ORDER BY line"
    )
    (first, second) = run.sql(query)
    file = str(PROGRAMS / "inline.cpp")
    assert (first[1:], second[1:]) == ((file, lines["increment"], 3), (file, lines["square"], 2))
    assert first[0] != second[0]
    assert all(name.startswith("_occa_jit_kernel at inline+0x") for name in (first[0], second[0]))
    # That name is what a kernel is chosen by.
    chosen = profile(occa, "inline", "Serial", OCCATRACE_KERNELS=second[0].replace("+", "[+]"))
    assert chosen.sql("SELECT name, count(*) FROM kernels JOIN kernel_runs USING (kernel) GROUP BY ALL") == [
        (second[0], 2)
    ]


@pytest.mark.parametrize("build", ["plain", "symbolic"])
def test_inline_kernels_are_told_apart(profile: ProfileOcca, fake_libraries: dict[str, Occa], build: str) -> None:
    check_inline(profile, fake_libraries[build])


@pytest.mark.parametrize("occa", ["other"], indirect=True)
def test_inline_kernels_of_the_real_one(profile: ProfileOcca, occa: Occa) -> None:
    check_inline(profile, occa)
