"""`occa_prof ci`: where the level of a series changed, and the site that says so."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from occatrace.cli.dispatch import main
from occatrace.render import history as site
from occatrace.reports.compare import Run, series_of
from occatrace.reports.history import RUN, Entry, history
from tests.support.fake import demo_trace, recorded
from tests.support.schemas import validate

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ruptures") is None, reason="needs ruptures")


def entries(**medians: Sequence[float | None]) -> dict[str, Entry]:
    """The history of kernels with these medians (µs), one per version; None: it is not there."""
    count = len(next(iter(medians.values())))
    variants = {}
    for version in range(count):
        series = {
            ("kernels", name, ""): series_of(np.full(20, round(1000 * value), np.int64))
            for name, values in medians.items()
            if (value := values[version])
        }
        variants[f"c{version}"] = [Run(series, 10_000_000)]
    return {entry.key[1]: entry for entry in history(variants)}


def noisy(levels: Sequence[float], seed: int = 1) -> list[float | None]:
    """With 1 % of noise."""
    return [float(x) for x in np.array(levels) * np.random.default_rng(seed).normal(1, 0.01, len(levels))]


def test_a_step_is_found_where_it_is() -> None:
    found = entries(
        steady=noisy([50] * 16),
        slower=noisy([50] * 10 + [65] * 6),
        faster_and_back=noisy([50] * 5 + [30] * 6 + [50] * 5),
        outlier=[*noisy([50] * 9), 90.0, *noisy([50] * 6)],
        new=[None] * 8 + noisy([50] * 8),
        late=[None] * 4 + noisy([50] * 6 + [80] * 6),
        small=[0.1 * x for x in (1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)],
    )
    steps = {name: [(c.version, round(c.ratio, 1)) for c in entry.changes] for name, entry in found.items()}
    assert steps == {
        "recorded time": [], "steady": [], "slower": [(10, 1.3)], "faster_and_back": [(5, 0.6), (11, 1.7)], "outlier": [],
        "new": [], "late": [(10, 1.6)], "small": [],
    }  # fmt: skip
    assert {name for name, entry in found.items() if entry.news(16)} == {"faster_and_back"}
    assert site.verdict(list(found.values()), 16) == (1, 0)


@pytest.mark.parametrize("seed", range(30))
def test_noise_is_no_change(seed: int) -> None:
    assert not entries(k=noisy([50] * 24, seed))["k"].changes


def test_pages() -> None:
    """Names are text; each version is a point, each change a line, and the badge says the verdict."""
    name = "<script>alert(1)</script>"
    found = list(entries(**{name: noisy([50] * 6 + [65] * 4)}).values())
    out, badge, data = io.StringIO(), io.StringIO(), io.StringIO()
    versions = [f"c{n}" for n in range(10)]
    site.page(found, versions, out)
    page = out.getvalue()
    assert name not in page and "&lt;script&gt;alert(1)" in page
    assert (
        page.count("<circle") == 3 * 10 and page.count('class="slower" x1') == 2
    )  # recently changed, and in the list of all
    site.badge(*site.verdict(found, 10), badge)
    assert ElementTree.fromstring(badge.getvalue()).attrib["aria-label"] == "performance: 1 slower"
    site.as_json(found, versions, data)
    validate("history", data.getvalue())
    content = json.loads(data.getvalue())
    assert content["schema"] == 1 and content["names"][1]["changes"][0]["version"] == "c6"
    assert len(content["names"][1]["median_ns"]) == 10 and content["names"][0]["name"] == RUN[1]


def test_what_the_newest_version_lacks_has_no_newest_value() -> None:
    found = entries(stays=[10.0] * 5, gone=[12.0, 12.0, 14.0, None, None], early=[3.0, 3.0, 3.0, 3.0, None])
    out = io.StringIO()
    site.page(list(found.values()), [f"v{n}" for n in range(5)], out)
    cells = re.findall(r'<td class="name">(\w+)</td><td>kernels</td><td class="number">(.*?)</td>', out.getvalue())
    assert dict(cells) == {"stays": "10.00 µs", "gone": "gone<br>14.00 µs at v2", "early": "gone<br>3.000 µs at v3"}


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(recorded(tmp_path, demo_trace()))
    target = tmp_path / "site"
    target.mkdir()
    (target / "mine.txt").write_text("kept")
    for _ in range(2):  # what is there is replaced
        assert main(["ci", f"a={run}", f"b={run},{run}", "-o", str(target)]) == 0
    assert "2 versions; recently 0 slower, 0 faster" in capsys.readouterr().out
    assert {p.name for p in target.iterdir()} == {"index.html", "badge.svg", "history.json", "mine.txt"}
    names = {entry["name"] for entry in json.loads((target / "history.json").read_text())["names"]}
    assert {"recorded time", "addVectors", "clEnqueueNDRangeKernel"} <= names
    validate("history", (target / "history.json").read_text())
    assert main(["ci", run, "-o", str(target)]) == 2
    (tmp_path / "ruptures.py").write_text("raise ImportError")
    done = subprocess.run(
        [sys.executable, "-m", "occatrace.cli", "ci", run, run, "-o", str(target)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "pip install 'occatrace[ci]'" in done.stderr and "Traceback" not in done.stderr
