"""Small recorded traces and the reports that must come out of them, with each decoder. A case is a folder: adding one is
recording a run (`tar -cJf trace.tar.xz run.json trace`), then `python tests/golden/test_golden.py CASE`, and reading what
it wrote. The programs are those of tests/programs:

- on the fake drivers cuda/cases.cpp (`copies`; in `cupti` with the stand-in of CUPTI, `managed`), hip/cases.hip (`copies`)
  and ze/cases.cpp (`work 6`);
- mpi/cases.c (`ring`, 4 ranks of Open MPI), openmp/truth.c (`tasks`, 4 threads of libgomp), annotation/own.c;
- on PoCL the demo, pyopencl/builds.py (`--python lines --python pools`), pyopencl/pools.py (`--python pools`) and
  annotation/device_ranges.py; python/logs.py (`--python logging`).

`trace-ctf2.tar.xz` is the same trace in CTF 2, written by babeltrace2 2.1 (sink.ctf.fs with ctf-version="2").
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
from unittest import mock

import pytest

from occatrace import _native
from occatrace.cli.report import print_reports
from occatrace.core.model import load
from occatrace.ingest import call_sites
from occatrace.reports.head import names
from tests.support import traces

HERE = Path(__file__).parent
ARCHIVES = sorted(HERE.glob("*/trace*.tar.xz"))
CASES = sorted(p.parent for p in HERE.glob("*/trace.tar.xz"))
OLD = tuple(map(int, _native.babeltrace_version().split("."))) < (2, 1)  # it does not know CTF 2


def unpack(archive: Path, folder: Path) -> None:
    """The content of an archive, in a folder."""
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):  # Python 3.12, and what was repaired before it
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(folder)


def absent(module: call_sites.Module) -> str:
    """No file of the machine that recorded a case is here, whatever this one has under the same path."""
    return f"{module.path} is not there (any more)"


def made(archive: Path, folder: Path) -> dict[str, Any]:
    """Every report of a case that has rows, as JSON, by name."""
    unpack(archive, folder)
    out = io.StringIO()
    with mock.patch.object(call_sites, "why_not", absent):
        print_reports(folder, out, sorted(names()), "json")
    content: dict[str, Any] = json.loads(out.getvalue())
    return {"losses": content["losses"], "reports": [report for report in content["reports"] if report["rows"]]}


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


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that a report may give in either order, in one."""
    return sorted(rows, key=lambda row: [f"{v:.6e}" if isinstance(v, float) else repr(v) for v in row.values()])


@pytest.mark.parametrize("decoder", ["fast", "babeltrace2"])
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: f"{archive.parent.name}-{archive.name.split('.')[0]}")
def test_golden(archive: Path, decoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        load()
    except OSError:
        pytest.skip("the native layer is not built")
    monkeypatch.setenv("OCCATRACE_DECODER", decoder)
    if decoder == "babeltrace2" and archive.name.startswith("trace-ctf2") and OLD:
        unpack(archive, tmp_path)
        with pytest.raises(
            _native.TraceError, match=r"in CTF 2, which babeltrace2 knows from version 2\.1 on \(here: 2\.0"
        ):
            _native.Reader(tmp_path)
        return
    found = made(archive, tmp_path)
    expected = json.loads((archive.parent / "expected.json").read_text(encoding="utf-8"))
    assert found["losses"] == expected["losses"]
    assert [report["name"] for report in found["reports"]] == [report["name"] for report in expected["reports"]]
    for got, wanted in zip(found["reports"], expected["reports"], strict=True):
        assert got["columns"] == wanted["columns"], got["name"]
        assert same(in_order(got["rows"]), in_order(wanted["rows"])), got["name"]


def test_every_report_of_what_can_be_recorded_here() -> None:
    """Every report has rows in a case, but for those named here, with the reason."""
    without = {  # tests of their own have known answers for them
        "mem_churn": "more than 10 allocations of a size at a time",
        "openmp_target_sum": "a compiler that offloads",
        "papi_sum": "counters of the processor, which virtual machines lack",
        "sample_sum": "a device with sensors",
        "sycl_mem_sum": "a SYCL compiler",
        "sycl_sum": "a SYCL compiler",
    }
    shown = {
        report["name"]
        for archive in ARCHIVES
        for report in json.loads((archive.parent / "expected.json").read_text(encoding="utf-8"))["reports"]
    }
    assert names() - shown == without.keys()


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
            text = json.dumps(content, ensure_ascii=False)
            text = text.replace("}, {", "},\n{").replace('"rows": [', '"rows": [\n') + "\n"  # a row in each line
        (HERE / name / "expected.json").write_text(text, encoding="utf-8")
