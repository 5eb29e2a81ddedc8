"""The CUDA runtime API: what nvcc makes of a program, linked with a shared runtime."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.runs import OCCA_PROF, execute, profiled
from tests.support.suites.cuda import ROOT, Traced, compiled, in_toolkit

MS = 1_000_000


@pytest.fixture(scope="session")
def program(runtime: Path, nvcc: str) -> Path:
    """A program with kernels, as nvcc compiles it."""
    output = runtime / "kernels"
    source = ROOT / "tests/programs/cuda/kernels.cu"
    # The device's code is never run: the oldest that this compiler knows is as good as any.
    command = [nvcc, "-cudart", "shared", "-cudadevrt", "none", str(source), "-o", str(output), f"-L{runtime}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return output


@pytest.fixture(scope="session", params=["events", "cupti"])
def ran(request: pytest.FixtureRequest, driver: Path, runtime: Path, program: Path, cupti: Path) -> Traced:
    """That program under occa_prof, its device work timed in one of two ways."""
    env = {"OCCATRACE_CUPTI": str(cupti), "LD_LIBRARY_PATH": f"{driver}:{runtime}"}
    run = profiled(Traced, runtime / f"run-{request.param}", [program], "--device-time", request.param, **env)
    ((platform,),) = run.sql("SELECT platform FROM devices")
    assert ("CUPTI" in platform) == (request.param == "cupti") and "traced call launched" not in run.stderr
    # The error of a failed call is still there for the program to take, once, and not one of ours.
    assert (run.status, run.stdout) == (0, "2 2 2 0\n"), run.stderr
    return run


def test_calls_of_a_program_as_nvcc_compiles_it(ran: Traced) -> None:
    calls = dict(
        ran.sql("SELECT function, sum(calls)::INT FROM call_stats WHERE api = 'cudart' GROUP BY function ORDER BY 1")
    )
    assert {name: calls[name] for name in ("cudaMalloc", "cudaMemcpy", "cudaMemcpyAsync", "cudaLaunchKernel")} == {
        "cudaMalloc": 2,
        "cudaMemcpy": 1,
        "cudaMemcpyAsync": 2,
        "cudaLaunchKernel": 5,
    }
    assert ran.sql("SELECT function, error FROM failures WHERE api = 'cudart'") == [
        ("cudaMalloc", "cudaErrorMemoryAllocation")
    ]
    assert ran.sql("SELECT bytes FROM call_stats WHERE function = 'cudaMemcpyAsync'") == [(5000,)]
    # Three launches by `<<<>>>`, in the stream that the program gave; and one that went into a capture.
    kernels = ran.sql(
        "SELECT name, count(*), min(end_ns - start_ns) FROM activities WHERE kind = 'kernel' GROUP BY name ORDER BY name"
    )
    assert [(name, n) for name, n, _ in kernels] == [("_Z5scaleIfEvT_PS0_", 1), ("spin_for", 3)]
    assert kernels[1][2] >= 2 * MS
    assert ran.sql("SELECT count(*), count(DISTINCT queue) FROM activities WHERE name = 'graph'") == [(1, 1)]
    assert ran.sql("SELECT count(*) FROM losses") == [(0,)]


def test_waits_are_those_of_the_calls_of_the_runtime(ran: Traced) -> None:
    by_cupti = "CUPTI" in ran.sql("SELECT platform FROM devices")[0][0]
    waits = ran.sql(
        "SELECT kind, count(*), min(c.function) FROM waits w JOIN calls c USING (thread, seq) GROUP BY 1 ORDER BY 1"
    )
    assert waits == ([("context", 1, "cuCtxSynchronize"), ("stream", 1, "cuStreamSynchronize")] if by_cupti else [])


def test_calls_of_cupti_are_none_of_the_program(ran: Traced) -> None:
    # It asks for the version with each launch.
    assert ran.sql("SELECT function FROM call_stats WHERE function = 'cuDriverGetVersion'") == []
    assert ran.sql("SELECT sum(calls)::INT FROM call_stats WHERE function = 'cuLaunchKernel'") == [(5,)]


def test_a_driver_that_has_let_go_already_is_no_failure(ran: Traced) -> None:
    # At the end of the process the runtime unloads the program's kernels from a driver that is shut down.
    assert ran.sql("SELECT calls, failed FROM call_stats WHERE function = 'cuLibraryUnload'") == [(1, 0)]
    assert ran.sql("SELECT function FROM failures WHERE api = 'cuda'") == [("cuMemAlloc",)]


def test_a_static_runtime_that_refuses_the_driver_ends_as_without_us(
    traced: Callable[..., Traced], driver: Path, nvcc: str
) -> None:
    # NVIDIA's own, which wants more of a driver than the fake has: it lets go of it again.
    library = in_toolkit("lib/libcudart_static.a") or in_toolkit("lib64/libcudart_static.a")
    if library is None:
        pytest.skip("no libcudart_static.a")
    output = driver / "static"
    source = ROOT / "tests/programs/cuda/kernels.cu"
    command = [nvcc, "-cudadevrt", "none", str(source), "-o", str(output), f"-L{library.parent}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    alone = execute([output], LD_LIBRARY_PATH=str(driver))
    run = traced(output)
    assert alone.returncode == 1 and "cudaMalloc" in alone.stdout
    assert (run.status, run.stdout) == (alone.returncode, alone.stdout), run.stderr
    assert run.sql("SELECT function FROM call_stats WHERE function = 'cuInit'") == [("cuInit",)]
    assert run.sql("SELECT exit FROM processes") == [("exit",)]


def test_each_launch_lies_within_its_call_of_the_runtime(ran: Traced) -> None:
    assert ran.sql(
        """
        SELECT count(*) FROM calls inside JOIN calls around ON around.thread = inside.thread
            AND around.start_ns <= inside.start_ns AND inside.end_ns <= around.end_ns
        WHERE inside.function = 'cuLaunchKernel' AND around.function = 'cudaLaunchKernel'"""
    ) == [(5,)]
    # The time of work is counted once, whatever the number of calls that it went through.
    assert ran.sql("SELECT count(*), sum(bytes) FROM activities WHERE kind IN ('HtoD', 'DtoD', 'fill')") == [
        (4, 1000 + 2000 + 3000 + 4000)
    ]


def test_the_name_of_the_kernel_stands_in_the_call(ran: Traced) -> None:
    done = execute([*OCCA_PROF, "trace", ran.folder])
    launches = [line for line in done.stdout.splitlines() if "cudaLaunchKernel(" in line]
    assert len(launches) == 5
    assert sum("spin_for" in line for line in launches) == 4


@pytest.fixture(scope="session")
def static_runtime(runtime: Path) -> Path:
    """The folder of the fake runtime as NVIDIA's static one is: whatever is not its interface has a name of this kind."""
    folder = runtime / "static"
    folder.mkdir()
    compiled(ROOT / "tests/fakes/cuda/runtime.cpp", folder / "runtime.o", ["-c", "-fPIC", "-ffunction-sections"])
    said = subprocess.run(
        ["nm", "--defined-only", folder / "runtime.o"], capture_output=True, text=True, check=True
    ).stdout
    inner = [
        name
        for _, kind, name in map(str.split, said.splitlines())
        if kind in "tT" and not name.startswith(("cuda", "__cuda"))
    ]
    assert len(inner) > 10
    names = "".join(f"{name} libcudart_static_{number:040x}\n" for number, name in enumerate(inner))
    (folder / "names").write_text(names)
    subprocess.run(["objcopy", f"--redefine-syms={folder / 'names'}", folder / "runtime.o"], check=True)
    subprocess.run(["ar", "rc", folder / "libcudart_static.a", folder / "runtime.o"], check=True)
    return folder


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
@pytest.mark.parametrize("kind", ["shared", "static"])
def test_the_place_of_a_launch_is_where_the_person_wrote_it(
    traced: Callable[..., Traced], runtime: Path, static_runtime: Path, nvcc: str, kind: str, optimized: str
) -> None:
    """Not in the stub that nvcc makes of a kernel, nor in a runtime that is a part of the program."""
    output = runtime / f"lines-{kind}{optimized}"
    source = ROOT / "tests/programs/cuda/kernels.cu"
    folder = static_runtime if kind == "static" else runtime
    command = [
        nvcc,
        "-g",
        "-Xcompiler",
        optimized,
        "-cudart",
        kind,
        "-cudadevrt",
        "none",
        str(source),
        "-o",
        str(output),
    ]
    subprocess.run([*command, f"-L{folder}"], check=True, capture_output=True, text=True)
    run = traced(output, env={"LD_LIBRARY_PATH": f"{runtime.parent}:{runtime}"})
    assert (run.status, run.stdout) == (0, "2 2 2 0\n"), run.stderr
    lines = source.read_text(encoding="utf-8").splitlines()
    work = ("<<<dim3", "<<<16", "<<<1,", "cudaMemcpy", "cudaMemsetAsync(", "cudaMalloc")
    wanted = [number for number, line in enumerate(lines, 1) if any(word in line for word in work)]
    found = run.sql(
        "SELECT DISTINCT s.line, s.function, parse_filename(s.file) FROM call_places p JOIN calls c USING (thread, seq)"
        " JOIN call_sites s ON s.process = p.process AND s.site = p.site"
        " WHERE c.function LIKE 'cuLaunchKernel%' OR c.function LIKE 'cuMem%' ORDER BY 1"
    )
    assert found == [(line, "main", "kernels.cu") for line in wanted]


