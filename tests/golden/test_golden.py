"""Small recorded traces and the reports that must come out of them, with each decoder. A case is a folder: adding one is
recording a run (`tar -cJf trace.tar.xz run.json trace`), then `python tests/golden/test_golden.py CASE`, and reading what
it wrote."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from occatrace.cli.report import print_reports
from occatrace.core.model import load

HERE = Path(__file__).parent
CASES = sorted(p.parent for p in HERE.glob("*/trace.tar.xz"))
REPORTS = ("occa_kern_sum", "gpu_kern_sum", "gpu_mem_time_sum", "gpu_mem_size_sum", "api_sum", "gpu_util", "mem_usage",
           "occa_kern_bw", "occa_kern_build_sum", "mem_leaks")  # fmt: skip


def made(case: Path, folder: Path) -> dict[str, Any]:
    """The reports of a case as JSON."""
    with tarfile.open(case / "trace.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.12, and what was repaired before it
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    out = io.StringIO()
    print_reports(folder, out, REPORTS, "json")
    content: dict[str, Any] = json.loads(out.getvalue())
    return {"losses": content["losses"], "reports": content["reports"]}


def same(found: Any, expected: Any) -> bool:
    """Equal, but for the last digits of what was computed in floating point."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(same(found[k], expected[k]) for k in found)
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(same(f, e) for f, e in zip(found, expected, strict=True))
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        return bool(found == pytest.approx(expected, rel=1e-9, abs=1e-9))
    return bool(found == expected)


@pytest.mark.parametrize("decoder", ["fast", "babeltrace2"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Path, decoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        load()
    except OSError:
        pytest.skip("the native layer is not built")
    monkeypatch.setenv("OCCATRACE_DECODER", decoder)
    found = made(case, tmp_path)
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    assert found["losses"] == expected["losses"]
    for got, wanted in zip(found["reports"], expected["reports"], strict=True):
        assert same(got, wanted), got["name"]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as temporary:
            text = json.dumps(made(HERE / name, Path(temporary)), indent=1, ensure_ascii=False) + "\n"
        (HERE / name / "expected.json").write_text(text, encoding="utf-8")
