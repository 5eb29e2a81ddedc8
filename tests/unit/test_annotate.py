"""Source files with what their lines caused."""

from __future__ import annotations

import pytest

from occatrace.errors import RunError
from occatrace.views.annotate import Line, annotated, find, listing


def test_lines_around_what_was_caused() -> None:
    source = [f"line {n}" for n in range(1, 31)]
    lines = {10: Line(2, 1_500, 0, 0), 20: Line(1, 0, 2_000_000, 2048)}
    shown = list(annotated(lines, source, context=1))
    assert [line.split() for line in shown[1:]] == [
        ["⋮"],
        ["9", "line", "9"],
        ["-", "1.500", "µs", "2", "-", "10", "line", "10"],
        ["11", "line", "11"],
        ["⋮"],
        ["19", "line", "19"],
        ["2.000", "ms", "-", "1", "2.000", "KiB", "20", "line", "20"],
        ["21", "line", "21"],
    ]
    assert len(list(annotated(lines, source, None))) == 31


def test_a_file_that_is_shorter_than_it_was_or_not_there() -> None:
    lines = {5: Line(3)}
    assert list(annotated(lines, ["one"], None))[-1].split() == ["-", "-", "3", "-", "5"]
    assert [line.split() for line in annotated(lines, None)][1:] == [["-", "-", "3", "-", "5"]]


def test_control_characters_of_a_source_are_not_printed() -> None:
    assert "\x1b" not in "".join(annotated({1: Line(1)}, ["\x1b[31mred"]))


@pytest.mark.parametrize("wanted", ["/src/a/solver.cpp", "a/solver.cpp", "./a/solver.cpp", "/elsewhere/main.cpp"])
def test_files_by_their_last_parts(wanted: str) -> None:
    known = ["/src/a/solver.cpp", "/src/b/solver.cpp", "/src/main.cpp"]
    assert find(known, wanted) == ("/src/main.cpp" if "main" in wanted else "/src/a/solver.cpp")


@pytest.mark.parametrize(("wanted", "said"), [("solver.cpp", "write more of its path"), ("none.c", "no recorded call")])
def test_files_that_are_none_or_several(wanted: str, said: str) -> None:
    with pytest.raises(RunError, match=said):
        find(["/src/a/solver.cpp", "/src/b/solver.cpp"], wanted)


def test_the_list_begins_with_the_most_device_time() -> None:
    known = {"/a.cpp": {1: Line(1, 9, 1), 2: Line(1, 9, 1)}, "/b.okl": {1: Line(1, 0, 5)}}
    assert [line.split()[-1] for line in listing(known)] == ["File", "/b.okl", "/a.cpp"]
