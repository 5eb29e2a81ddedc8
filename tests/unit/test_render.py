"""Renderers: what goes in comes out, whatever the names are."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
from typing import TextIO

import pytest

from occatrace.core.checked import printable
from occatrace.core.units import duration, size
from occatrace.render import Document, renderer
from occatrace.render import text as text_renderer
from occatrace.reports import OVERVIEW, Report, definitions, parse
from occatrace.store.losses import Losses

HOSTILE = [
    "plain",
    'quote " and, comma',
    "new\nline\r\n",
    "\rback",
    "\x1b[31mred\x07",
    "umlaut ü 漢字 🙂",
    "x" * 524288,
    "=1+1",
    "",
    "\u202eover",
]
NOTHING = Losses(0, 0, (), (), (), 0, 0, 0, (), (), ())
HEAD = """-- title: Things
-- about: some things
-- share: of all things
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: min_ns ns Min
-- column: stddev_ns ns StdDev
-- column: bytes bytes Bytes
-- column: failed count Failed
-- column: name text Name
-- column: parent parent Parent
SELECT 1
"""


def document(losses: Losses = NOTHING) -> Document:
    rows = [
        (12.5, 1500, 3, 100, 2.5, 1 << 20, int(i == 1), name, "p" if i == 2 else None) for i, name in enumerate(HOSTILE)
    ]
    return Document({"program": ["x"]}, losses, [Report(parse("things", HEAD), rows)])


def rendered(fmt: str, losses: Losses = NOTHING) -> str:
    out = io.StringIO()
    renderer(fmt)(document(losses), out)
    return out.getvalue()


def test_json() -> None:
    found = json.loads(rendered("json"))
    assert set(found) == {"schema", "run", "losses", "reports"} and found["schema"] == 1
    (report,) = found["reports"]
    assert set(report) == {"name", "columns", "rows"}
    assert report["columns"][1] == {"name": "total_ns", "unit": "ns"}
    assert [row["name"] for row in report["rows"]] == HOSTILE
    assert report["rows"][0]["parent"] is None and report["rows"][2]["parent"] == "p"


def test_csv() -> None:
    csv.field_size_limit(1 << 20)
    head, *rows = csv.reader(io.StringIO(rendered("csv"), newline=""))
    assert head[0] == "share" and [row[head.index("name")] for row in rows] == HOSTILE
    assert rows[0][1] == "1500"


def test_text_in_a_pipe_is_complete() -> None:
    text = rendered("table")
    lines = text.splitlines()
    assert len(lines) == 3 + len(HOSTILE)
    assert "x" * 524288 in text and "\x1b" not in text and "\\x1b[31mred\\x07" in text and "\\u202eover" in text
    assert "% is of all things" in text and "1.500 µs" in text and "1.000 MiB" in text
    assert any(line.rstrip().endswith("  new\\nline\\r\\n") for line in lines), "a part is indented"


def test_losses_come_first() -> None:
    text = rendered("table", Losses(3, 10, (), (), (), 0, 0, 0, (), ("damaged",), ("remark",)))
    assert text.index("remark") < text.index("damaged") < text.index("Things")


@pytest.mark.parametrize("width", [50, 80, 120, 300])
def test_text_fits_the_terminal(width: int) -> None:
    from rich.cells import cell_len

    primary, secondary = pty.openpty()
    os.environ["COLUMNS"] = str(width)
    try:
        with open(secondary, "w", encoding="utf-8") as out:
            lines = _terminal_lines(document(), out, primary)
    finally:
        del os.environ["COLUMNS"]
        os.close(primary)
    assert max(cell_len(line.rstrip()) for line in lines) <= width
    assert any("plain" in line for line in lines)
    if width == 50:
        assert any("no room for: " in line and "StdDev" in line for line in lines)


def _terminal_lines(doc: Document, out: TextIO, primary: int) -> list[str]:
    import re
    import threading

    chunks: list[bytes] = []

    def drain() -> None:
        while True:
            try:
                data = os.read(primary, 65536)
            except OSError:
                return
            chunks.append(data)
            if b"END" in data:
                return

    reader = threading.Thread(target=drain)
    reader.start()
    renderer("table")(doc, out)
    out.write("END")
    out.flush()
    reader.join(10)
    text = b"".join(chunks).decode().replace("\r\n", "\n").removesuffix("END")
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (7, "7 ns"), (0.25, "0.250 ns"), (999, "999 ns"), (1000, "1.000 µs"), (12_346, "12.35 µs"),
     (999_999, "1.000 ms"), (123_456_789, "123.5 ms"), (61 * 10**9, "61.00 s"), (12_345 * 10**9, "12,345 s"),
     # Four digits everywhere, also just below a power of ten.
     (9_500, "9.500 µs"), (9_760_000, "9.760 ms"), (9_999_400, "9.999 ms"), (9_999_600, "10.00 ms"), (99_800, "99.80 µs"),
     (999_800, "999.8 µs"), (9_860_000_000, "9.860 s"), (-9_760_000, "-9.760 ms")],
)  # fmt: skip
def test_duration(ns: float, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.000 KiB"), (1536 << 10, "1.500 MiB"),
     (9 * 1024 + 900, "9.879 KiB"), (1024 * 1023, "1,023 KiB"), (1024 * 1024 - 1, "1.000 MiB"), (1 << 50, "1,024 TiB")],
)  # fmt: skip
def test_size(count: int, text: str) -> None:
    assert size(count) == text


def test_printable() -> None:
    assert printable("a\tb\x7f ü") == "a\\tb\\x7f ü"


def test_the_only_part_that_is_all_of_a_row_is_not_told_again() -> None:
    """Of two parts, and of one with other numbers, each is; formats for programs have all of them."""
    numbers = (10.0, 500, 2, 200, 1.5, None, 0)
    rows = [
        *((*numbers, "alone", None), (*numbers, "_occa_alone_0", "alone")),
        *((*numbers, "two", None), (*numbers, "_occa_two_0", "two"), (*numbers, "_occa_two_1", "two")),
        *((*numbers, "other", None), (*numbers[:-1], 1, "_occa_other_0", "other")),
        (*numbers, "none", None),
    ]
    made = Document({"program": ["x"]}, NOTHING, [Report(parse("things", HEAD), rows)])
    shown = {}
    for kind in ("text", "html", "csv"):
        out = io.StringIO()
        renderer(kind)(made, out)
        shown[kind] = out.getvalue()
    names = [row[7] for row in rows]
    for kind, text in shown.items():
        assert [name for name in names if name not in text] == ([] if kind == "csv" else ["_occa_alone_0"])


CALLS = """-- title: Calls
-- group: api
-- about: some calls
-- column: api text API
-- column: total_ns ns Total
-- column: busy_ns ns Busy
-- column: calls count Calls
-- column: failed count Failed
-- column: name text Name
-- column: source source Source
SELECT 1
"""


def summary(*, brief: bool, other_failed: int = 0, other_ns: int = 999, caller: str = "") -> str:
    """Of a run of 1 ms."""
    rows = [
        ("occa", 800_000, 800_000, 3, 0, "build", "/code/kernels/a.okl:1"),
        ("occa", 100_000, 100_000, 1, 0, "run", "/code/main.cpp:20"),
        ("opencl", other_ns, other_ns, 2, other_failed, "clGetPlatformIDs", caller),
    ]
    run = {"kind": "run", "time_ns": 1_000_000, "name": "run"}
    definition = definitions()[OVERVIEW]
    overview = Report(definition, [tuple(run.get(c.name) for c in definition.columns)])
    out = io.StringIO()
    renderer("table")(Document({}, NOTHING, [overview, Report(parse("calls", CALLS), rows)], brief=brief), out)
    return out.getvalue()


def test_a_summary_has_one_line_for_an_api_that_took_nothing() -> None:
    assert "OpenCL calls (calls)  2 calls, 999 ns, less than 0.1 % of the run: --all\n" in summary(brief=True)
    for whole in (summary(brief=False), summary(brief=True, other_failed=1), summary(brief=True, other_ns=1000)):
        assert "less than" not in whole and "clGetPlatformIDs" in whole


@pytest.mark.parametrize(
    ("caller", "of_python"),
    [
        ("_cl.cpython-311-x86_64-linux-gnu.so+0x451fd", True),
        ("/venv/lib/_cl.abi3.so+0x1f", True),
        ("libffi.so.8.1.2+0x6f79", True),
        ("libsolver.so+0x10", False),
        ("/code/libffi/main.cpp:20", False),
    ],
)
def test_calls_from_python_say_how_to_record_its_lines(caller: str, of_python: bool) -> None:
    assert ("--python lines" in summary(brief=False, other_ns=9999, caller=caller)) == of_python


@pytest.mark.parametrize(
    ("caller", "generated"),
    [("0x7fa1600e56b2", True), ("0x7fa1600e56b2 (+3)", True), ("main.cpp:20", False), ("libsolver.so+0x10", False)],
)
def test_places_in_generated_code_say_so(caller: str, generated: bool) -> None:
    assert ("generated while the program ran" in summary(brief=False, other_ns=9999, caller=caller)) == generated


def test_a_narrow_terminal_drops_first_what_says_least() -> None:
    """Empty columns, repeats and columns with one value go before numbers; that value is said once."""
    names = ("alpha", "beta", "gamma")
    columns = parse("calls", CALLS.replace("-- column: source source Source", "-- column: mode text Mode")).columns
    cells = {"api": ["-"] * 3, "total_ns": ["1.000 ms", "2.000 ms", "3.000 ms"], "calls": ["1", "2", "3"], "failed": ["0"] * 3,
             "name": list(names), "mode": ["OpenMP"] * 3}  # fmt: skip
    cells["busy_ns"] = cells["total_ns"]
    widths = {}
    for width in range(24, 70):
        kept, left_out, alike = text_renderer._fit(columns, cells, width, whole=True)
        widths[width] = [c.name for c in kept], [c.name for c in left_out], [c.name for c in alike]
    assert widths[69] == (["api", "total_ns", "busy_ns", "calls", "failed", "name", "mode"], [], [])
    narrow = next(w for w in range(69, 0, -1) if "mode" not in widths[w][0])
    assert widths[narrow] == (["total_ns", "calls", "name"], ["api", "busy_ns", "failed"], ["mode"])


def test_long_names_of_kernels_are_told_apart() -> None:
    """A value that is the same in all rows makes room for them, and then numbers do; C++ functions go without what all have."""
    at = "at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(int&)::{lambda(float)#"
    names = [f"void {at}{n}}}, std::array<char*, 2ul> >(int, std::array<char*, {n}ul>)" for n in (1, 2)]
    columns = parse("calls", CALLS.replace("-- column: source source Source", "-- column: device text Device")).columns
    cells = {"api": ["CUDA"] * 2, "total_ns": ["1.000 ms"] * 2, "busy_ns": ["1.000 ms"] * 2, "calls": ["1", "2"], "failed": ["0"] * 2,
             "name": names, "device": ["NVIDIA H100 80GB HBM3"] * 2}  # fmt: skip
    kept, _, alike = text_renderer._fit(columns, cells, 100, whole=True)
    assert "device" not in [c.name for c in kept] and "device" in [c.name for c in alike]
    name = next(c for c in columns if c.name == "name")
    assert [text_renderer._shortened(n, 200, name) for n in names] == [
        f"{at}{n}}}, std::array<char*, 2ul> >" for n in (1, 2)
    ]
    short = text_renderer._shortened("void (anonymous namespace)::softmax<float>(float*, int) const", 30, name)
    assert short.startswith("(anonymous namespac") and len(short) == 30
    assert text_renderer._shortened("void f(int (*)(char), long)", 5, name) == "f"


def test_advice_of_an_overview_goes_on_in_the_next_line() -> None:
    line = "  kernel builds: keep OCCA_CACHE_DIR between runs, or build before the timed part"
    assert text_renderer._wrapped(line, None) == text_renderer._wrapped(line, 90) == [line]
    assert text_renderer._wrapped(line, 50) == [
        "  kernel builds: keep OCCA_CACHE_DIR between runs,",
        "    or build before the timed part",
    ]


def test_a_summary_says_nothing_twice() -> None:
    """Neither a column that repeats another, nor the folder that all sources are in."""
    short, whole = summary(brief=True), summary(brief=False)
    assert "Busy" in whole and "/code/kernels/a.okl:1" in whole and "/code/main.cpp:20" in whole
    assert "Busy" not in short and "  kernels/a.okl:1\n" in short and "  main.cpp:20\n" in short
    assert "\n  sources are in /code\n" in short and "sources are in" not in whole