CALLS = "SELECT function, sum(calls)::INT FROM call_stats WHERE api = 'cudart' GROUP BY function ORDER BY 1"


@pytest.fixture(scope="session")
def by_handle(runtime: Path) -> Path:
    """A program that opens the runtime itself and asks it for each function, as TensorFlow and Julia do."""
    program = runtime / "by_handle"
    source = ROOT / "tests/programs/cuda/runtime_by_handle.c"
    subprocess.run(["gcc", str(source), "-o", str(program), "-ldl"], check=True, capture_output=True, text=True)
    return program


def test_a_runtime_asked_by_its_handle(traced: Callable[..., Traced], runtime: Path, by_handle: Path) -> None:
    run = traced(by_handle, "5000", runtime / "libcudart.so.13")
    assert (run.status, run.stdout) == (0, "0 0\n"), run.stderr
    assert dict(run.sql(CALLS)) == {
        "cudaGetDeviceCount": 1,
        "cudaMalloc": 1,
        "cudaMemcpyAsync": 1,
        "cudaDeviceSynchronize": 1,
        "cudaFree": 1,
    }
    assert run.sql("SELECT kind, bytes, count(*) FROM activities GROUP BY ALL") == [("HtoD", 5000, 1)]


def test_a_runtime_that_is_closed_and_opened_again(
    traced: Callable[..., Traced], runtime: Path, by_handle: Path
) -> None:
    run = traced(by_handle, "5000", runtime / "libcudart.so.13", runtime / "libcudart.so")
    assert (run.status, run.stdout) == (0, "0 0\n"), run.stderr
    assert dict(run.sql(CALLS))["cudaMemcpyAsync"] == 3


def test_of_two_runtimes_in_a_process_each_keeps_its_calls(
    traced: Callable[..., Traced], runtime: Path, by_handle: Path, tmp_path: Path
) -> None:
    # Calls of the first are seen; those of the second go where the program sent them, and their work is seen by the driver.
    other = tmp_path / "libcudart_other.so"
    other.write_bytes((runtime / "libcudart.so.13").read_bytes().replace(b"libcudart.so.13\0", b"libcudart.so.99\0"))
    run = traced(by_handle, "5000", runtime / "libcudart.so.13", other)
    assert (run.status, run.stdout) == (0, "0 0\n"), run.stderr
    assert dict(run.sql(CALLS))["cudaMemcpyAsync"] == 1
    assert run.sql("SELECT kind, bytes, count(*) FROM activities GROUP BY ALL") == [("HtoD", 5000, 3)]


def test_a_program_that_looks_for_an_absent_runtime_finds_none(
    traced: Callable[..., Traced], by_handle: Path, tmp_path: Path
) -> None:
    run = traced(by_handle, "1", tmp_path / "libcudart.so.13")
    assert (run.status, run.stdout) == (4, "no CUDA\n")
