"""What is chosen is complete, what is not is absent and counted: when, which of the work, how much."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.runs import OCCA_PROF, PATIENCE, ROOT, Run, execute, profiled, until
from tests.support.suites.choosing import PROGRAMS, lost
from tests.support.suites.occa import MODES, Occa, occa_build

ROUNDS = 10


@pytest.fixture
def gcc_occa() -> Occa:
    return occa_build("gcc")


@pytest.fixture(scope="session")
def switch_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("choosing") / "switch"
    command = [
        "gcc",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT / 'include'}",
        PROGRAMS / "switch.c",
        "-o",
        target,
    ]
    subprocess.run([*map(str, command), "-lOpenCL", "-lpthread"], check=True)
    return target


def kernel_calls(run: Run) -> dict[str, int]:
    rows = run.sql("SELECT k.name, count(*) FROM kernel_runs r JOIN kernels k USING (kernel) GROUP BY k.name")
    return dict(rows)


def excluded(run: Run) -> dict[str, int]:
    return dict(
        run.sql("SELECT name, sum(count)::BIGINT FROM excluded WHERE reason = 'kernel' AND name != '' GROUP BY name")
    )


def chosen(occa: Occa, mode: str, folder: Path, *options: str, more: tuple[str, ...] = ()) -> Run:
    command = [occa.program("choosing"), mode, ROUNDS, *more]
    run = profiled(Run, folder, command, *options, **occa.environment(mode))
    assert run.status == 0, run.stderr
    assert lost(run) == 0
    return run


# ---- what ----


@pytest.mark.parametrize("mode", MODES)
def test_kernels_by_name_and_iteration(gcc_occa: Occa, mode: str, tmp_path: Path) -> None:
    """Of three kernels one is chosen, by its author's name, one left out by the generated one, and of the chosen some calls."""
    options = ("--kernels", "^scale|^add", "--exclude-kernels", "_occa_addVectors_0", "--kernel-iterations", "3-4,9-")
    run = chosen(gcc_occa, mode, tmp_path / "run", *options)
    assert kernel_calls(run) == {"scaleTwice": 4}
    label = {"addVectors": 20, "spin": 10, "scaleTwice": 6}
    assert excluded(run) == label
    assert "excluded: 36 calls of 3 kernels" in run.stderr
    # What a kernel left out would have launched is not there either, in whatever mode.
    work = dict(run.sql("SELECT name, count(*) FROM activities WHERE kind = 'kernel' GROUP BY name"))
    assert work == ({"_occa_scaleTwice_0": 4, "_occa_scaleTwice_1": 4} if mode == "OpenCL" else {})
    launches = run.sql(
        "SELECT coalesce(sum(calls), 0)::BIGINT FROM call_stats WHERE function = 'clEnqueueNDRangeKernel'"
    )
    assert launches == [(8 if mode == "OpenCL" else 0,)]
    if mode == "OpenMP":
        assert run.sql("SELECT count(*) FROM omp_regions") == [(8,)]  # two loops in each of four calls
    # Everything else is complete.
    assert run.sql("SELECT count(*) FROM occa_copies") == [(4,)]
    assert run.sql("SELECT count(*) FROM ranges WHERE name = 'step'") == [(ROUNDS,)]


@pytest.mark.parametrize("mode", MODES)
def test_tags(gcc_occa: Occa, mode: str, tmp_path: Path) -> None:
    """Of three memory objects one is tagged, of three kernels one has a label and one says no."""
    run = chosen(gcc_occa, mode, tmp_path / "all")
    assert kernel_calls(run) == {"scaleTwice": ROUNDS, "sum of two": 2 * ROUNDS}  # trace: false holds always
    assert excluded(run) == {"spin": ROUNDS}
    run = chosen(gcc_occa, mode, tmp_path / "tagged", "--labels", "resid*")
    assert kernel_calls(run) == {"scaleTwice": ROUNDS}  # it takes the memory of that label
    assert run.sql("SELECT kind, count(*) FROM occa_copies GROUP BY kind ORDER BY kind") == [("DtoH", 1), ("HtoD", 1)]
    calls = dict(run.sql("SELECT function, sum(calls)::BIGINT FROM call_stats WHERE api = 'occa' GROUP BY function"))
    assert calls["occa::device::malloc"] == 1 and "occa::device::finish" not in calls
    work = dict(run.sql("SELECT name, count(*) FROM activities WHERE kind = 'kernel' GROUP BY name"))
    twice = {"_occa_scaleTwice_0": ROUNDS, "_occa_scaleTwice_1": ROUNDS}
    assert work == (twice if mode == "OpenCL" else {})
    assert "without a tag" in run.stderr


