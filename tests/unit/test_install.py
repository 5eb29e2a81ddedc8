"""Which LTTng is used where a wheel brings one, and what is said where the wheel's parts cannot run."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from occatrace import _native
from occatrace.cli import around, choice, doctor, findings, messages
from occatrace.run import install, linker, native

ROOT = Path(__file__).resolve().parents[2]


def use(monkeypatch: pytest.MonkeyPatch, bundle: Path) -> None:
    """Take this folder for the wheel's parts."""
    monkeypatch.setattr(native, "BUNDLE", str(bundle))
    monkeypatch.setattr(install, "BUNDLE", bundle)


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel's parts, and another LTTng in PATH."""
    for folder in ("bundle/bin", "system"):
        (tmp_path / folder).mkdir(parents=True)
        for name in ("lttng-sessiond", "lttng-crash"):
            program = tmp_path / folder / name
            program.write_text("")
            program.chmod(0o755)
    use(monkeypatch, tmp_path / "bundle")
    monkeypatch.setattr(install, "NEEDS", tmp_path / "bundle" / "needs.json")
    monkeypatch.setenv("PATH", str(tmp_path / "system"))
    monkeypatch.setenv(install.SYSTEM_LTTNG, "")
    monkeypatch.delenv("OCCATRACE_SESSIOND", raising=False)
    return tmp_path / "bundle"


def needs(bundle: Path, machine: str, glibc: str) -> None:
    (bundle / "needs.json").write_text(json.dumps({"machine": machine, "glibc": glibc}))


def test_the_wheels_lttng_is_found_before_the_systems(bundle: Path) -> None:
    sessiond = install.sessiond()
    assert sessiond == bundle / "bin" / "lttng-sessiond"
    assert install.lttng_tool("lttng-crash") == bundle / "bin" / "lttng-crash"
    assert native.daemon_environment(str(sessiond)) == {
        "LTTNG_CONSUMERD64_BIN": str(bundle / "bin" / "lttng-consumerd"),
        "LTTNG_SESSION_CONFIG_XSD_PATH": str(bundle / "share"),
    }


