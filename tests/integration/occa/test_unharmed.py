"""OCCA programs do with us what they do without us."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.suites.occa import KEPT, PROGRAMS, Occa, OccaRun, ProfileOcca, occa_build
from tests.support.suites.opencl import OCCA_PROF

# OCCA's own examples that need neither MPI, a window nor kernels that the archive leaves out.
EXAMPLES = (
    "1_add_vectors",
    "2_background_device",
    "3_reduction",
    "4_building_kernels",
    "5_unified_memory",
    "6_dtypes",
)


def example(occa: Occa, name: str) -> Path:
    source = occa.folder / "examples" / "cpp" / name / "main.cpp"
    if not source.exists():
        pytest.skip(f"this OCCA has no {name}")
    folder = KEPT / occa.name / "examples"
    folder.mkdir(parents=True, exist_ok=True)
    for kernels in (PROGRAMS / "examples").glob("*.okl"):
        shutil.copy(kernels, folder)
    program = folder / name
    if not program.exists():
        lib = str(occa.library.parent)
        command = ["g++", "-std=c++11", "-O1", "-w", f"-I{occa.folder}/include", "-o", str(program), str(source)]
        subprocess.run([*command, f"-L{lib}", "-locca", f"-Wl,-rpath,{lib}"], check=True)
    return program


@pytest.mark.parametrize("device", ["{mode: 'Serial'}", "{mode: 'OpenCL', platform_id: 0, device_id: 0}"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_occa(gcc_occa: Occa, tmp_path: Path, name: str, device: str) -> None:
    program = example(gcc_occa, name)
    mode = "OpenCL" if "OpenCL" in device else "Serial"
    # OCCA believes PWD.
    env = os.environ | gcc_occa.environment(f"examples-{mode}") | {"PWD": str(program.parent)}
    command = [str(program), "-d", device]
    run = {"cwd": program.parent, "env": env, "text": True, "capture_output": True, "timeout": 120}
    plain = subprocess.run(command, check=False, **run)  # type: ignore[call-overload]
    traced = subprocess.run([*OCCA_PROF, "-o", str(tmp_path / "run"), "--", *command], check=False, **run)  # type: ignore[call-overload]
    assert plain.returncode == 0, plain.stderr
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout)


@pytest.mark.parametrize("mode", ["Serial", "OpenCL"])
@pytest.mark.parametrize("recording", ["minimal", "full", "tally"])
def test_recording_modes(gcc_occa: Occa, profile: ProfileOcca, recording: str, mode: str) -> None:
    run = profile(gcc_occa, "demo", mode, "-n", 64, "-s", 2, recording=recording)
    calls = sum(kernel["calls"] for kernel in run.truth["kernels"].values())
    if recording == "tally":
        assert not run.of("kernel_run")
        last: dict[str, int] = {}
        for row in run.events["process:tally"]:
            last[run.names[row["function"]]] = row["count"]
        assert last["occa:kernel_run"] == calls
    else:
        assert run.seen == run.truth
    assert run.lost == 0


def test_compilers_started_by_occa_stay_out_of_the_trace(gcc_occa: Occa, profile: ProfileOcca, tmp_path: Path) -> None:
    run = profile(gcc_occa, "demo", "Serial", "-n", 32, "-s", 1, OCCA_CACHE_DIR=str(tmp_path / "cold"))
    assert run.status == 0, run.stderr
    assert len(run.events["process:process"]) == 1
    assert run.seen == run.truth


def test_occa_loaded_and_closed_at_run_time(gcc_occa: Occa, tmp_path: Path) -> None:
    program = KEPT / "loaded"
    include = gcc_occa.folder / "include"
    subprocess.run(["gcc", "-O1", "-isystem", include, "-o", program, PROGRAMS / "loaded.c", "-ldl"], check=True)
    words = [str(program), str(gcc_occa.library), "3", str(PROGRAMS / "work.okl")]
    env = os.environ | gcc_occa.environment("Serial")
    command = [*OCCA_PROF, "-o", str(tmp_path / "run"), "--", *words]
    done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=300, check=False)
    run = OccaRun(tmp_path / "run", done.returncode, done.stdout, done.stderr, {})
    assert run.status == 0, run.stderr
    assert run.seen["kernels"] == {"addVectors": {"calls": 3, "launches": 0}}
    assert run.seen["copies"] == {"HtoD": {"count": 3, "bytes": 192}, "DtoH": {"count": 3, "bytes": 192}}


def test_a_symbolic_library_really_is_one() -> None:
    """The build `symbolic` of the other tests binds its own calls to itself, preloaded or not."""
    occa = occa_build("symbolic")
    listing = subprocess.run(["readelf", "-d", str(occa.library)], text=True, capture_output=True, check=True).stdout
    assert "(SYMBOLIC)" in listing


@pytest.mark.parametrize("begin", ["occaMalloc", "occaTypedUMalloc"])
def test_a_c_program_without_a_device_of_its_own(tmp_path: Path, begin: str) -> None:
    """With -Bsymbolic only the C function shows that OCCA is in use."""
    occa = occa_build("symbolic")
    program = tmp_path / "begins"
    # -fPIC: no copies of the library's variables in the program, which the library would not use.
    command = ["gcc", "-O1", "-fPIC", "-isystem", str(occa.folder / "include"), str(PROGRAMS / "begins.c")]
    command += ["-o", str(program), f"-L{occa.library.parent}", "-locca", f"-Wl,-rpath,{occa.library.parent}"]
    subprocess.run(command, check=True)
    words = [*OCCA_PROF, "-o", str(tmp_path / "run"), "--", str(program), begin]
    env = os.environ | occa.environment("Serial")
    done = subprocess.run(words, env=env, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    run = OccaRun(tmp_path / "run", done.returncode, done.stdout, done.stderr, {})
    assert run.seen["allocations"] == {"count": 1, "bytes": 400}
