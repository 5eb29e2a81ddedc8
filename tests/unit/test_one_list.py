"""Lists that C, SQL or the traced program need besides Python say the same as the one that they come from."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from occatrace.core import bounds, events, histogram, schema
from occatrace.inprocess import live

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from generator.parse import parse_folder  # noqa: E402

from tests.support.generated import model  # noqa: E402


def enumeration(api: str, name: str) -> dict[str, int]:
    values: dict[str, int] = model(api)["enums"][name]["values"]
    return values


def test_kinds_of_device_work() -> None:
    assert set(schema.MEMORY_KINDS) < set(enumeration("device", "activity_kind"))


def test_kinds_of_copies() -> None:
    assert live._MOVES == schema.COPY_KINDS
    assert schema.MEMORY_KINDS[: len(schema.COPY_KINDS)] == schema.COPY_KINDS


def test_kinds_in_sql() -> None:
    """A list of kinds in SQL is one of the two lists, or names kinds that only this statement means."""
    paths = [*sorted((ROOT / "occatrace").rglob("*.sql")), ROOT / "occatrace/reports/partial.py"]
    found = [
        re.findall(r"'(\w+)'", text) for path in paths for text in re.findall(r"IN \(('HtoD'[^)]*)\)", path.read_text())
    ]
    assert found
    for kinds in found:
        if len(kinds) > len(schema.COPY_KINDS) + 1:
            assert tuple(kinds) == schema.MEMORY_KINDS


def test_modes_of_occa_that_are_the_work_itself() -> None:
    for path in sorted((ROOT / "occatrace").rglob("*.sql")):
        for text in re.findall(r"IN \(('Serial'[^)]*)\)", path.read_text()):
            assert tuple(re.findall(r"'(\w+)'", text)) == schema.HOST_MODES, path


def test_recording_modes() -> None:
    generator = (ROOT / "tools/generator/model.py").read_text()
    modes = re.search(r"^MODES = \((.*)\)$", generator, re.M)
    assert modes and tuple(re.findall(r'"(\w+)"', modes[1])) == events.MODES


def test_layout_of_histograms() -> None:
    """In SQL (store/_macros.sql) it stands in numbers; tests/unit/test_histogram.py compares the buckets."""
    assert bounds.HISTOGRAM_BUCKETS <= histogram.BUCKETS


def test_the_switch_in_c() -> None:
    """A process records while these bytes are on; a write of any of them reaches it."""
    defined = dict(re.findall(r"^#define OCCATRACE_(SWITCH_\w+) (\w+)$", bounds.header(), re.M))
    word = {
        name: int(text.rstrip("u"), 0).to_bytes(4, "little") for name, text in defined.items() if name != "SWITCH_SIZE"
    }
    for name, on in {
        "SWITCH_RUNNING": {bounds.COMMANDED, bounds.TIMED},
        "SWITCH_EVENTS": {bounds.COMMANDED, bounds.TIMED, bounds.EVENTS},
        "SWITCH_ON": {bounds.COMMANDED, bounds.TIMED, bounds.EVENTS, bounds.UNUSED},
    }.items():
        assert {at for at, byte in enumerate(word.pop(name)) if byte} == on
    assert not word


def test_no_constant_in_c_stands_twice() -> None:
    """C has limits and enumerations from native/bounds.h and native/enums.h alone."""
    model = parse_folder(ROOT / "tracepoints")
    constants = [
        enum.constant(text) for api in model.apis for enum in api.enums if enum.constants for text, _ in enum.values
    ]
    assert len(constants) == len(set(constants)) > 40
    ours = {*constants, *re.findall(r"#define (\w+)", bounds.header())} - {"OCCATRACE_BOUNDS_H"}
    for path in (p for p in (ROOT / "native").rglob("*.*") if p.suffix in (".c", ".h", ".cpp")):
        defined = set(re.findall(r"#define (\w+)|^\s*(?:enum[^{]*\{)?\s*(\w+) = \d+,", path.read_text(), re.M))
        assert not {name for pair in defined for name in pair} & ours, path


def test_types_of_every_command_in_tools_are_checked() -> None:
    """A script without suffix is found by mypy only if pyproject.toml names it."""
    section = (ROOT / "pyproject.toml").read_text().partition("[tool.mypy]")[2].partition("exclude")[0]
    named = re.findall(r'"(tools/\w+)"', section)
    scripts = [file for file in (ROOT / "tools").iterdir() if file.is_file() and not file.suffix]
    python = [f"tools/{file.name}" for file in scripts if "python" in file.read_text().partition("\n")[0]]
    assert sorted(named) == sorted(python) and len(python) > 5


def test_native_files_without_the_layout_of_clang_format_are_there() -> None:
    """The list of what tools/lint leaves out only shrinks: no entry is about a file that has gone."""
    listed = (ROOT / "native/.clang-format-ignore").read_text().splitlines()
    names = [line for line in listed if line and not line.startswith("#")]
    assert [name for name in names if not (ROOT / "native" / name).is_file()] == []
    assert len(names) <= 2


def test_nothing_is_imported_from_a_conftest() -> None:
    """Helpers that several files share stand in tests/support; only pytest reads a conftest.py."""
    importing = re.compile(
        r"^\s*(from\s+[\w.]*conftest\s+import|from\s+[\w.]+\s+import\s+conftest|import\s+[\w.]*conftest)", re.M
    )
    files = [*(ROOT / "tests").rglob("*.py"), *(p for p in (ROOT / "tools").iterdir() if p.is_file())]
    assert [str(file) for file in files if importing.search(file.read_text(encoding="utf-8"))] == []
