"""Device times by records of rocprofiler-sdk and of roctracer, on stand-ins for both that the runtime for tests drives."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.runs import ROOT
from tests.support.suites.hip import Run

MS = 1_000_000
# Of prefetches they tell nothing.
WORK = (
    "SELECT kind, name, count(*), coalesce(sum(bytes), 0)::INTEGER FROM activities"
    " WHERE kind != 'migrate' GROUP BY ALL ORDER BY ALL"
)
PLATFORM = "SELECT DISTINCT platform FROM devices"
TOLD = "occatrace: device work is timed by events: "
NOWHERE = "/nowhere"


@dataclass(frozen=True)
class Source:
    """A library of records: how it is chosen, what it calls itself, its file, and the variable that says how its stand-in acts."""

    option: str
    title: str
    file: str
    variable: str
    behaves: str


SOURCES = (
    Source("rocprofiler", "rocprofiler-sdk", "librocprofiler-sdk.so.1", "OCCATRACE_ROCPROFILER", "FAKE_ROCPROFILER"),
    Source("roctracer", "roctracer", "libroctracer64.so.4", "OCCATRACE_ROCTRACER", "FAKE_ROCTRACER"),
)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-ins."""
    folder = tmp_path_factory.mktemp("records")
    for source in SOURCES:
        command = [
            "g++",
            "-std=c++17",
            "-O1",
            "-w",
            str(ROOT / f"tests/fakes/hip/{source.option}.cpp"),
            "-shared",
            "-fPIC",
        ]
        command += [
            "-fvisibility=hidden",
            f"-Wl,-soname,{source.file}",
            "-o",
            str(folder / source.file),
            "-lpthread",
            "-ldl",
        ]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


@dataclass(frozen=True)
class Timed:
    """Runs programs with one of the libraries, and without the other."""

    source: Source
    library: Path
    traced: Run

    def __call__(self, *command: str | Path, as_: str = "", options: tuple[str, ...] = (), **env: str) -> runs.Run:
        absent = {source.variable: NOWHERE for source in SOURCES}
        given = {self.source.variable: str(self.library), self.source.behaves: as_, "OCCATRACE_DEVICE_TIME": ""}
        return self.traced(*command, options=options, env={**absent, **given, **env})

    @property
    def platform(self) -> str:
        return f"HIP, device times by {self.source.title}"


@pytest.fixture(params=SOURCES, ids=lambda source: source.option)
def timed(request: pytest.FixtureRequest, traced: Run, libraries: Path) -> Timed:
    source: Source = request.param
    return Timed(source, libraries / source.file, traced)


@pytest.mark.parametrize("as_", ["", "clock"])
def test_a_series_of_kernels_lies_end_to_end(timed: Timed, cases: Path, as_: str) -> None:
    run = timed(cases, "series", "300", as_=as_)
    assert (run.status, run.stdout, run.stderr.count(timed.source.title)) == (0, "done\n", 0), run.stderr
    assert run.sql(PLATFORM) == [(timed.platform,)]
    rows = run.sql(
        "SELECT a.start_ns, a.end_ns, gx, gy, lx, ly, queued_ns, c.function FROM activities a"
        " LEFT JOIN calls c ON c.thread = a.thread AND c.seq = a.seq"
        " WHERE kind = 'kernel' AND name = '_Z4tickm' ORDER BY 1"
    )
    assert len(rows) == 300
    assert all(end - start >= MS for start, end, *_ in rows)
    assert all(row[2:6] == (256, 4, 64, 2) and row[7] == "hipLaunchKernel" for row in rows)
    # By a clock of its own they lie as surely as it is bracketed.
    slack = MS // 2 if as_ else 0
    assert all(later[0] >= earlier[1] - slack for earlier, later in zip(rows, rows[1:], strict=False))
    assert all(row[0] >= row[6] for row in rows)


@pytest.mark.parametrize("case", ["launches", "copies", "graphs", "threads", "devices"])
def test_the_same_work_as_by_events(traced: Run, cases: Path, libraries: Path, case: str) -> None:
    found = []
    for how, title in (*((source.option, source.title) for source in SOURCES), ("events", None)):
        env = {source.variable: str(libraries / source.file) for source in SOURCES}
        run = traced(cases, case, options=("--device-time", how), env={**env, "OCCATRACE_DEVICE_TIME": ""})
        assert run.status == 0, run.stderr
        assert TOLD not in run.stderr and "no traced call" not in run.stderr
        # By events nothing is asked of the libraries.
        assert run.sql(PLATFORM) == [("HIP" if title is None else f"HIP, device times by {title}",)]
        found.append(run.sql(WORK))
        # 2 µs and more is what the runtime takes for a copy, in however many pieces it is told of.
        assert run.sql(
            "SELECT count(*) FROM activities WHERE kind IN ('HtoD', 'DtoH', 'DtoD') AND end_ns - start_ns < 2000"
        ) == [(0,)]
    assert found[0] == found[1] == found[2]


def test_launches_on_several_devices_by_one_call_have_no_record_of_their_own(timed: Timed, cases: Path) -> None:
    run = timed(cases, "all_launches")
    assert run.stdout == "1 9 0\ndone\n"
    assert run.sql("SELECT gx // lx, end_ns - start_ns >= 3000000 FROM activities ORDER BY 1") == [
        (blocks, True) for blocks in (2, 3, 4, 5)
    ]
    assert f"{timed.source.title} tells of 6 pieces of device work that no traced call launched" in run.stderr


def test_a_graph_is_as_long_as_its_nodes(timed: Timed, cases: Path) -> None:
    """Three kernels of 1 ms; the records are of two halves."""
    run = timed(cases, "graphs")
    assert run.stdout == "3 0\ndone\n"
    assert "no traced call" not in run.stderr
    lengths = [end - start for start, end in run.sql("SELECT start_ns, end_ns FROM activities WHERE name = 'graph'")]
    assert len(lengths) == 5 and min(lengths) >= 3 * MS


