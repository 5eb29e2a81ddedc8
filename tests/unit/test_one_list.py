"""Lists that C, SQL or the traced program need besides Python say the same as the one that they come from."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from occatrace.core import events, histogram, schema
from occatrace.inprocess import live

ROOT = Path(__file__).resolve().parents[2]
CORE = (ROOT / "native/emit/occatrace_core.h").read_text()


def enumeration(api: str, name: str) -> dict[str, int]:
    model = yaml.safe_load((ROOT / f"tracepoints/{api}.yaml").read_text())
    values: dict[str, int] = model["enums"][name]["values"]
    return values


def test_kinds_of_device_work() -> None:
    body = re.search(r"enum occatrace_activity_kind \{(.*?)\};", CORE, re.S)
    assert body
    constants = {name: int(value) for name, value in re.findall(r"OCCATRACE_(\w+) = (\d+)", body[1])}
    model = enumeration("device", "activity_kind")
    assert constants == {name.upper(): value for name, value in model.items()}
    assert set(schema.MEMORY_KINDS) < set(model)


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
    header = (ROOT / "native/emit/histogram.h").read_text()
    most = re.search(r"OCCATRACE_HISTOGRAM_BUCKETS (\d+)", header)
    assert most and f"(octave - 5) * {histogram.SUB}" in header
    assert int(most[1]) == histogram.SUB + (64 - histogram.SUB_BITS) * histogram.SUB <= histogram.BUCKETS