def test_functions_streams_and_levels(gcc_occa: Occa, tmp_path: Path) -> None:
    """Functions by pattern, in the words of reports; an API that only counts; a stream that is not there."""
    options = ("--functions", "occa::kernel::run,occa::memory::copy*,clEnqueue*", "--level", "opencl=tally")
    run = chosen(gcc_occa, "OpenCL", tmp_path / "a", *options)
    functions = run.sql(
        "SELECT api || '.' || function, source, sum(calls)::BIGINT FROM call_stats GROUP BY ALL ORDER BY ALL"
    )
    assert [f for f in functions if f[0].startswith("occa.")] == [
        ("occa.occa::kernel::run", "event", 3 * ROUNDS),
        ("occa.occa::memory::copyFrom", "event", 2),
        ("occa.occa::memory::copyTo", "event", 2),
    ]
    opencl = {f[0]: f for f in functions if f[0].startswith("opencl.")}
    assert all(name.startswith("opencl.clEnqueue") and level == "tally" for name, level, _ in opencl.values())
    assert opencl["opencl.clEnqueueNDRangeKernel"][2] == 4 * ROUNDS
    assert run.sql("SELECT count(*) FROM activities") == [(0,)]
    assert run.sql("SELECT sum(count) > 0 FROM excluded WHERE reason = 'function'") == [(True,)]
    assert "calls of functions" in run.stderr
    other = chosen(gcc_occa, "OpenCL", tmp_path / "b", "--streams", "7")
    assert other.sql("SELECT count(*) FROM activities") == [(0,)]
    assert kernel_calls(other)["scaleTwice"] == ROUNDS  # OCCA's own calls are of no stream
    left = other.sql("SELECT sum(count)::BIGINT FROM excluded WHERE reason = 'queue'")[0][0]
    assert left >= 4 * ROUNDS + 4


@dataclass(frozen=True)
class Tagged:
    """What the programs of tags do to what is chosen, in each of ROUNDS and in all."""

    kernels: dict[str, int]
    copies: dict[str, int]
    allocations: int
    builds: int


