"""The trace of an OCCA program says what the program says of itself, in each mode, however OCCA was built and from
whatever language it is called."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.support.runs import ROOT
from tests.support.suites.occa import BUILDS_AND_MODES, PROGRAMS, Occa, OccaRun, ProfileOcca

DEMO = ("-n", 64, "-s", 3)
BUILDS = pytest.mark.parametrize("occa", ["gcc", "clang", "symbolic", "other"], indirect=True)


def check(run: OccaRun) -> None:
    assert run.seen == run.truth
    # All that was allocated was freed, and nothing else.
    freed = [row for row in run.good("memory_free") if row["bytes"]]
    assert {"count": len(freed), "bytes": sum(row["bytes"] for row in freed)} == run.truth["allocations"]
    assert run.lost == 0


@pytest.mark.parametrize(("occa", "mode"), BUILDS_AND_MODES, indirect=["occa"])
@pytest.mark.parametrize("program", ["demo", "capi", "failing", "sources"])
def test_calls_launches_bytes_and_failures(occa: Occa, profile: ProfileOcca, program: str, mode: str) -> None:
    run = profile(occa, program, mode, *(DEMO if program == "demo" else ()))
    if (occa.name, program) == ("symbolic", "capi"):
        # The C functions call the members within the library, where only the virtual ones can be seen.
        for key in ("kernels", "copies", "allocations", "failed"):
            assert run.seen[key] == run.truth[key]
    else:
        check(run)
    assert {kernel["mode"] for kernel in run.kernels.values()} == {mode}


@pytest.mark.parametrize("mode", ["Serial", "OpenCL"])
def test_python(gcc_occa: Occa, profile: ProfileOcca, mode: str) -> None:
    if importlib.util.find_spec("occa") is None:
        pytest.skip("needs OCCA's Python package: tools/get_occa --python .venv")
    check(profile(gcc_occa, "pyapi", mode))


def lines_of(folder: Path) -> dict[str, str]:
    """Kernel → file:line of its @kernel, read with other means than the tracer's."""
    found = {}
    for file in folder.glob("*.okl"):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = re.match(r"@kernel void (\w+)\(", line)
            if match:
                found[match[1]] = f"{file}:{number}"
    return found


@pytest.mark.parametrize(("occa", "mode"), BUILDS_AND_MODES, indirect=["occa"])
def test_kernels_bear_their_source_file_and_line(occa: Occa, profile: ProfileOcca, mode: str) -> None:
    run = profile(occa, "demo", mode, *DEMO)
    found = {kernel["name"]: f"{kernel['source']}:{kernel['line']}" for kernel in run.kernels.values()}
    assert found == lines_of(ROOT / "examples" / "demo")


@BUILDS
def test_kernels_of_strings_are_told_apart(occa: Occa, profile: ProfileOcca) -> None:
    """Three sources of one name, freed in between, so that objects take each other's addresses."""
    run = profile(occa, "sources", "Serial")
    same = [kernel for kernel in run.kernels.values() if kernel["name"] == "shift"]
    assert len(same) == 3
    assert len({kernel["source"] for kernel in same}) == 3
    assert all(kernel["line"] == 1 for kernel in same)


@BUILDS
def test_every_launch_belongs_to_its_kernel_call(occa: Occa, profile: ProfileOcca) -> None:
    for program in ("demo", "sources"):
        run = profile(occa, program, "OpenCL", *(DEMO if program == "demo" else ()))
        calls = {(row["tid"], row["seq"]): row for row in run.of("kernel_run")}
        launched = dict.fromkeys(calls, 0)
        for work in run.work(kind="kernel"):
            call = work["corr_tid"], work["run_seq"]
            launched[call] += 1
            assert work["name"].startswith(f"_occa_{run.kernels[calls[call]['kernel']]['name']}_")
        assert launched == {call: row["launches"] for call, row in calls.items()}
        for kind, copies in run.truth["copies"].items():
            assert run.bytes_of(kind) == copies["bytes"]


def test_errors_are_told_in_the_words_of_occa(gcc_occa: Occa, profile: ProfileOcca) -> None:
    run = profile(gcc_occa, "failing", "Serial")
    assert run.errors("memory_copyFrom") == ["Destination memory has size [4000], trying to access [0, 8000]"]
    assert "absent.okl" in run.errors("device_buildKernel")[0]
    assert run.errors("kernel_run")[1] == "(addVectors) Kernel expects an occa::memory for argument [2]"


def test_memory_shows_every_kind_of_call_under_its_name(gcc_occa: Occa, profile: ProfileOcca) -> None:
    run = profile(gcc_occa, "sources", "Serial")
    assert len(run.of("memcpy")) == 3
    assert len(run.of("memory_copyFrom")) == len(run.of("memory_copyTo")) == 4
    assert (PROGRAMS / "work.okl").exists()
