"""Calls of Level Zero against what the program did."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.generated import model
from tests.support.runs import OCCA_PROF, execute
from tests.support.suites.ze import PROGRAMS, Run

CALLS = "SELECT function, sum(calls), sum(failed) FROM call_stats WHERE api = 'ze' GROUP BY 1 ORDER BY 1"


@pytest.mark.usefixtures("driver")
def test_each_function_of_the_loader_by_name_and_by_handle(tmp_path: Path) -> None:
    names = [f["name"] for f in model("ze")["functions"]]
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "/usr/lib/x86_64-linux-gnu/libze_loader.so.1"], capture_output=True, text=True
    ).stdout
    there = sorted({line.split()[2].split("@")[0] for line in listed.splitlines()} & set(names))
    program = tmp_path / "every"
    subprocess.run(["cc", PROGRAMS / "every.c", "-o", program, "-ldl"], check=True)
    # Without a driver each call fails.
    words = [program, *names, *(f"+{name}" for name in names)]
    run = runs.profiled(runs.Run, tmp_path / "run", words, ZE_ENABLE_ALT_DRIVERS=None)
    assert (run.status, run.stdout) == (0, f"{2 * len(there)} 0\n"), run.stderr
    assert len(there) > 280
    assert run.sql(CALLS) == [(name, 4, 4) for name in there]


def test_calls_of_a_program_with_their_failures_and_arguments(traced: Run, cases: Path) -> None:
    run = traced(cases, "calls")
    assert (run.status, run.stdout) == (0, "8 failed, pitch 40\n"), run.stderr
    found = {name: (calls, failed) for name, calls, failed in run.sql(CALLS)}
    assert found == dict.fromkeys(found, (1, 0)) | {
        "zeCommandListAppendMemoryCopy": (3, 1),
        "zeDriverGetExtensionFunctionAddress": (3, 1),
        # Not ready is an answer.
        "zeEventQueryStatus": (3, 0),
        "zeEventHostSynchronize": (1, 0),
        "zeKernelCreate": (3, 2),
        "zeMemAllocDevice": (2, 1),
        "zeMemFree": (3, 1),
        # Asked for by name.
        "zeMemGetPitchFor2dImage": (4, 0),
        "zeModuleCreate": (2, 1),
    }
    assert "1 function of Level Zero that this version does not know was handed to the program" in run.stderr
    assert "zexVendorsOwn" in run.stderr
    lines = execute([*OCCA_PROF, "trace", run.folder]).stdout.splitlines()
    kernels = [re.findall(r'kernel="(\w+)"\) = (\w+)', line)[0] for line in lines if "zeKernelCreate(" in line]
    absent = ("absent", "ZE_RESULT_ERROR_INVALID_KERNEL_NAME")
    assert kernels == [absent, absent, ("tick", "ZE_RESULT_SUCCESS")]
    [module] = [line for line in lines if "zeModuleCreate(" in line and "SUCCESS" in line]
    assert 'size=128, options="-ze-opt-level=2"' in module
    [init] = [line for line in lines if "zeInit(" in line]
    assert "flags=ZE_INIT_FLAG_GPU_ONLY" in init
    [launch] = [line for line in lines if "zeCommandListAppendLaunchKernel(" in line]
    assert re.search(r"numWaitEvents=1, phWaitEvents=\[0x\w+\]", launch)
    # The copy that failed moved nothing.
    assert run.sql("SELECT sum(bytes) FROM call_stats WHERE function = 'zeCommandListAppendMemoryCopy'") == [(1500,)]
    assert run.sql("SELECT kind, bytes, end_ns IS NULL FROM allocations ORDER BY bytes") == [
        ("managed", 500, True),
        ("host", 1000, False),
        ("device", 4096, False),
    ]


def test_what_is_not_chosen_is_not_recorded_and_tallies_count(traced: Run, cases: Path) -> None:
    run = traced(cases, "calls", options=("--trace", "opencl"))
    assert (run.status, run.stdout) == (0, "8 failed, pitch 40\n"), run.stderr
    assert run.sql(CALLS) == []
    run = traced(cases, "calls", options=("-m", "tally"))
    assert ("zeCommandListAppendMemoryCopy", 3, 1) in run.sql(CALLS)
    assert run.sql("SELECT count(*) FROM calls WHERE api = 'ze'") == [(0,)]