def test_the_systems_lttng_where_it_is_asked_for(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = argparse.ArgumentParser()
    choice.add_session(group, "")
    choice.choose_lttng(group.parse_args([]))
    assert install.bundled()
    choice.choose_lttng(group.parse_args(["--system-lttng"]))
    sessiond = install.sessiond()
    assert sessiond == bundle.parent / "system" / "lttng-sessiond"
    assert install.lttng_tool("lttng-crash") == bundle.parent / "system" / "lttng-crash"
    assert native.daemon_environment(str(sessiond)) == {}


def test_a_named_daemon_goes_before_the_wheels(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = bundle.parent / "system" / "lttng-sessiond"
    monkeypatch.setenv("OCCATRACE_SESSIOND", str(named))
    assert install.sessiond() == named
    assert native.daemon_environment(str(named)) == {}


def test_without_a_wheel_the_systems_lttng(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, bundle / "missing")
    assert install.sessiond() == bundle.parent / "system" / "lttng-sessiond"
    assert install.unsuitable() is None


@pytest.mark.parametrize(
    ("machine", "library", "said"),
    [
        (None, "glibc 2.35", None),
        (None, "glibc 3.0", None),
        ("sparc64", "glibc 2.36", "was built for sparc64, and this machine is"),
        (None, "glibc 2.9", "needs glibc 2.35 or later, and this system has glibc 2.9"),
        (None, None, "needs the C library glibc 2.35 or later, and this system has another"),
    ],
)
def test_one_line_where_the_wheel_cannot_run(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, machine: str | None, library: str | None, said: str | None
) -> None:
    needs(bundle, machine or os.uname().machine, "2.35")
    monkeypatch.setattr(os, "confstr", lambda name: library)
    told = install.unsuitable()
    if said is None:
        assert told is None
        return
    assert (
        told and said in told and told.endswith("from its sources here (occa_prof help install)") and "\n" not in told
    )
    # A native module that cannot be loaded is explained by it, not by the loader's words.
    assert messages.words_of(ImportError("libc.musl")) == (told, 2)


def test_a_c_library_that_does_not_know_the_question(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def confstr(name: str) -> str:
        raise ValueError("unrecognized configuration name")

    needs(bundle, os.uname().machine, "2.35")
    monkeypatch.setattr(os, "confstr", confstr)
    assert "this system has another" in (install.unsuitable() or "")


def test_doctor_names_what_nobody_has_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "c_library", lambda: "")
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    found = {finding.what: finding for finding in doctor.system()}
    assert {what: finding.state for what, finding in found.items()} == {
        "C library": findings.BROKEN,
        "processor": findings.NOTE,
        "Python": findings.NOTE,
    }
    assert "glibc" in found["C library"].remedy
    assert found["processor"].remedy == "one of x86_64, aarch64"
    assert found["Python"].remedy == "one of 3.10, 3.11, 3.12, 3.13, 3.14"


def test_doctor_names_what_is_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes, sensors and tools, each with what goes without it; nothing is loaded (the files are no libraries)."""
    monkeypatch.setattr(linker, "known", dict)
    monkeypatch.setattr(install, "hip_library", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    for variable in ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH"):
        monkeypatch.delenv(variable, raising=False)

    def found() -> dict[str, findings.Finding]:
        return {finding.what: finding for finding in (*around.runtimes(), *around.sensors())}

    none = found()
    assert {"MPI", "OpenMP of gcc", "OpenMP with OMPT", "CUDA driver", "CUPTI", "HIP", "rocprofiler", "Level Zero", "PAPI", "NVML",
            "AMD SMI", "sysman", "perf events", "lines of programs"} == set(none)  # fmt: skip
    assert (
        none["MPI"].state == findings.NONE
        and none["CUDA driver"].detail == "no libcuda.so.1: CUDA programs do not run here"
    )
    assert none["lines of programs"].remedy == "apt install binutils"
    for name in ("libcuda.so.1", "libpapi.so.7", "libomp.so.5"):
        (tmp_path / name).touch()
    for tool, said in (("mpirun", "mpirun (Open MPI) 4.1.4"), ("addr2line", "")):
        (tmp_path / tool).write_text(f"#!/bin/sh\necho '{said}'\n")
        (tmp_path / tool).chmod(0o755)
    some = found()
    assert some["MPI"].detail == f"{tmp_path}/mpirun (mpirun (Open MPI) 4.1.4)"
    for what, name in (("CUDA driver", "libcuda.so.1"), ("PAPI", "libpapi.so.7"), ("OpenMP with OMPT", "libomp.so.5"),
                       ("lines of programs", "addr2line")):  # fmt: skip
        assert (some[what].state, some[what].detail) == (findings.OK, f"{tmp_path}/{name}")


def test_doctor_tells_an_occa_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCCA_DIR", str(tmp_path / "occa"))
    assert "has no lib/libocca.so" in next(doctor.occa()).detail

    def refuse(path: object, *args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", refuse)
    assert "may not read" in next(doctor.occa()).detail


@pytest.mark.parametrize(
    ("version", "state"), [("2.0.4", findings.NOTE), ("2.1.0", findings.OK), ("2.10.1", findings.OK)]
)
def test_doctor_says_which_traces_babeltrace_reads(monkeypatch: pytest.MonkeyPatch, version: str, state: str) -> None:
    monkeypatch.setattr(_native, "babeltrace_version", lambda: version)
    found = doctor.babeltrace()
    assert (found.state, found.detail.partition(",")[0]) == (state, version)


@pytest.mark.parametrize("wheel", [True, False])
def test_setup_without_root_says_the_command_that_works(tmp_path: Path, wheel: bool) -> None:
    programs = {"id": "echo 1000", "sudo": "exit 1", "apt-get": "exit 1", "dpkg-query": "exit 1"}
    for folder in ("tools", "bin", "build/dist"):
        (tmp_path / folder).mkdir(parents=True)
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    shutil.copy(ROOT / "tools" / "setup", tmp_path / "tools")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    python = subprocess.run(
        ["python3", "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    name = f"occatrace-9.9-{python.stdout.strip()}-{python.stdout.strip()}-manylinux_2_31_x86_64.whl"
    if wheel:
        (tmp_path / "build" / "dist" / name).touch()
    done = subprocess.run(
        [tmp_path / "tools" / "setup"],
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "without root:" in line]
    command = "python3 -m venv venv && venv/bin/pip install "
    assert command + (f"build/dist/{name}" if wheel else "occatrace-VERSION-cp") in line
    assert ("docs/install.md" in line) is not wheel
