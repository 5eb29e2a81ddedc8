"""The device work of each call: the model says what it is, a hook records it, and a known answer proves it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import occatrace
from tests.support.generated import headers, model

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"
LIB = Path(occatrace.__file__).parent / "lib"
APIS = ("cuda", "hip", "opencl", "ze")
# Hooks that are written by hand, of all APIs together: each has its reason in the model.
MOST_BY_HAND = 30


def functions(api: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = model(api)["functions"]
    return found


def commands(api: str) -> dict[str, dict[str, object]]:
    """The functions that make device work, and what the model says of it."""
    return {str(f.get("event", f["name"])): f["activity"] for f in functions(api) if "activity" in f}  # type: ignore[misc]


def sources(api: str) -> str:
    return "".join(path.read_text() for path in sorted((NATIVE / "intercept" / api).glob("*.[ch]*")))


@pytest.fixture(scope="session")
def generated() -> Path:
    """The folder of the generated headers."""
    return headers()


@pytest.mark.parametrize("api", APIS)
def test_each_command_has_a_hook(api: str, generated: Path) -> None:
    found = set(
        re.findall(r"struct Hook<OCCATRACE_[A-Z]+_(\w+)> : Enqueue", (generated / f"{api}_commands.h").read_text())
    )
    by_hand = set(re.findall(r"struct Hook<OCCATRACE_[A-Z]+_(\w+)> : (?:Enqueue|LaunchesSeveral)", sources(api)))
    with_work = commands(api)
    assert len(with_work) > 20
    assert found & by_hand == set()
    assert found | by_hand == {name for name, activity in with_work.items() if "untimed" not in activity}
    assert by_hand == {name for name, activity in with_work.items() if activity.get("by_hand")}


def test_few_hooks_of_commands_are_written_by_hand() -> None:
    exceptions = [a for api in APIS for a in commands(api).values() if {"by_hand", "untimed"} & a.keys()]
    assert len(exceptions) < MOST_BY_HAND
    for activity in exceptions:
        assert len(str(activity.get("by_hand", activity.get("untimed")))) > 20, "no reason is given"


@pytest.mark.compiles
@pytest.mark.parametrize("api", APIS)
def test_each_command_has_a_known_answer(api: str, generated: Path, tmp_path: Path) -> None:
    program = tmp_path / "answers"
    options = ["-std=c++17", "-O0", f"-I{NATIVE / 'device'}", f"-I{NATIVE / 'emit'}", f"-I{generated}"]
    options += [f"-I{NATIVE / 'intercept' / api}", f"-L{LIB}", "-loccatrace", f"-Wl,-rpath,{LIB}", "-lpthread", "-ldl"]
    # What the checks do not call is of other sources of the backend.
    options += ["-Wl,--unresolved-symbols=ignore-all"]
    files = [ROOT / f"tests/programs/device/commands_{api}.cpp", *sorted((NATIVE / "device").glob("*.cpp"))]
    subprocess.run(["g++", *map(str, files), *options, "-o", str(program)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("checked ")] == []
    assert done.returncode == 0, done.stderr
    answered = {line.removeprefix("checked ") for line in lines}
    # What launches on several devices has its answer in a program of its own.
    elsewhere = {name for name in commands(api) if name.endswith("MultiDevice")}
    programs = "".join(path.read_text() for path in sorted((ROOT / "tests/programs" / api).glob("*")) if path.is_file())
    assert [name for name in elsewhere if name not in programs] == []
    assert answered == {name for name, a in commands(api).items() if "untimed" not in a} - elsewhere


@pytest.mark.parametrize("api", ["cuda", "cudart", "hip", "opencl"])
def test_a_number_of_items_is_no_number_of_bytes(api: str) -> None:
    for function in functions(api):
        arguments = {a["name"]: str(a["type"]) for a in function.get("args") or ()}  # type: ignore[attr-defined]
        if {"sizes", "count"} <= arguments.keys() and "*" in arguments["sizes"]:
            assert function.get("bytes") in (None, "total"), function["name"]