def test_many_and_none_is_lost_and_no_event_is_in_the_streams(timed: Timed, cases: Path) -> None:
    run = timed(cases, "many", "8000")
    # Live events after each half, and how often a launch that went well left an error behind.
    assert run.stdout.splitlines()[0] == "0 0 0", run.stderr
    assert run.sql("SELECT count(*) FROM activities WHERE name = '_Z5emptym' AND end_ns > start_ns") == [(16600,)]
    assert run.sql("SELECT count(*) FROM losses") == [(0,)]


def test_records_that_never_come(timed: Timed, cases: Path) -> None:
    """The tenth and the twentieth: the one is known to be done, but not when; of the other nothing is told any more."""
    run = timed(cases, "series", "20", as_="losing")
    assert run.status == 0
    assert run.sql("SELECT sum(calls)::INTEGER FROM call_stats WHERE function = 'hipLaunchKernel'") == [(20,)]
    assert run.sql("SELECT count(*) FROM activities WHERE end_ns - start_ns >= 1000000") == [(18,)]
    assert f"{timed.source.title} did not tell when device work ran: of 1 pieces" in run.stderr


def test_taken_or_missing(timed: Timed, cases: Path) -> None:
    source = timed.source

    def said(option: str = source.option, **how: str) -> str:
        run = timed(cases, "series", "20", options=("--device-time", option), **how)
        assert run.sql(PLATFORM) == [("HIP",)]
        assert run.sql(WORK) == [("kernel", "_Z4tickm", 20, 0)]
        (line,) = [line for line in run.stderr.splitlines() if line.startswith(TOLD)]
        return line.removeprefix(TOLD)

    assert said(as_="taken") == f"another tool has {source.title}"
    assert said(as_="refusing") == f"{source.title} refuses to record"
    assert said(**{source.variable: NOWHERE}) == f"{source.file.split('.so')[0]} was not found"
    assert said(LD_PRELOAD=str(timed.library)) == f"the program has loaded {source.title} itself"
    assert said(ROCP_TOOL_LIBRARIES="libtool.so") == "the environment gives the runtime another tool"
    if source.option == "roctracer":
        assert said(HSA_TOOLS_LIB="libtool.so") == "the environment gives the runtime another tool"
        # Where it was not asked for, nothing is said.
        run = timed(cases, "series", "20", as_="taken")
        assert TOLD not in run.stderr
        assert run.sql(WORK) == [("kernel", "_Z4tickm", 20, 0)]
    else:
        assert said(as_="late") == "the HIP runtime does not report to rocprofiler-sdk"
        # A person's own tool is why: that is said whatever was chosen.
        assert said("auto", ROCP_TOOL_LIBRARIES="libtool.so") == "the environment gives the runtime another tool"


def test_a_tool_of_rocprofilers_in_the_program_is_left_alone(
    traced: Run, cases: Path, libraries: Path, tmp_path: Path
) -> None:
    """By the function that makes a library a tool, wherever it was loaded from."""
    tool = tmp_path / "libtool.so"
    source = 'extern "C" void *rocprofiler_configure(unsigned, const char *, unsigned, void *) { return 0; }'
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(tool)]
    subprocess.run(command, input=source, check=True, text=True)
    env = {
        "OCCATRACE_DEVICE_TIME": "",
        "OCCATRACE_ROCTRACER": str(libraries / SOURCES[1].file),
        "LD_PRELOAD": str(tool),
    }
    run = traced(cases, "series", "20", env={**env, "OCCATRACE_ROCPROFILER": str(libraries / SOURCES[0].file)})
    assert TOLD + "the program has a tool of rocprofiler-sdk's" in run.stderr
    assert run.sql(PLATFORM) == [("HIP",)]
    assert run.sql(WORK) == [("kernel", "_Z4tickm", 20, 0)]


def test_the_best_that_there_is(traced: Run, cases: Path, libraries: Path) -> None:
    """rocprofiler-sdk before roctracer before events."""
    there = {source.variable: str(libraries / source.file) for source in SOURCES}
    for absent, title in ((), "rocprofiler-sdk"), (SOURCES[:1], "roctracer"), (SOURCES, None):
        env = {**there, **{source.variable: NOWHERE for source in absent}, "OCCATRACE_DEVICE_TIME": ""}
        run = traced(cases, "series", "5", env=env)
        assert run.sql(PLATFORM) == [("HIP" if title is None else f"HIP, device times by {title}",)]
        assert TOLD not in run.stderr
        assert run.sql(WORK) == [("kernel", "_Z4tickm", 5, 0)]


def test_a_program_that_finds_no_device_is_left_alone(timed: Timed, runtime: Path, tmp_path: Path) -> None:
    program = tmp_path / "probe"
    command = ["g++", "-w", str(ROOT / "tests/programs/hip/probe.cpp"), "-o", str(program)]
    subprocess.run([*command, f"-L{runtime}", "-lamdhip64", "-ldl"], check=True)
    for devices, lines in (("0", 0), ("1", 1)):
        env = {"FAKE_HIP_DEVICES": devices, timed.source.variable: NOWHERE}
        run = timed(program, options=("--device-time", timed.source.option), **env)
        assert run.stdout.split()[1] == devices, run.stderr
        assert run.stderr.count(TOLD) == lines, run.stderr


def test_a_crash_amid_work_leaves_what_had_finished(timed: Timed, cases: Path) -> None:
    run = timed(cases, "crash")
    assert run.status == 134
    ((count,),) = run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'")
    assert 5 <= count < 1005
