"""What the OCCA tests share: the builds of OCCA, the programs made for each of them, and what a trace says of OCCA."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import OCCA_PROF, ROOT, Row, execute
from tests.support.suites.opencl import KINDS
from tests.support.suites.opencl import Run as Trace

PROGRAMS = ROOT / "tests" / "programs" / "occa"
# Builds and OCCA's own cache of kernels are kept between runs of the tests.
KEPT = ROOT / "build" / "tests" / "occa"
MODES = ("Serial", "OpenMP", "OpenCL")
# Every mode with the library as everybody builds it; to the others OpenMP is what Serial is.
BUILDS_AND_MODES = [
    (build, mode)
    for build in ("gcc", "clang", "symbolic", "other")
    for mode in MODES
    if build == "gcc" or mode != "OpenMP"
]
COPIES = ("memory_copyFrom", "memory_copyTo", "memcpy")
BUILDS = ("device_buildKernel", "device_buildKernelFromString")


@dataclass(frozen=True)
class Occa:
    """An OCCA and the programs built against it."""

    name: str
    folder: Path
    built: Path | None = None  # its programs, where they are not kept
    options: tuple[str, ...] = ()  # for make

    @property
    def library(self) -> Path:
        return next(f for f in (self.folder / "lib/libocca.so", self.folder / "lib64/libocca.so") if f.exists())

    def program(self, name: str) -> Path:
        """One of its programs, built when it is first asked for: no build of OCCA needs all of them."""
        return self.built / name if self.built else built_program(self, name)

    def environment(self, mode: str) -> dict[str, str]:
        # OCCA 1.0 gives the Serial and the OpenMP build of a kernel one name in its cache. Its builds share kernels, which they
        # tell apart by compiler: building those of a few programs takes ten seconds and more.
        shared = KEPT if self.name in ("gcc", "clang", "symbolic") else KEPT / self.name
        # Threads that wait sleep: others run beside them.
        passive = {"OMP_WAIT_POLICY": "passive"} if mode == "OpenMP" else {}
        return {"OCCA_DIR": str(self.folder), "OCCA_CACHE_DIR": str(shared / f"cache-{mode}"), **passive}


@cache
def built_program(occa: Occa, name: str) -> Path:
    programs = KEPT / occa.name / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    command = ["make", "-s", "-C", str(PROGRAMS), f"OCCA_DIR={occa.folder}", f"OUT={programs}", *occa.options]
    with (programs / "lock").open("w") as lock:  # other workers build here, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([*command, str(programs / name)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return programs / name


@cache
def get_occa(*options: str) -> Path:
    done = subprocess.run([ROOT / "tools/get_occa", *options], text=True, stdout=subprocess.PIPE, check=True)
    return Path(done.stdout.strip())


def make_symbolic(library: Path) -> None:
    """Makes a shared library look for its symbols in itself first, as linking with -Bsymbolic does: one entry of its
    dynamic section that only speeds up relocation (DT_RELACOUNT) becomes DT_SYMBOLIC."""
    data = bytearray(library.read_bytes())
    (start,), (size, count) = struct.unpack_from("<Q", data, 0x20), struct.unpack_from("<HH", data, 0x36)
    for at in range(start, start + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind != 2:  # PT_DYNAMIC
            continue
        for entry in range(offset, offset + length, 16):
            if struct.unpack_from("<Q", data, entry)[0] == 0x6FFFFFF9:
                struct.pack_into("<QQ", data, entry, 16, 0)
                library.write_bytes(data)
                return
    raise AssertionError(f"no DT_RELACOUNT in {library}")


@cache
def occa_build(name: str) -> Occa:
    """gcc: the library as everybody builds it. clang: calls within the library are inlined. symbolic: they cannot be
    preloaded either. other: any OCCA, given by OCCATRACE_TEST_OCCA_DIR."""
    KEPT.mkdir(parents=True, exist_ok=True)
    if name == "other":
        folder = os.environ.get("OCCATRACE_TEST_OCCA_DIR")
        if not folder:
            pytest.skip("OCCATRACE_TEST_OCCA_DIR names no other OCCA")
        return Occa(name, Path(folder).resolve())
    if name == "clang":
        if not shutil.which("clang++-19"):
            pytest.skip("needs clang++-19")
        return Occa(name, get_occa("--clang"), options=("CXX=clang++-19", "CC=clang-19"))
    if name == "symbolic":
        original = get_occa()
        folder_of_ours = KEPT / "symbolic-occa"
        (folder_of_ours / "lib").mkdir(parents=True, exist_ok=True)
        for part in ("include", "scripts"):
            link = folder_of_ours / part
            if not link.exists():
                link.symlink_to(original / part)
        library = folder_of_ours / "lib/libocca.so"
        if not library.exists():
            shutil.copy(original / "lib/libocca.so", library)
            make_symbolic(library)
        # Variables of such a library must not be copied into the program.
        return Occa(name, folder_of_ours, options=("CFLAGS=-fPIC", "CXXFLAGS=-fPIC"))
    return Occa(name, get_occa())


def occa_in(folder: Path) -> Occa:
    """The OCCA of a folder; the usual one's programs are those of all tests."""
    return Occa("gcc" if folder.resolve() == get_occa().resolve() else "other", folder)


