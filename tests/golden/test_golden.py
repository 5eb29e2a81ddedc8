"""Small recorded traces and the reports that must come out of them, with each decoder. A case is a folder: adding one is
recording a run (`tar -cJf trace.tar.xz run.json trace`), then `python tests/golden/test_golden.py CASE`, and reading what
it wrote. `trace-ctf2.tar.xz` is the same trace in CTF 2, written by babeltrace2 2.1 (sink.ctf.fs with ctf-version="2").
lttng-2.16.tar.xz has traces of `tests/programs/columns/emit.c 2 30` by LTTng 2.16: in CTF 1.8, in CTF 2, and in CTF 2 with
`--buffer-allocation=per-channel`."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from occatrace import _native
from occatrace.cli.report import print_reports
from occatrace.core.model import load
from tests.support import traces

HERE = Path(__file__).parent
CASES = sorted(p.parent for p in HERE.glob("*/trace.tar.xz"))
OLD = tuple(map(int, _native.babeltrace_version().split("."))) < (2, 1)  # it does not know CTF 2
REPORTS = ("occa_kern_sum", "gpu_kern_sum", "gpu_mem_time_sum", "gpu_mem_size_sum", "api_sum", "gpu_util", "mem_usage",
           "occa_kern_bw", "occa_kern_build_sum", "mem_leaks")  # fmt: skip


def unpack(archive: Path, folder: Path) -> None:
    """The content of an archive, in a folder."""
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):  # Python 3.12, and what was repaired before it
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(folder)


def made(archive: Path, folder: Path) -> dict[str, Any]:
    """The reports of a case as JSON."""
    unpack(archive, folder)
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
@pytest.mark.parametrize("name", ["trace", "trace-ctf2"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Path, name: str, decoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        load()
    except OSError:
        pytest.skip("the native layer is not built")
    monkeypatch.setenv("OCCATRACE_DECODER", decoder)
    if decoder == "babeltrace2" and name == "trace-ctf2" and OLD:
        unpack(case / f"{name}.tar.xz", tmp_path)
        with pytest.raises(
            _native.TraceError, match=r"in CTF 2, which babeltrace2 knows from version 2\.1 on \(here: 2\.0"
        ):
            _native.Reader(tmp_path)
        return
    found = made(case / f"{name}.tar.xz", tmp_path)
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    assert found["losses"] == expected["losses"]
    for got, wanted in zip(found["reports"], expected["reports"], strict=True):
        assert same(got, wanted), got["name"]


@pytest.mark.skipif(bool(traces.why_no_recording()), reason=traces.why_no_recording())
def test_the_layouts_of_lttng_2_16(tmp_path: Path) -> None:
    """All its formats give the rows that this machine's LTTng records of the same program, but for the times."""
    unpack(HERE / "lttng-2.16.tar.xz", tmp_path)

    def cells(rows: traces.Rows) -> traces.Rows:
        other = ("ts", "ctx.vtid")
        return {
            event: sorted((tuple(cell for cell in row if cell[0] not in other) for row in each), key=repr)
            for event, each in rows.items()
        }

    expected = cells(traces.columns(traces.record(tmp_path / "here", "2", "30", contexts=("vtid",)), decoder="fast"))
    for name in ("ctf1", "ctf2", "channel"):
        for decoder in ("fast", "babeltrace2"):
            if decoder == "babeltrace2" and name != "ctf1" and OLD:
                continue
            reader = _native.Reader(tmp_path / name, decoder=decoder)
            assert reader.traces[0]["decoder"] == decoder
            found = traces.rows_of(reader)
            assert all(len({dict(row)["ctx.vtid"] for row in rows}) == 2 for rows in found.values())
            traces.assert_same(cells(found), expected)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as temporary:
            content = made(HERE / name / "trace.tar.xz", Path(temporary))
            text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (HERE / name / "expected.json").write_text(text, encoding="utf-8")
