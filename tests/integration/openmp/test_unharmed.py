"""What a program with OpenMP does and says is the same when it is traced; several runtimes in one process; Fortran; OCCA."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.suites.occa import occa_build
from tests.support.suites.openmp import KEPT, PROGRAMS, RUNTIMES, Profile, build, compiler


def alone(command: list[object], **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(word) for word in command],
        text=True,
        capture_output=True,
        env=os.environ | environment,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    ("what", "status"), [("fork", 3), ("cancel", 4), ("exit", 5), ("threads", 0), ("reductions", 0)]
)
def test_same_output_and_status(profile: Profile, runtime: str, what: str, status: int) -> None:
    program = build(runtime, "unharmed")
    environment = {"OMP_NUM_THREADS": "3", "OMP_CANCELLATION": "true"}
    native = alone([program, what], **environment)
    assert native[0] == status
    for mode in ("default", "full") if what == "exit" else ("full",):
        run = profile([program, what], mode=mode, **environment)
        assert (run.status, run.stdout) == native, run.stderr
        assert run.lost == 0
    if what == "exit":
        # Where it was when it ended: in the region.
        assert [row["function"] for row in run.rows("SELECT function FROM unfinished")] == ["parallel"]
    if what == "threads":
        assert run.stdout == "threads 3\n"
        (region,) = run.rows("SELECT threads FROM omp_regions")
        assert region["threads"] == 3
    if what == "reductions":
        # Ten tasks of the first region, and those of the loop: 10 iterations by at least 3 are 3.
        assert len(run.rows('SELECT seq FROM "openmp.task"')) == 13


def test_a_tool_of_the_program_stays_in_charge(profile: Profile) -> None:
    program = build("ompt", "unharmed-tool", "-DTOOL", "-rdynamic", source="unharmed.c")
    native = alone([program, "threads"], OMP_NUM_THREADS="2")
    assert native == (0, "threads 2\nthe program's tool saw 1\n")
    run = profile([program, "threads"], OMP_NUM_THREADS="2")
    assert (run.status, run.stdout) == native


def test_a_tool_of_the_user_stays_in_charge(profile: Profile) -> None:
    tool = build("ompt", "tool.so", "-DTOOL", "-shared", "-fPIC", source="unharmed.c")
    program = build("ompt", "unharmed")
    environment = {"OMP_NUM_THREADS": "2", "OMP_TOOL_LIBRARIES": str(tool)}
    native = alone([program, "threads"], **environment)
    assert native == (0, "threads 2\nthe program's tool saw 1\n")
    run = profile([program, "threads"], **environment)
    assert (run.status, run.stdout) == native
    assert "OMP_TOOL_LIBRARIES is set" in run.stderr


def test_program_by_gcc_with_a_library_by_clang(profile: Profile) -> None:
    library = build("ompt", "libregion.so", "-DLIBRARY", "-shared", "-fPIC", source="two_runtimes.c")
    program = build(
        "libgomp", "linked", "-DLINKED", str(library), f"-Wl,-rpath,{library.parent}", source="two_runtimes.c"
    )
    native = alone([program])
    assert native == (0, "program 3, library 3\n")
    run = profile([program])
    assert (run.status, run.stdout) == native
    rows = run.rows("SELECT runtime, function, threads FROM omp_regions ORDER BY start_ns")
    assert {(row["runtime"], row["function"], row["threads"]) for row in rows} == {
        ("libgomp", "main", 2),
        ("ompt", "region", 2),
    }
    assert run.calls["barrier"] == 2 and run.calls["critical"] == 2


def private_libgomp(letter: str, source: str = "two_runtimes.c") -> Path:
    """A libgomp under a name of its own, as Python packages bring them (its name is another everywhere in it), and a library
    of `source` that is linked with it."""
    found = subprocess.run(["gcc", "-print-file-name=libgomp.so.1"], text=True, capture_output=True, check=True).stdout
    folder = KEPT / f"private{letter}"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"libgomp{letter}so.1"
    (folder / name).write_bytes(Path(found.strip()).read_bytes().replace(b"libgomp.so.1", name.encode()))
    (folder / "libgomp.so").unlink(missing_ok=True)
    (folder / "libgomp.so").symlink_to(name)
    library = folder / f"region{letter}.so"
    command = [
        "gcc",
        "-g",
        "-O1",
        "-fopenmp",
        "-DLIBRARY",
        "-shared",
        "-fPIC",
        str(PROGRAMS / source),
        f"-L{folder}",
    ]
    subprocess.run([*command, f"-Wl,-rpath,{folder}", "-o", str(library)], check=True)
    return library


def test_libraries_that_bring_a_libgomp_each(profile: Profile) -> None:
    """Each call goes to the libgomp that the library was made for, traced, tallied and not traced."""
    libraries = [private_libgomp("A"), private_libgomp("B")]
    program = KEPT / "loads"
    subprocess.run(["gcc", str(PROGRAMS / "two_runtimes.c"), "-o", str(program), "-ldl"], check=True)
    # The program itself has no OpenMP: there is no libgomp for everybody.
    assert "libgomp" not in subprocess.run(["ldd", str(program)], text=True, capture_output=True, check=True).stdout
    native = alone([program, *libraries])
    assert native == (0, "loaded 3\n" * 6)
    for mode in ("default", "tally", "minimal"):
        run = profile([program, *libraries], mode=mode)
        assert (run.status, run.stdout) == native, (mode, run.stderr)
    run = profile([program, *libraries], OCCATRACE_DISABLE="1")
    assert (run.status, run.stdout) == native
    run = profile([program, *libraries])
    rows = run.rows(
        "SELECT module, count(*) AS n FROM omp_regions r JOIN sites s ON s.id = r.site GROUP BY ALL ORDER BY module"
    )
    assert [(Path(row["module"]).name, row["n"]) for row in rows] == [("regionA.so", 3), ("regionB.so", 3)]
    assert run.rows("SELECT count(*) AS n FROM omp_threads")[0]["n"] == 12


def test_the_library_of_a_region_is_looked_for_once(profile: Profile) -> None:
    """Not at each call, as LightGBM's took 0.3 ms once: closing what stays loaded changes nothing, and a thread has room for
    fewer places than a library has regions."""
    library = private_libgomp("C", "many_regions.c")
    program = KEPT / "many"
    subprocess.run(["gcc", str(PROGRAMS / "many_regions.c"), "-o", str(program), "-rdynamic", "-ldl"], check=True)
    rounds = 20
    for mode in ("default", "tally"):
        run = profile([program, library, str(rounds)], mode=mode)
        assert (run.status, run.stdout) == (0, f"{2 * 256 * rounds}\n"), run.stderr
        asked = int(run.stderr.split("asked ")[1].split()[0])
        # By each thread for the function and for the place of the call; of 5,120 calls.
        assert asked < 2 * 256 * 4, asked


def test_fortran(profile: Profile) -> None:
    if shutil.which("gfortran") is None:
        pytest.skip("needs gfortran")
    program = KEPT / "libgomp" / "fortran"
    program.parent.mkdir(parents=True, exist_ok=True)
    command = ["gfortran", "-g", "-O1", "-fopenmp", str(PROGRAMS / "fortran.f90"), "-o", str(program)]
    subprocess.run(command, check=True, cwd=program.parent)
    run = profile([program])
    assert run.stdout.endswith("total 59\n"), run.stderr
    assert [row["threads"] for row in run.regions("loop")] == [2]
    assert sum(part["tasks"] for part in run.parts("tasks")) == 4
    assert run.calls["critical"] == 4


# ---- OCCA's OpenMP mode ----


@pytest.mark.parametrize("clang", [False, True])
def test_regions_of_an_occa_kernel_belong_to_it(profile: Profile, tmp_path: Path, clang: bool) -> None:
    """Kernels that OCCA has compiled by g++ run on libgomp, by clang++ on LLVM's runtime."""
    occa = occa_build("gcc")
    environment = dict(occa.environment("OpenMP"))
    if clang:
        command = compiler("ompt")
        environment |= {
            "OCCA_CXX": f"{command[0].replace('clang', 'clang++', 1)}",
            "OCCA_CXXFLAGS": f"-O1 -g {command[-1]}",
            "OCCA_CACHE_DIR": str(KEPT / "cache-clang"),
        }
    run = profile(
        [occa.program("demo"), "-m", "OpenMP", "--truth", tmp_path / "truth"], OMP_NUM_THREADS="2", **environment
    )
    assert run.status == 0, run.stderr
    assert run.lost == 0
    kernels = run.rows("SELECT count(*) AS n FROM kernel_runs")[0]["n"]
    rows = run.rows(
        """SELECT r.runtime, k.name, count(*) AS n, bool_and(r.start_ns >= c.start_ns AND r.end_ns <= c.end_ns) AS inside
        FROM omp_regions r LEFT JOIN kernels k USING (kernel)
        LEFT JOIN kernel_runs c ON c.thread = r.run_thread AND c.seq = r.run_seq GROUP BY ALL"""
    )
    assert rows and all(row["inside"] and row["name"] for row in rows)
    assert {row["runtime"] for row in rows} == {"ompt" if clang else "libgomp"}
    assert sum(row["n"] for row in rows) >= kernels > 0
    # By the place that the author knows, not that of the file that OCCA made in its cache.
    places = run.rows(
        """SELECT DISTINCT r.source AS found, k.source || ':' || k.line AS known FROM omp_regions r JOIN kernels k USING (kernel)"""
    )
    assert places and all(row["found"] == row["known"] and ".okl:" in row["found"] for row in places)
    # The threads of the team, too, through the region.
    workers = run.rows(
        """SELECT count(DISTINCT t.thread) AS n FROM omp_threads t JOIN omp_regions r
        ON r.thread = t.region_thread AND r.seq = t.region_seq WHERE r.kernel IS NOT NULL"""
    )
    assert workers[0]["n"] == 2
