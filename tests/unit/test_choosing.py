"""Options that choose: what they mean, and one line for what they cannot mean."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from occatrace.cli import options, rank, run
from occatrace.cli.dispatch import main
from occatrace.errors import ChoiceError
from occatrace.record.filters import OPTIONS, Choosing
from occatrace.record.sampling import Sampling
from occatrace.run.control import Plan

BAD = [
    ("--kernels", "(", "invalid regular expression"),
    ("--exclude-kernels", "a\\{2,1\\", "invalid regular expression"),
    ("--kernel-iterations", "0-3", "write numbers from 1"),
    ("--kernel-iterations", "7-3", "write numbers from 1"),
    ("--streams", "a", "write numbers from 0"),
    ("--kernel-iterations", ",".join(map(str, range(1, 80, 2))), "at most 32"),
    ("--streams", ",".join(map(str, range(1, 80, 2))), "at most 32"),
    ("--kernels", "", "write REGEX"),
    ("--max-size", "", "write SIZE"),
    ("--threads", "main,,worker", "none of them empty"),
    ("--threads", ",", "none of them empty"),
    ("--labels", "x" * 256, "longer than 255"),
    ("--devices", "0,", "none of them empty"),
    ("--devices", "3-1", "needs an end"),
    ("--devices", "2-", "needs an end"),
    ("--functions", "clFlush,", "none of them empty"),
    ("--functions", "clEnqueueNothing*", "no traced function"),
    ("--exclude-functions", "clFlush,nothing", "'nothing'"),
    ("--capture-range", "range:", "range:NAME"),
    ("--capture-range", "nvtx", "range:NAME"),
    ("--capture-range-end", "repeat:0", "repeat:N"),
    ("--delay", "soon", "write a time"),
    ("--duration", "5 days", "write a time"),
    ("--collect", "1:2", "DELAY:TIME:REPEAT"),
    ("--collect", "0:1:0", "time between"),
    ("--level", "opencl=loud", "opencl=full"),
    ("--level", "opengl=full", "no API 'opengl'"),
    ("--max-size", "0", "write a size"),
    ("--max-size", "10", "these are bytes"),
    ("--max-size", "2X", "write a size"),
    ("--sample", "gpu", "there are host, nvml, amdsmi, sysman and all"),
    ("--sample", "host,all", "there are host, nvml, amdsmi, sysman and all"),
    ("--sample", "host:often", "write a time"),
    ("--sample", "host:", "write a time"),
    ("--sample", "host:1us", "between 1ms and 1h"),
    ("--sample", "all:2h", "between 1ms and 1h"),
]


@pytest.mark.parametrize(("option", "value", "said"), BAD)
def test_what_cannot_be_meant_gets_one_line(
    option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([option, value, "/bin/true"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and option in err and len(err.splitlines()) == 1


def test_an_end_needs_a_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--capture-range-end", "repeat", "/bin/true"]) == 2
    assert "--capture-range" in capsys.readouterr().err


def test_when_the_clock_turns() -> None:
    assert Plan().turns() == []
    assert Plan(delay=2).turns() == [(2, True)] and Plan(delay=2).starts_off
    assert Plan(duration=3).turns() == [(3, False)] and not Plan(duration=3).starts_off
    assert Plan(delay=2, duration=3).turns() == [(2, True), (5, False)]
    cycles = [(11, True), (13, False), (14, True), (16, False)]
    assert Plan(delay=10, collect=(1, 2, 2)).turns() == cycles
    assert Plan(delay=10, duration=5, collect=(1, 2, 0)).turns() == [*cycles[:3], (15, False)]
    assert Plan(collect=(0, 1, 1)).starts_off is False


def test_values_reach_the_program_and_no_others_do() -> None:
    choice = Choosing.of({"kernels": "dot", "only_tagged": True, "delay": "500ms", "max_size": "1.5M", "threads": None})
    assert choice.values == {"OCCATRACE_KERNELS": "dot", "OCCATRACE_ONLY_TAGGED": "1"}
    assert choice.plan == Plan(delay=0.5, max_size=3 << 19)
    env = choice.environment({"OCCATRACE_THREADS": "main", "PATH": "/bin", "OCCATRACE_DELAY": "3"})
    assert env == {"PATH": "/bin", **choice.values}
    devices = Choosing.of({"devices": "0-2,7,NVIDIA*-3"}).values
    assert devices == {"OCCATRACE_DEVICES": "0,1,2,7,NVIDIA*-3"}
    levels = Choosing.of({"level": "opencl=full,mpi=tally"})
    assert levels.loglevel("tally") == Choosing().loglevel("full") > levels.loglevel("tally") - 1
    with pytest.raises(ChoiceError):
        Choosing.of({"level": "mpi"})


def test_what_is_sampled() -> None:
    assert Choosing.of({}).sampling is None
    assert Choosing.of({"sample": "all"}).sampling == Sampling(("host", "nvml", "amdsmi", "sysman"), 0.1, asked=False)
    assert Choosing.of({"sample": "nvml,host:2s"}).sampling == Sampling(("nvml", "host"), 2.0, asked=True)
    assert Choosing.of({"sample": "host"}).environment({"OCCATRACE_SAMPLE": "all"}) == {}


def test_the_parser_has_every_option_and_each_has_a_variable() -> None:
    parser = argparse.ArgumentParser()
    run.prepare_parser(parser)
    names = {options.name_of(a): options.variable_of(a) for a in parser._actions}
    assert {o.name: o.variable for o in OPTIONS}.items() <= names.items()


def test_a_rank_is_given_what_was_chosen_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a single program is: a variable of an option is not handed on as it was inherited."""
    for name, value in {
        "OCCATRACE_ONLY_TAGGED": "0",
        "OCCATRACE_LABELS": "",
        "OCCATRACE_SAMPLE": "all",
        "X": "y",
    }.items():
        monkeypatch.setenv(name, value)
    args = argparse.Namespace(
        device_time=None, mode="default", traced=None, choosing=Choosing.of({"only_tagged": False, "kernels": "dot"})
    )
    answer = {"home": str(tmp_path), "socket": "s", "run": "r", "job": "j"}
    environment = rank._environment(args, answer)
    assert {name for name in environment if name in {o.variable for o in OPTIONS}} == {"OCCATRACE_KERNELS"}
    assert (environment["OCCATRACE_KERNELS"], environment["X"]) == ("dot", "y")


