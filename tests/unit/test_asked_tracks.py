"""Tracks that the user asks for by SQL, as Perfetto reads them; reports by a list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from occatrace.cli.dispatch import main
from occatrace.errors import StoreError
from occatrace.views import timeline
from tests.support.fake import demo_trace
from tests.support.timelines import perfetto, write

KERNELS = "SELECT start_ns AS ts, end_ns - start_ns AS dur, name FROM activities WHERE kind = 'kernel'"
ROWS = (
    "SELECT t.name AS track, count(*) AS n, sum(dur) AS ns FROM slice"
    " JOIN track t ON t.id = track_id WHERE category = 'asked' GROUP BY 1"
)


def test_rows_are_slices(tmp_path: Path) -> None:
    """As many and as long as the SELECT says, beside the others; calls can be asked for, and a comment at the end is no harm."""
    waits = "SELECT start_ns AS ts, end_ns - start_ns AS dur, function AS name FROM calls WHERE function = 'clFinish' -- all"
    both = (("my kernels", KERNELS), ("my waits", waits))
    path = write(tmp_path, demo_trace(), timeline.Options(tracks=both))
    assert {(row.track, row.n, row.ns) for row in perfetto(path, ROWS)} == {
        ("my kernels", 20, 14090),
        ("my waits", 3, 600),
    }


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT nothing FROM activities", "nothing"),
        ("SELECT 1 AS ts, 'x' AS name", "dur"),
        ("SELECT 'x' AS ts, 1 AS dur, 'y' AS name", "x"),
        ("DELETE FROM activities", "DELETE"),
        ("SELECT 1 AS ts, 1 AS dur, 'x' AS name; SELECT 2", ""),
    ],
)
def test_bad_sql_is_one_line(sql: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        write(tmp_path, demo_trace(), timeline.Options(tracks=(("mine", sql),)))
    text = str(caught.value)
    assert text.startswith("--track mine: ") and said in text and "\n" not in text
    assert "it has to give the columns ts, dur (ns) and name" in text
    assert not (tmp_path / "x.pftrace").exists()


def test_command(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.csv"
    assert main(["timeline", str(run), "--track", f"mine={KERNELS}", "--track", "bad=SELECT 1", "-o", str(out)]) != 0
    err = capsys.readouterr().err
    assert "--track bad: " in err and err.count("\n") == 1 and not out.exists()
    assert main(["timeline", str(run), "--track", f"mine={KERNELS}", "-o", str(out)]) == 0
    assert out.read_text().count(",asked,") == 20
    capsys.readouterr()
    assert (
        main(["report", str(run), "--report", "api_sum,gpu_kern_sum", "--report", "gpu_util", "--format", "json"]) == 0
    )
    found = [report["name"] for report in json.loads(capsys.readouterr().out)["reports"]]
    assert found == ["api_sum", "gpu_kern_sum", "gpu_util"]
    assert main(["report", str(run), "--report", "api_sum,gpu_kern_su"]) == 2
    assert "did you mean gpu_kern_sum?" in capsys.readouterr().err
