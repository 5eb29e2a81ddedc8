"""Some cases of the diagnosis benchmark, one of each kind of program; the whole by `tools/bench diagnosis`."""

from __future__ import annotations

import pytest

from tests.diagnosis.cases import CASES, Case
from tests.diagnosis.runner import Absent, Bench, Outcome

CHOSEN = (
    "device-sync_each",
    "device-unchanged",
    "ranks-taking_turns",
    "team-lock",
    "driver-false_dependency",
    "team-big_task",
    "team-clean_tasks",
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("diagnosis"))


@pytest.mark.parametrize("case", [case for case in CASES if case.name in CHOSEN], ids=lambda case: case.name)
def test_what_advice_says_first(case: Case, bench: Bench) -> None:
    try:
        outcome = bench.run(case)
    except Absent as error:
        pytest.skip(str(error))
    assert outcome.right, "\n".join(outcome.said() or ["nothing was said"])


def test_the_table_is_as_large_as_promised() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert sum(bool(case.signs) for case in CASES) >= 30 and sum(not case.signs for case in CASES) >= 20
    for case in CASES:
        assert all(case.texts())  # a marked line is there


def test_a_place_that_is_wrong_is_no_right_answer() -> None:
    case = next(case for case in CASES if case.name == "device-sync_each")
    row = {
        "name": "waiting",
        "evidence": "clFinish",
        "caller": f"/x/{case.texts()[1]}",
        "rank": None,
        "share": 9.0,
        "gain": None,
    }
    assert Outcome(case, [row]).right
    assert not Outcome(case, [{**row, "caller": "/x/device.c:1"}]).right
    assert not Outcome(case, [{**row, "name": "idle device"}, row]).right
    assert not Outcome(case, []).right
    clean = next(case for case in CASES if not case.signs)
    assert Outcome(clean, []).right and not Outcome(clean, [row]).right