TAGGED = {
    "--only-tagged": Tagged({"scaleTwice": 2, "sum of two": 1}, {"HtoD": 2, "DtoH": 1}, 2, 2),
    "--labels resid*": Tagged({"scaleTwice": 1}, {"HtoD": 1, "DtoH": 1}, 1, 0),
    "--labels second": Tagged({"scaleTwice": 1}, {"HtoD": 1}, 1, 1),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("language", ["C", "Python"])
def test_tags_in_other_languages(gcc_occa: Occa, language: str, mode: str, tmp_path: Path) -> None:
    """Memory with its copies, its slices and the kernels that take it; kernels; a device with all that is made on it."""
    environment: dict[str, str | None] = {**gcc_occa.environment(mode)}
    command: list[object] = [gcc_occa.program("tags")]
    if language == "Python":
        command = [sys.executable, ROOT / "tests/programs/occa/tags.py"]
        environment["OCCA_DIR"] = None  # the package insists on its own
    for options, wanted in TAGGED.items():
        run = profiled(Run, tmp_path / options.split()[-1], [*command, mode, ROUNDS], *options.split(), **environment)
        assert run.status == 0, run.stderr
        assert lost(run) == 0
        assert kernel_calls(run) == {name: calls * ROUNDS for name, calls in wanted.kernels.items()}
        assert dict(run.sql("SELECT kind, count(*) FROM occa_copies GROUP BY kind")) == wanted.copies
        calls = dict(
            run.sql("SELECT function, sum(calls)::BIGINT FROM call_stats WHERE api = 'occa' GROUP BY function")
        )
        assert calls.get("occa::device::malloc") == wanted.allocations
        assert calls.get("occa::device::buildKernel", 0) == wanted.builds
        work = run.sql("SELECT count(*) FROM activities WHERE kind = 'kernel'")[0][0]
        launches = sum(n * (2 if name == "scaleTwice" else 1) for name, n in wanted.kernels.items())
        assert work == (ROUNDS * launches if mode == "OpenCL" else 0)
        assert "without a tag" in run.stderr


# ---- when ----


def test_a_thousand_pauses_while_eight_threads_launch(switch_program: Path, tmp_path: Path) -> None:
    run = profiled(Run, tmp_path / "run", [switch_program, "threads", 1000])
    assert run.status == 0, run.stderr
    enabled, ordered, total = map(int, run.stdout.split())
    assert 0 < enabled < ordered < total
    assert lost(run) == 0 and run.sql("SELECT count(*) FROM unfinished") == [(0,)]
    # The end of the ordered part, in the trace's time: where the last of its periods ends.
    turns = run.sql("SELECT start_ns, end_ns FROM captures ORDER BY start_ns")
    assert len(turns) == 1000 or len(turns) == 1001
    border = turns[500][1]
    calls = '"opencl.clEnqueueNDRangeKernel"'
    before = run.sql(f"SELECT count(*) FROM {calls} WHERE start_ns < {border}")[0][0]
    assert before == enabled
    # A call that was recorded has its device work, whenever the capture stopped; none is torn, none without its call.
    recorded = run.sql(f"SELECT count(*) FROM {calls}")[0][0]
    assert enabled <= recorded <= total
    assert run.sql("SELECT count(*), count(DISTINCT (thread, seq)) FROM activities WHERE kind = 'kernel'") == [
        (recorded, recorded)
    ]
    assert "captured" in run.stderr


def test_pause_and_resume_from_another_shell(switch_program: Path, tmp_path: Path) -> None:
    """Started paused, resumed, paused, and ended by `stop`; the program knows how far it was."""
    run, file = tmp_path / "run", tmp_path / "steps"
    words = [*OCCA_PROF, "--start-paused", "-o", run, switch_program, "steps", file]

    def step() -> int:
        return int(file.read_text()) if file.exists() else 0

    def turn(command: str) -> tuple[int, int]:
        at = step()
        done = execute([*OCCA_PROF, command, run])
        assert done.returncode == 0, done.stderr
        after = step()
        until(lambda: step() > after + 20, "the program goes on")
        return at, after

    process = subprocess.Popen([str(w) for w in words], stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: step() > 20, "the program begins")
        resumed = turn("resume")
        paused = turn("pause")
        again = turn("start")  # a run's folder: as resume
        stopped = turn("stop")
        refused = execute([*OCCA_PROF, "resume", run])
    finally:
        Path(f"{file}.stop").touch()
        stderr = process.communicate(timeout=PATIENCE)[1]
    assert refused.returncode == 2 and "was ended" in refused.stderr
    found = [
        int(v) for (v,) in Run(run, 0, "", "").sql("SELECT value FROM counters WHERE name = 'step' ORDER BY value")
    ]
    assert found
    first = [v for v in found if v <= paused[1] + 1]
    second = [v for v in found if v > paused[1] + 1]
    # Gapless from the resume to the pause, give or take the step in which the switch was turned.
    for values, begins, ends in ((first, resumed, paused), (second, again, stopped)):
        assert values == list(range(values[0], values[-1] + 1))
        assert begins[0] <= values[0] <= begins[1] + 1 and ends[0] <= values[-1] <= ends[1] + 1
    info = json.loads((run / "run.json").read_text())
    ((_, spans),) = info["captures"].items()
    assert len(spans) == 2 and all(a < b for a, b in spans)
    assert "captured" in stderr
    late = execute([*OCCA_PROF, "pause", run])
    assert late.returncode == 2 and "is not being recorded" in late.stderr


@pytest.mark.parametrize("repeat", [3, 0], ids=["three periods", "periods until the end"])
def test_delay_and_periods(switch_program: Path, tmp_path: Path, repeat: int) -> None:
    """Periods, and nothing outside of them; the lengths are at least what was asked for."""
    run, file = tmp_path / "run", tmp_path / "steps"
    words = [
        *OCCA_PROF,
        "--delay",
        "50ms",
        "--collect",
        f"100ms:50ms:{repeat}",
        "-o",
        run,
        switch_program,
        "steps",
        file,
    ]
    process = subprocess.Popen([str(w) for w in words], stderr=subprocess.DEVNULL)
    log = run / "control" / f"{os.uname().nodename}.log"

    def changes() -> int:
        return len(log.read_text().splitlines()) if log.exists() else 0

    try:
        # Periods go by the clock, and may all be over before a program on a busy machine takes its first step.
        until(file.exists, "a step")
        before = changes()
        until(lambda: changes() == 7 if repeat else changes() >= before + 4, "the periods")
    finally:
        Path(f"{file}.stop").touch()
        process.wait(timeout=PATIENCE)
    ((_, spans),) = json.loads((run / "run.json").read_text())["captures"].items()
    assert len(spans) == 3 if repeat else len(spans) >= 2
    # The last one of an endless cycle ends with the program.
    assert all(b - a >= 50_000_000 for a, b in (spans if repeat else spans[:-1])), spans
    times = [time for (time,) in Run(run, 0, "", "").sql("SELECT time_ns FROM counters WHERE name = 'step'")]
    assert (times or repeat) and all(any(a <= time <= b for a, b in spans) for time in times)
    assert len(times) < int(file.read_text())


def test_ranges_in_fortran_and_python(switch_program: Path, tmp_path: Path) -> None:
    """--capture-range api: nothing until the program says so."""
    if shutil.which("gfortran"):
        command = ["gfortran", "-Wall", "-J", tmp_path, ROOT / "include/occatrace.f90", PROGRAMS / "ranges.f90"]
        subprocess.run([*map(str, command), "-o", str(tmp_path / "ranges")], check=True)
        run = profiled(Run, tmp_path / "fortran", [tmp_path / "ranges"], "--capture-range", "api")
        assert run.stdout.split() == ["T"]
        assert run.sql("SELECT name, kind, count(*) FROM ranges GROUP BY ALL ORDER BY ALL") == [
            ("here", "mark", 1),
            ("inside", "push", 3),
        ]
        assert run.sql("SELECT value, unit FROM counters ORDER BY ALL") == [(1.0, "m"), (2.0, "m"), (3.0, "m")]
        assert execute([tmp_path / "ranges"]).stdout.split() == ["F"]
    code = """if True:
        import occatrace
        occatrace.mark("a")
        with occatrace.capture():
            occatrace.mark("b")
        occatrace.mark("c")
        occatrace.start()
        occatrace.mark("d")
        occatrace.stop()
        occatrace.mark("e")
    """
    marks = "SELECT name FROM ranges WHERE kind = 'mark' ORDER BY start_ns"
    options = ("--capture-range", "api", "--capture-range-end")
    for end, wanted in (("repeat", ["b", "d"]), ("stop", ["b"]), ("repeat:2", ["b", "d"])):
        run = profiled(Run, tmp_path / f"python-{end}", [sys.executable, "-c", code], *options, end)
        assert [name for (name,) in run.sql(marks)] == wanted, end
        assert "captured" in run.stderr
    # Without us they do nothing.
    alone = execute([sys.executable, "-c", code])
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, "", "")
    alone = execute([switch_program, "threads", 2])
    assert alone.returncode == 0 and len(alone.stdout.split()) == 3, alone.stderr


