"""Options that choose: what they mean, and one line for what they cannot mean."""

from __future__ import annotations

import argparse

import pytest

from occatrace.choosing import OPTIONS, ChoiceError, Choosing
from occatrace.cli import options, run
from occatrace.cli.dispatch import main
from occatrace.sampling import Sampling
from occatrace.switch import Plan

BAD = [
    ("--kernels", "(", "no regular expression"),
    ("--exclude-kernels", "a\\{2,1\\", "no regular expression"),
    ("--kernel-iterations", "0-3", "write numbers from 1"),
    ("--kernel-iterations", "7-3", "write numbers from 1"),
    ("--streams", "a", "write numbers from 0"),
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
    ("--max-size", "2X", "write a size"),
    ("--sample", "gpu", "there are host, nvml, amdsmi and all"),
    ("--sample", "host,all", "there are host, nvml, amdsmi and all"),
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
    levels = Choosing.of({"level": "opencl=full,mpi=tally"})
    assert levels.loglevel("tally") == Choosing().loglevel("full") > levels.loglevel("tally") - 1
    with pytest.raises(ChoiceError):
        Choosing.of({"level": "mpi"})


def test_what_is_sampled() -> None:
    assert Choosing.of({}).sampling is None
    assert Choosing.of({"sample": "all"}).sampling == Sampling(("host", "nvml", "amdsmi"), 0.1, asked=False)
    assert Choosing.of({"sample": "nvml,host:2s"}).sampling == Sampling(("nvml", "host"), 2.0, asked=True)
    assert Choosing.of({"sample": "host"}).environment({"OCCATRACE_SAMPLE": "all"}) == {}


def test_the_parser_has_every_option_and_each_has_a_variable() -> None:
    parser = argparse.ArgumentParser()
    run.prepare_parser(parser)
    names = {options.name_of(a): options.variable_of(a) for a in parser._actions}
    assert {o.name: o.variable for o in OPTIONS}.items() <= names.items()