# ---- command line before environment before file ----


def run_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    run.prepare_parser(parser)
    return parser


ACTIONS = {options.name_of(a): a for a in run_parser()._actions if a.dest not in options.ONLY_HERE}


def texts_of(action: argparse.Action) -> tuple[str, str, str]:
    """Three values as people write them, of which some may be the same."""
    if action.choices:
        chosen = list(map(str, action.choices))
        return chosen[-1], chosen[-2], chosen[0]
    return {"rows": ("1", "2", "3"), "ranks": ("1", "2", "3"), "python": ("off", "lines", "logging")}.get(
        action.dest, ("one", "two", "three")
    )


@pytest.mark.parametrize("name", ACTIONS)
def test_each_option_from_each_place(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair of places, and where each value comes from as --show-config says it."""
    action = ACTIONS[name]
    switch = action.nargs == 0
    file, variable = tmp_path / "prof.toml", options.variable_of(action)
    here, env, written = texts_of(action)
    if switch:  # a switch can only be turned on at the command line: it is off in what comes after
        file.write_text(f"{name} = false\n")
        words, env, values = [f"--{name}"], "0", {"here": True, "env": False, "file": False}
    else:
        file.write_text(f'{name} = "{written}"\n')
        words = [f"--{name}", here]
        appends = isinstance(action, argparse._AppendAction) and not isinstance(action, argparse._ExtendAction)
        values = {
            place: [value] if appends else value  # type: ignore[misc]
            for place, value in (
                ("here", options._single(run_parser(), action, here, "")),
                ("env", options._single(run_parser(), action, env, "")),
                ("file", options._single(run_parser(), action, written, "")),
            )
        }
    config = ["--config", str(file)]
    monkeypatch.delenv(variable, raising=False)

    def found(words: list[str]) -> tuple[object, str]:
        args = options.parse(run_parser(), words)
        return getattr(args, action.dest), args.sources[action.dest]

    assert found([])[1] == "default"
    assert found(config) == (values["file"], str(file))
    assert found([*config, *words]) == (values["here"], "command line")
    monkeypatch.setenv(variable, env)
    assert found([]) == (values["env"], variable)
    assert found(config) == (values["env"], variable)
    assert found(words) == (values["here"], "command line")
    assert found([*words, *config]) == (values["here"], "command line")


WRONG = [
    ("mode = 3", "mode in"),
    ("kernel = 'x'", "no option is called 'kernel'; did you mean 'kernels'?"),
    ("max_size = '2G'", "did you mean 'max-size'?"),
    ("Kernels = 'x'", "did you mean 'kernels'?"),
    ("zzz = 1", "no option is called 'zzz'; there are: "),
    ("=", "not TOML"),
    ("[kernels]\nname = 'x'", "write REGEX, not a table"),
    ("threads = true", "write PATTERNS, not True"),
    ("quiet = 'perhaps'", "neither true nor false"),
    ("kernels = '('", "invalid regular expression"),
    ("max-size = 'huge'", "write a size"),
]


@pytest.mark.parametrize(("content", "said"), WRONG)
def test_what_is_wrong_in_a_file_gets_one_line_that_names_it(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prof.toml"
    file.write_text(content)
    assert main(["--config", str(file), "/bin/true"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and str(file) in err and len(err.splitlines()) == 1


def test_what_is_wrong_in_the_environment_names_the_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCCATRACE_KERNEL_ITERATIONS", "7-3")
    assert main(["/bin/true"]) == 2
    err = capsys.readouterr().err
    assert (
        err.startswith("occa_prof: OCCATRACE_KERNEL_ITERATIONS: --kernel-iterations 7-3: write")
        and err.count("\n") == 1
    )
    assert main(["--config", "/nowhere/prof.toml", "/bin/true"]) == 2
    assert "--config /nowhere/prof.toml: No such file" in capsys.readouterr().err
