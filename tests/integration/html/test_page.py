"""The page of a run in a real browser, from disk: in light and dark, wide and narrow, on paper; it asks nobody."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from occatrace.core.units import duration, size
from occatrace.render import renderer
from occatrace.render.text import cell
from occatrace.reports import definition
from occatrace.store.tables import open_store
from occatrace.views import page
from occatrace.views.plots import draw
from tests.support.browser import Browser
from tests.support.fake import MODEL, demo_trace, run_folder
from tests.support.npm import package
from tests.support.suites.html import Keep, Run
from tests.support.suites.reports import occa_prof
from tests.unit.test_plots import HOSTILE
from tests.unit.test_waits import opened, overlapping

LOOKS = {
    "light": {"width": 1280},
    "dark": {"width": 1280, "dark": True},
    "phone": {"width": 390, "height": 800, "phone": True},
    "phone-dark": {"width": 390, "height": 800, "phone": True, "dark": True},
}
# Contrast of each visible text with what is behind it, as WCAG computes it; the worst of all.
CONTRAST = """(() => {
  const light = rgb => { const [r, g, b] = rgb.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                         return .2126 * r + .7152 * g + .0722 * b; };
  const parse = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const behind = element => { for (; element; element = element.parentElement) {
      const color = parse(getComputedStyle(element).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color.slice(0, 3); }
      return [255, 255, 255]; };
  let worst = [99, ''];
  for (const element of document.querySelectorAll('body *')) {
    if (![...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!element.checkVisibility() || element.closest('script, style, noscript, caption')) continue;
    const style = getComputedStyle(element), svg = element instanceof SVGElement;
    const [a, b] = [light(parse(svg ? style.fill : style.color).slice(0, 3)), light(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst[0]) worst = [ratio, element.outerHTML.slice(0, 200)];
  }
  return worst;
})()"""


@pytest.fixture(scope="module")
def file(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    told = occa_prof("report", run.folder, "--format", "html", "-o", path)
    assert told.returncode == 0, told.stderr
    return path


def show(browser: Browser, file: Path, look: dict[str, Any]) -> None:
    browser.look(**look)
    browser.open(file.as_uri())
    browser.wait(f"location.href === {file.as_uri()!r} && document.readyState === 'complete'")


@pytest.mark.parametrize("look", list(LOOKS))
def test_looks(run: Run, file: Path, browser: Browser, look: str, tmp_path: Path, keep: Keep) -> None:
    before = len(browser.requests)
    show(browser, file, LOOKS[look])
    assert browser.requests[before:] == [file.as_uri()]
    assert browser.run("document.title").startswith("occatrace: ") and browser.run("document.title").endswith(
        "-n 64 -s 2"
    )
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    ratio, where = browser.run(CONTRAST)
    assert ratio >= 4.5, f"{ratio:.1f}: {where}"
    shown = browser.run(
        "[...document.querySelectorAll('figure')].map(f => [f.id, [...f.querySelectorAll('svg')].filter(s => s.checkVisibility())"
        ".map(s => { const b = s.getBoundingClientRect(); return b.width > 250 && b.height > 50; })])"
    )
    names = ("timeline", "util", "mem", "critical", "kernels", "durations")
    assert dict(shown) == {f"plot-{name}": [True] for name in names}
    picture = tmp_path / f"{run.mode}-{look}.png"
    browser.long_picture(picture, 2600)
    keep(picture)
    assert picture.stat().st_size > 50_000


def test_wide_tables_take_the_window(file: Path, browser: Browser) -> None:
    """No table is cut while the window has room beside it."""
    show(browser, file, {"width": 1920})
    main, found = browser.run(
        "(() => { const m = document.querySelector('main'), pad = parseFloat(getComputedStyle(m).paddingLeft);"
        " return [m.clientWidth - 2 * pad, [...document.querySelectorAll('main > section .wide')].filter(w => w.checkVisibility())"
        ".map(w => [w.closest('section').getBoundingClientRect().width, w.scrollWidth - w.clientWidth])]; })()"
    )
    assert all(width > main - 2 for width, hidden in found if hidden > 1)
    page = min(width for width, _ in found)
    advice = "document.querySelector('section[data-report=advice]')?.getBoundingClientRect().width"
    assert browser.run(advice) in (None, page), "sentences go on in the next line"
    lines = "[...document.querySelectorAll('details[open] .source')].map(t => [t.classList.contains('bare'), t.clientWidth])"
    assert all((width < page / 2) == bare for bare, width in browser.run(lines)), "without text numbers stand together"
    assert page < 1300 and any(page < width for width, _ in found), "only what needs it is wider than the page"


def test_plots_show_the_numbers(run: Run, file: Path, browser: Browser) -> None:
    """What the plots say in words is what the reports say."""
    show(browser, file, LOOKS["light"])
    rows = kernels(run)
    words = browser.run("[...document.querySelectorAll('#plot-kernels .broad text')].map(t => t.textContent)")
    total = definition("occa_kern_sum").columns[1]
    assert {row["name"] for row in rows} <= set(words)
    assert {f"{row['share']:.1f} %, {cell(row['total_ns'], total)}" for row in rows} <= set(words)
    words = " ".join(
        browser.run("[...document.querySelectorAll('#plot-durations .broad text')].map(t => t.textContent)")
    )
    for row in rows:
        assert f"{row['calls']:,} call{'s' if row['calls'] > 1 else ''}, median " in words


def test_memory_is_that_of_the_report(run: Run, file: Path, browser: Browser) -> None:
    """One device: the peak of the curve is the high water of its allocations, and all of it comes back."""
    api = "opencl" if run.mode == "OpenCL" else "occa"
    told = json.loads(occa_prof("report", run.folder, "--report", "mem_usage", "--format", "json").stdout)
    rows = [row for row in told["reports"][0]["rows"] if row["api"] == api and row["kind"] not in ("slice", "wrapped")]
    high = max(row["high_water_bytes"] for row in rows)
    show(browser, file, LOOKS["light"])
    data = browser.run("JSON.parse(document.getElementById('hover-mem').textContent)")
    assert max(map(sum, zip(*(series["values"] for series in data["series"]), strict=True))) == high > 0
    assert sum(series["values"][-1] for series in data["series"]) == sum(row["in_use_bytes"] for row in rows)
    words = browser.run("[...document.querySelectorAll('#plot-mem .broad text')].map(t => t.textContent)")
    assert f"peak {size(high)}" in words


def test_ranges_have_their_tables(nested: Run, browser: Browser, tmp_path: Path) -> None:
    """What a run has beyond calls is on its page by itself."""
    path = tmp_path / "nested.html"
    assert occa_prof("report", nested.folder, "--format", "html", "-o", path).returncode == 0
    show(browser, path, LOOKS["light"])
    names = browser.run("[...document.querySelectorAll('[data-report=range_sum] tbody th')].map(t => t.textContent)")
    assert {"run", "setup", "step", "exchange"} <= set(names)
    assert browser.run("document.querySelectorAll('[data-report^=mpi_]').length") == 0


def kernels(run: Run) -> list[dict[str, Any]]:
    told = occa_prof("report", run.folder, "--report", "occa_kern_sum", "--format", "json")
    return [row for row in json.loads(told.stdout)["reports"][0]["rows"] if row["parent"] is None]


def without_repeats(rows: list[dict[str, Any]], numbers: list[str]) -> list[dict[str, Any]]:
    """Rows as people see them: the only part of a kernel is left out where it has the kernel's numbers."""
    parts = Counter(row.get("parent") for row in rows)
    wholes = {row["name"]: row for row in rows if row.get("parent") is None}
    return [
        row for row in rows
        if row.get("parent") is None or parts[row["parent"]] > 1
        or [row[name] for name in numbers] != pytest.approx([wholes[row["parent"]][name] for name in numbers])
    ]  # fmt: skip


def test_tables_are_the_reports(run: Run, file: Path, browser: Browser) -> None:
    show(browser, file, LOOKS["light"])
    words = [word for name in ("occa_kern_sum", "gpu_mem_size_sum") for word in ("--report", name)]
    told = json.loads(occa_prof("report", run.folder, "--format", "json", *words).stdout)
    for report in told["reports"]:
        found = browser.run(
            f"[...document.querySelectorAll('[data-report={report['name']}] tbody tr')]"
            ".map(r => [r.cells[0].textContent, ...[...r.cells].slice(1).filter(c => c.dataset.v).map(c => Number(c.dataset.v))])"
        )
        names = [c["name"] for c in report["columns"] if c["unit"] in ("percent", "ns", "bytes", "count", "number")]
        optional = [name for name in ("failed",) if not any(row.get(name) for row in report["rows"])]
        for row, shown in zip(without_repeats(report["rows"], names), found, strict=True):
            expected = [row[name] for name in names if name not in optional and row[name] is not None]
            assert shown[0] == row["name"] and shown[1:] == pytest.approx(expected)


def test_sorting_by_a_click(file: Path, browser: Browser) -> None:
    show(browser, file, LOOKS["light"])
    table = "document.querySelector('[data-report=occa_kern_sum] table')"
    column = browser.run(f"[...{table}.tHead.rows[0].cells].findIndex(c => c.textContent.startsWith('Avg'))")

    def click(at: int) -> tuple[str, list[float]]:
        x, y = browser.run(
            f"(() => {{ const c = {table}.tHead.rows[0].cells[{at}]; c.scrollIntoView({{block: 'center'}});"
            " const b = c.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            browser.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        values = browser.run(
            f"[...{table}.tBodies[0].rows].filter(r => !r.classList.contains('part')).map(r => Number(r.cells[{at}].dataset.v))"
        )
        return browser.run(f"{table}.tHead.rows[0].cells[{at}].getAttribute('aria-sort')"), values

    pairs = browser.run(f"[...{table}.tBodies[0].rows].map(r => [r.className, r.cells[0].textContent])")
    way, values = click(column)
    assert way == "descending" and values == sorted(values, reverse=True) and len(values) >= 4
    way, values = click(column)
    assert way == "ascending" and values == sorted(values)
    assert browser.run(f"{table}.querySelectorAll('[aria-sort]').length") == 1
    # Backend kernels stay below the kernel that launched them.
    after = browser.run(f"[...{table}.tBodies[0].rows].map(r => [r.className, r.cells[0].textContent])")

    def parts(rows: list[list[str]]) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for kind, name in rows:
            if "part" in kind:
                out[next(reversed(out))].append(name)
            else:
                out[name] = []
        return out

    assert parts(after) == parts(pairs)
    click(0)
    names = browser.run(
        f"[...{table}.tBodies[0].rows].filter(r => !r.classList.contains('part')).map(r => r.cells[0].textContent)"
    )
    assert names == sorted(names, key=str.lower)


def test_values_under_the_pointer(run: Run, file: Path, browser: Browser) -> None:
    show(browser, file, LOOKS["light"])
    x, y = browser.run(
        "(() => { const f = document.querySelector('#plot-util'); f.scrollIntoView({block: 'center'});"
        " const b = f.querySelector('.broad path.background').getBoundingClientRect(); return [b.left + b.width / 2, b.top + 20]; })()"
    )
    browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    browser.wait("[...document.querySelectorAll('#plot-util .tip')].some(t => !t.hidden)", 10)
    lines = browser.run("[...document.querySelectorAll('#plot-util .tip div')].map(d => d.textContent)")
    who = "queue 1, " if run.mode == "OpenCL" else "thread "
    assert lines[0].startswith("at ") and any(" %" in line and who in line for line in lines[1:])


def test_pointing_at_one_plot_shows_the_moment_in_all(file: Path, browser: Browser) -> None:
    show(browser, file, LOOKS["light"])
    x, y = browser.run(
        "(() => { const f = document.querySelector('#plot-timeline'); f.scrollIntoView({block: 'center'});"
        " const b = f.querySelector('.broad path.background').getBoundingClientRect(); return [b.left + b.width / 4, b.top + 5]; })()"
    )
    browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    browser.wait("!document.querySelector('#plot-mem .cross').hidden", 10)
    parts = browser.run(
        "[...document.querySelectorAll('figure[data-hover]')].filter(f => !f.querySelector('.cross').hidden).map(f => {"
        " const b = f.querySelector('.broad path.background').getBoundingClientRect(), c = f.querySelector('.cross');"
        " return (c.getBoundingClientRect().left - b.left) / b.width; })"
    )
    assert len(parts) >= 4 and parts == pytest.approx([0.25] * len(parts), abs=0.01)


def test_filter_and_copy(run: Run, file: Path, browser: Browser) -> None:
    """Rows by text; what is copied is what the report has, of the rows that are shown."""
    show(browser, file, LOOKS["light"])
    table = "document.querySelector('[data-report=api_sum] table')"
    browser.run("navigator.clipboard.writeText = async text => { window.copied = text; }")
    button = "document.querySelector('[data-report=api_sum] .copy')"
    content = json.loads(occa_prof("report", run.folder, "--report", "api_sum", "--format", "json").stdout)
    # The page has a table for each API.
    told = [row for row in content["reports"][0]["rows"] if row["api"] == "occa"]

    def copied() -> list[dict[str, str]]:
        browser.run(f"window.copied = null; {button}.click()")
        return list(csv.DictReader(io.StringIO(browser.wait("window.copied", 10))))

    everything = copied()
    assert [(row["name"], int(row["calls"]), int(row["total_ns"])) for row in everything] == [
        (row["name"], row["calls"], row["total_ns"]) for row in told
    ]
    word = "kernel"
    browser.run(
        f"(() => {{ const i = document.querySelector('[data-report=api_sum] .tools input'); i.value = {word.upper()!r};"
        " i.dispatchEvent(new Event('input')); })()"
    )
    names = browser.run(f"[...{table}.tBodies[0].rows].filter(r => !r.hidden).map(r => r.textContent)")
    rows = [row for row in told if word in row["name"].lower() or word in str(row["errors"]).lower()]
    assert 0 < len(rows) < len(told) and len(names) == len(rows) <= 12
    assert browser.run("document.querySelector('[data-report=api_sum] [role=status]').textContent") == (
        f"{len(rows)} of {len(told)} rows"
    )
    assert [row["name"] for row in copied()] == [row["name"] for row in rows]


def test_source_in_the_page(run: Run, browser: Browser, tmp_path: Path) -> None:
    """Lines of the demo with their text where it is asked for, without it where not; the numbers are those of the report."""
    with_text, without = tmp_path / "a.html", tmp_path / "b.html"
    assert occa_prof("report", run.folder, "--format", "html", "--source-text", "-o", with_text).returncode == 0
    assert occa_prof("report", run.folder, "--format", "html", "-o", without).returncode == 0
    kernel = next(row for row in kernels(run) if row["name"] == "dotProduct")
    path, _, line = kernel["source"].rpartition(":")
    line_text = Path(path).read_text(encoding="utf-8").splitlines()[int(line) - 1].strip()
    rows = "[...document.querySelectorAll('#sources tr')].map(r => [...r.cells].map(c => c.textContent.trim()))"
    show(browser, with_text, LOOKS["light"])
    (found,) = [row for row in browser.run(rows) if row[-1] == line_text]
    assert found[2:5] == [f"{kernel['calls']:,}", "", line] and found[0] == duration(kernel["total_ns"])
    show(browser, without, LOOKS["light"])
    assert line_text not in without.read_text(encoding="utf-8")
    assert any(row[4:] == [line] and row[0] == found[0] for row in browser.run(rows))
    wrong = occa_prof("report", run.folder, "--source-text")
    assert wrong.returncode == 2 and "--format html" in wrong.stderr


def test_flame_graph_in_the_page(run: Run, file: Path, browser: Browser) -> None:
    """Device time first: as wide as the kernels' shares."""
    show(browser, file, LOOKS["light"])
    assert browser.run("document.querySelector('[data-measure][aria-pressed=true]').dataset.measure") == "device-time"
    labels = dict(
        browser.run(
            "[...document.querySelectorAll('.frame')].map(f => [f.getAttribute('aria-label').split(':')[0], f.clientWidth])"
        )
    )
    told = {row["name"]: row["total_ns"] for row in kernels(run)}
    first, second = sorted(told, key=lambda name: -told[name])[:2]
    assert labels[first] / labels[second] == pytest.approx(told[first] / told[second], rel=0.1)


AXE = "4.10.3"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


def violations(browser: Browser) -> tuple[list[tuple[str, str]], int]:
    """What axe-core finds against WCAG 2.2 AA, and how many of its rules had something to check and found it good."""
    browser.run((package("axe-core", AXE) / "axe.min.js").read_text(encoding="utf-8") + ";1")
    found = browser.run(
        f"axe.run(document, {{runOnly: {list(RULES)}}}).then(r => [r.violations.flatMap(v => v.nodes.map(n =>"
        " [v.id, n.html.slice(0, 200)])), r.passes.length])"
    )
    return [tuple(entry) for entry in found[0]], found[1]


@pytest.mark.parametrize("look", list(LOOKS))
def test_accessible(run: Run, file: Path, browser: Browser, look: str, tmp_path: Path) -> None:
    """WCAG 2.2 AA, as far as axe-core checks it, of the page, and of the flame graph's own page."""
    show(browser, file, LOOKS[look])
    found, good = violations(browser)
    assert found == [] and good >= 25
    flame = tmp_path / "flame.html"
    assert occa_prof("flamegraph", run.folder, "-o", flame).returncode == 0
    show(browser, flame, LOOKS[look])
    found, good = violations(browser)
    assert found == [] and good >= 20
    browser.run("document.querySelector('h1').insertAdjacentHTML('afterend', '<img src=\"data:,\">')")
    assert [rule for rule, _ in violations(browser)[0]] == ["image-alt"], "the check can fail"


def test_ranks_in_the_page(browser: Browser, tmp_path: Path, keep: Keep) -> None:
    """Two ranks: the map of ranks and time tells its numbers under the pointer, in any theme, and is accessible."""
    with opened(tmp_path, overlapping()) as store:
        out = io.StringIO()
        renderer("html")(page.collect(store, {"program": ["ranks"]}), out)
    path = tmp_path / "ranks.html"
    path.write_text(out.getvalue(), encoding="utf-8")
    for name, look in LOOKS.items():
        show(browser, path, look)
        assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        ratio, where = browser.run(CONTRAST)
        assert ratio >= 4.5, f"{name}: {ratio:.1f}: {where}"
        assert violations(browser)[0] == []
        picture = tmp_path / f"ranks-{name}.png"
        browser.long_picture(picture, 1600)
        keep(picture)
    show(browser, path, LOOKS["light"])
    # Rank 1 is in MPI from 100 to 700 of 1,000 ns; its zero is the first call.
    data = browser.run("JSON.parse(document.getElementById('hover-ranks').textContent)")
    row = next(row for row in data["rows"] if row["name"] == "rank 1" and row["map"] == "in MPI")
    x, y = browser.run(
        "(() => { const f = document.querySelector('#plot-ranks'); f.scrollIntoView({block: 'center'});"
        " const b = f.querySelector('.broad path.background').getBoundingClientRect();"
        f" return [b.left + b.width * 0.2, b.top + b.height * {(row['from'] + row['to']) / 2}]; }})()"
    )
    browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    browser.wait("!document.querySelector('#plot-ranks .tip').hidden", 10)
    lines = browser.run("[...document.querySelectorAll('#plot-ranks .tip div')].map(d => d.textContent)")
    assert lines[1] == "100.0 %  rank 1, in MPI"


def test_on_paper(run: Run, file: Path, browser: Browser, tmp_path: Path, keep: Keep) -> None:
    """Dark is not printed, nor what only a screen needs."""
    show(browser, file, {"width": 1000, "dark": True, "paper": True})
    assert browser.run("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()") == "#1d2229"
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    ratio, where = browser.run(CONTRAST)
    assert ratio >= 4.5, f"{ratio:.1f}: {where}"
    printed = browser.pdf()
    assert printed.startswith(b"%PDF") and 2 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type/Page/") <= 20
    path = tmp_path / f"{run.mode}.pdf"
    path.write_bytes(printed)
    keep(path)


def test_hostile_names(browser: Browser, tmp_path: Path) -> None:
    """Names that would like to be markup, half a megabyte long: text on a page that still works."""
    with open_store(run_folder(tmp_path), model=MODEL, open_trace=demo_trace().open) as store:
        for table, column in (
            ("kernels", "name"),
            ("kernels", "source"),
            ("devices", "name"),
            ("activities", "name"),
            ("processes", "exe"),
        ):
            evil = HOSTILE.replace("alert(1)", "window.hacked = 1").replace(
                "<script>", "<img src=x onerror='window.hacked=1'><script>"
            )
            store.con.execute(f"UPDATE {table} SET {column} = ?", [evil])
        out = io.StringIO()
        renderer("html")(page.collect(store, {"program": [HOSTILE]}), out)
    path = tmp_path / "hostile.html"
    path.write_text(out.getvalue(), encoding="utf-8")
    before = len(browser.requests)
    show(browser, path, LOOKS["phone"])
    time.sleep(0.3)
    assert browser.run("typeof window.hacked") == "undefined" and browser.requests[before:] == [path.as_uri()]
    assert browser.run("document.images.length") == 0
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.run("document.querySelectorAll('th[aria-sort]').length") == 0
    browser.run("document.querySelector('th button').click()")
    assert browser.run("document.querySelectorAll('th[aria-sort]').length") == 1, "the script of the page works"
    # Of a name, the beginning; all of it when asked, and as it was recorded for who reads the page by a program.
    cell = "document.querySelector('section[data-report=occa_kern_sum] tbody th')"
    recorded = browser.run(f"wholes[{cell}.dataset.whole]")
    assert recorded.endswith(HOSTILE[-1000:]) and len(browser.run(f"{cell}.textContent")) < 500
    browser.run(f"{cell}.querySelector('button').click()")
    assert len(browser.run(f"{cell}.textContent")) > len(recorded)
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_pictures(run: Run, tmp_path: Path) -> None:
    """Single plots, by their names; what there is not is told in a line."""
    if not draw.available():
        pytest.skip("vl-convert is not installed")
    path = tmp_path / "x.png"
    told = occa_prof("report", run.folder, "--plot", "kernels", "-o", path)
    assert told.returncode == 0 and path.read_bytes().startswith(b"\x89PNG"), told.stderr
    assert occa_prof("report", run.folder, "--plot", "kernels", "-o", path).returncode == 2
    told = occa_prof("report", run.folder, "--format", "svg", "--plot", "util")
    assert told.returncode == 0 and (run.folder / "util.svg").read_text(encoding="utf-8").startswith("<svg"), (
        told.stderr
    )
    for words in (
        ("--plot", "nope"),
        ("--format", "svg"),
        ("--plot", "mem", "--format", "csv"),
        ("--plot", "mem", "--report", "hist"),
    ):
        told = occa_prof("report", run.folder, *words)
        assert told.returncode == 2 and len(told.stderr.splitlines()) == 1 and told.stderr.startswith("occa_prof: "), (
            words
        )