@dataclass(frozen=True)
class OccaRun(Trace):
    """A traced OCCA program."""

    told: dict[str, Any]

    def of(self, event: str) -> list[Row]:
        return self.events.get(f"occa:{event}", [])

    def good(self, event: str) -> list[Row]:
        return [row for row in self.of(event) if not row["error"]]

    @cached_property
    def names(self) -> dict[int, str]:
        return {0: ""} | {row["id"]: row["text"] for row in self.events["process:name"]}

    @cached_property
    def kernels(self) -> dict[int, Row]:  # type: ignore[override]
        """Kernel records by id, with texts."""
        texts = ("name", "mode", "source", "binary")
        return {r["id"]: r | {t: self.names[r[t]] for t in texts} for r in self.events.get("process:kernel", [])}

    def errors(self, event: str) -> list[str]:
        return [self.names[row["error"]] for row in self.of(event) if row["error"]]

    @property
    def seen(self) -> dict[str, Any]:
        """What the trace says, in the words of the program's truth."""
        kernels: dict[str, dict[str, int]] = defaultdict(lambda: {"calls": 0, "launches": 0})
        for row in self.good("kernel_run"):
            kernel = kernels[self.kernels[row["kernel"]]["name"]]
            kernel["calls"] += 1
            kernel["launches"] += row["launches"]
        copies: dict[str, dict[str, int]] = defaultdict(lambda: {"count": 0, "bytes": 0})
        for row in (row for event in COPIES for row in self.good(event)):
            copy = copies[KINDS[row["kind"]]]
            copy["count"] += 1
            copy["bytes"] += row["bytes"]
        allocations = self.good("device_malloc")
        failed = Counter(
            key.removeprefix("occa:") for key, rows in self.events.items() for row in rows if row.get("error")
        )
        return {
            "kernels": dict(kernels),
            "copies": dict(copies),
            "allocations": {"count": len(allocations), "bytes": sum(row["bytes"] for row in allocations)},
            "slices": len(self.good("memory_slice")),
            "builds": sum(len(self.good(event)) for event in BUILDS),
            "finishes": len(self.of("device_finish")),
            "failed": dict(failed),
        }

    @property
    def truth(self) -> dict[str, Any]:
        assert self.status == 0, self.stderr
        return {key: value for key, value in self.told.items() if key not in ("program", "mode")}


ProfileOcca = Callable[..., OccaRun]


@pytest.fixture
def profile(tmp_path: Path) -> ProfileOcca:
    """profile(occa, program, mode, *arguments, **environment); `recording` chooses the recording mode."""

    def run(
        occa: Occa, program: str, mode: str, *arguments: object, recording: str = "default", **more: str
    ) -> OccaRun:
        number = len(list(tmp_path.iterdir()))
        folder, truth = tmp_path / f"run{number}", tmp_path / f"truth{number}.json"
        words: list[str] = [] if program == "pyapi" else [str(occa.program(program))]
        if program == "demo":
            words += ["-m", mode, "--truth", str(truth), *map(str, arguments)]
        elif program == "pyapi":
            words = [sys.executable, str(PROGRAMS / "pyapi.py"), mode, *(map(str, arguments or (10,))), str(truth)]
        elif program == "capi":
            words += [mode, *(map(str, arguments or (10,))), str(truth)]
        elif program in ("failing", "sources"):
            words += [mode, str(truth)]
        else:
            words += [mode, *map(str, arguments)]
        changes: dict[str, str | None] = {**occa.environment(mode), **more}
        if program == "pyapi":
            changes["OCCA_DIR"] = None  # the package insists on its own
        done = execute([*OCCA_PROF, "-m", recording, "-o", folder, "--", *words], **changes)
        told = json.loads(truth.read_text()) if truth.exists() else {}
        return OccaRun(folder, done.returncode, done.stdout, done.stderr, told)

    return run


@pytest.fixture
def occa(request: pytest.FixtureRequest) -> Occa:
    return occa_build(request.param)


@pytest.fixture
def gcc_occa() -> Occa:
    return occa_build("gcc")


# How the library that behaves like OCCA 2 (tests/fakes/occa2) is built: as most are; bound to itself, where virtual members that
# the compiler calls directly can't be seen; with its inline functions hidden.
FAKE_BUILDS = {"plain": (), "symbolic": ("-Wl,-Bsymbolic",), "opaque": ("-DOPAQUE",)}
FAKE_PROGRAMS = ("outlives", "pools", "kinds", "inline")


@pytest.fixture(scope="session")
def fake_libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Occa]:
    """By build. The real one takes too long to build for every machine that tests; OCCATRACE_TEST_OCCA_DIR names one."""
    source, made = ROOT / "tests/fakes/occa2", {}
    for name, options in FAKE_BUILDS.items():
        folder = tmp_path_factory.mktemp(f"occa2-{name}")
        (folder / "lib").mkdir()
        command = ["g++", "-std=c++17", "-O2", "-fPIC", "-shared", *options, str(source / "occa.cpp")]
        subprocess.run([*command, "-o", str(folder / "lib/libocca.so")], check=True, capture_output=True, text=True)
        made[name] = Occa(f"occa2-{name}", folder, folder)
    some = made["plain"].folder
    for program in FAKE_PROGRAMS:
        # One program serves all, as the library is found by its path.
        command = [
            "g++",
            "-std=c++17",
            "-O2",
            "-g",
            "-fPIC",
            f"-I{source}",
            str(PROGRAMS / f"{program}.cpp"),
            f"-L{some}/lib",
            "-locca",
        ]
        subprocess.run([*command, "-Wl,-rpath,$ORIGIN/lib", "-o", str(some / program)], check=True)
        for other in made.values():
            if other.folder != some:
                shutil.copy(some / program, other.folder / program)
    return made