# ---- how much ----


def test_the_trace_stops_growing_and_counting_goes_on(switch_program: Path, tmp_path: Path) -> None:
    run = profiled(
        Run, tmp_path / "run", [switch_program, "flood", tmp_path / "flood"], "--max-size", "6M", "-m", "full"
    )
    calls = int(run.stdout)
    assert calls == 2_000_000
    rows = dict(run.sql("SELECT source, sum(calls)::BIGINT FROM call_stats WHERE function = 'clFlush' GROUP BY source"))
    assert rows["tally"] > 0 and "--max-size" in run.stderr
    # Where the machine is too busy to take the events away, some are lost, and said to be.
    assert calls - lost(run) <= rows["event"] + rows["tally"] <= calls


def test_options_from_files_and_the_environment(tmp_path: Path) -> None:
    """Command line before environment before file; what is wrong gets one line, whose source it names."""
    config = tmp_path / "prof.toml"
    config.write_text('mode = "tally"\nkernels = "fromfile"\nquiet = true\ndelay = 1.5\nreport = ["api_sum", "hist"]\n')
    words = [*OCCA_PROF, "--config", config, "--show-config", "--keep", "none"]
    shown = execute(words, OCCATRACE_KERNELS="fromenv", OCCATRACE_MODE="full")
    assert shown.returncode == 0, shown.stderr
    lines = dict(line.split("  #", 1) for line in shown.stdout.splitlines())
    lines = {key.strip(): source.strip() for key, source in lines.items()}
    assert lines['mode = "full"'] == "OCCATRACE_MODE"
    assert lines['kernels = "fromenv"'] == "OCCATRACE_KERNELS"
    assert lines["quiet = true"] == str(config) and lines['delay = "1.5"'] == str(config)
    assert lines['report = ["api_sum", "hist"]'] == str(config) and lines['keep = "none"'] == "command line"
    again = tmp_path / "again.toml"
    again.write_text("\n".join(line.split("#")[0] for line in shown.stdout.splitlines()))
    assert execute([*OCCA_PROF, "--config", again, "--show-config"], OCCATRACE_MODE=None).returncode == 0


def test_the_effective_options_have_no_control_characters(tmp_path: Path) -> None:
    """The file of a stranger may hold what a terminal obeys; what is shown is the same value, as TOML."""
    folder = tmp_path / "a\x1b[2Jb"
    folder.mkdir()
    config, again = folder / "prof.toml", tmp_path / "again.toml"
    config.write_text('output = "run\\u001b]0;title\\u0007\\nmode \\\\ \\" \\u009b\\U000e0001"\n')
    shown = execute([*OCCA_PROF, "--config", config, "--show-config"])
    assert shown.returncode == 0 and shown.stderr == ""
    assert all(line.isprintable() for line in shown.stdout.splitlines()) and "\x1b" not in shown.stdout
    again.write_text(shown.stdout)
    second = execute([*OCCA_PROF, "--config", again, "--show-config"])
    assert second.stdout.split("  # ")[0] == shown.stdout.split("  # ")[0] != ""


# ---- sessions around several commands ----


def test_a_session_of_a_shell_chooses_and_gives_everything_back(gcc_occa: Occa, tmp_path: Path) -> None:
    """`start` takes the same options; after `stop` the shell's environment is what it was."""
    name = f"choosing-{os.getpid()}"
    prof = " ".join(OCCA_PROF)
    program = f"{gcc_occa.program('choosing')} Serial {ROUNDS}"
    script = f"""
        env | sort > before
        eval "$({prof} start --kernels scale --kernel-iterations 2-4 -o run {name})"
        {program}; {program}
        eval "$({prof} stop {name})"
        env | sort > after
    """
    environment = {**os.environ, **gcc_occa.environment("Serial"), "OCCATRACE_KERNELS": "add", "OPENCL_LAYERS": ""}
    words = ["bash", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    before, after = ((tmp_path / file).read_text().splitlines() for file in ("before", "after"))
    assert [line for line in after if not line.startswith("_=")] == [x for x in before if not x.startswith("_=")]
    run = Run(tmp_path / "run", 0, "", "")
    calls = run.sql("SELECT process, count(*) FROM kernel_runs GROUP BY process ORDER BY process")
    assert calls == [(1, 3), (2, 3)]
    assert excluded(run) == {"scaleTwice": 2 * 7, "addVectors": 2 * 2 * ROUNDS, "spin": 2 * ROUNDS}
    assert "excluded: " in done.stderr
