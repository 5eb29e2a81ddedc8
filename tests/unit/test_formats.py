"""Names that try to break out of a format, read back by parsers that are not ours."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from occatrace.core.checked import printable
from occatrace.core.units import Units
from occatrace.render import Document, renderer
from occatrace.reports import Report, in_units, parse
from occatrace.store.losses import Losses

HOSTILE = [
    "plain",
    "it's \"quoted\" 'twice'",
    "a,b;c\td",
    "new\nline\r\nand\rback",
    "| pipe || `code` **bold** _em_ ~~gone~~ [a](b) ![c](d) <b>x</b> &amp; &#65; \\| \\",
    "# heading",
    "- list",
    "1. list",
    "---",
    "http://example.com/x_y_z www.example.com me@example.com",
    "<script>alert(1)</script></table><!-- -->",
    "\x1b[31mred\x07\x00\x7f\x9b",
    "  both sides  ",
    "umlaut ü 漢字 🙂 e\u0301 \u202eover",
    "=1+1",
    "$math$ $$more$$",
    "",
    "x" * 524_288,
    "|" * 1000,
]
HEAD = """-- title: Things
-- about: some things
-- share: of all things
-- column: share percent Time
-- column: total_ns ns Total
-- column: bytes bytes Bytes
-- column: name text Name
-- column: errors text Errors
SELECT 1
"""


def rendered(fmt: str, names: list[str]) -> str:
    rows = [(50.0, 1500, 1 << 20, name, f"error of {name[:20]}") for name in names]
    out = io.StringIO()
    report = Report(parse("things", HEAD), rows, ["a note | with <b> in it"])
    renderer(fmt)(Document({"program": names[:1]}, Losses.none(), [report]), out)
    return out.getvalue()


def read_csv(text: str) -> list[list[str]]:
    csv.field_size_limit(1 << 21)
    return list(csv.reader(io.StringIO(text, newline="")))[1:]


def read_tsv(text: str) -> list[list[str]]:
    def plain(field: str) -> str:
        parts = field.split("\\\\")
        return "\\".join(p.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r") for p in parts)

    return [[plain(field) for field in line.split("\t")] for line in text.split("\n")[1:-1]]


class Cells(HTMLParser):
    """What the cells of all tables hold: all of it, where a cell shows less."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = self.block = False
        self.wholes = ""
        self.numbers: dict[tuple[int, int], int] = {}  # of cells that do not show all
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.inside = True
            self.rows[-1].append("")
            if number := dict(attrs).get("data-whole"):
                self.numbers[len(self.rows) - 1, len(self.rows[-1]) - 1] = int(number)
        self.block = ("id", "wholes") in attrs

    def handle_endtag(self, tag: str) -> None:
        self.block = False
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data
        if self.block:
            self.wholes += data

    def close(self) -> None:
        super().close()
        for (row, column), number in self.numbers.items():
            self.rows[row][column] = json.loads(self.wholes)[number]


def read_markdown(text: str) -> list[list[str]]:
    """By markdown-it, with the tables and the strike-through of GitHub."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    reader = Cells()
    reader.feed(parser.render(text))
    assert not reader.tags & {"strong", "em", "code", "a", "img", "s", "b", "script", "blockquote", "li"}, reader.tags
    return reader.rows[1:]


def test_csv() -> None:
    assert [row[3] for row in read_csv(rendered("csv", HOSTILE))] == HOSTILE


def test_tsv() -> None:
    assert [row[3] for row in read_tsv(rendered("tsv", HOSTILE))] == HOSTILE


def test_json() -> None:
    content = json.loads(rendered("json", HOSTILE))
    assert [row["name"] for row in content["reports"][0]["rows"]] == HOSTILE
    assert content["reports"][0]["notes"] == ["a note | with <b> in it"]


def test_markdown() -> None:
    pytest.importorskip("markdown_it")
    rows = read_markdown(rendered("markdown", HOSTILE))
    assert [row[3] for row in rows] == [printable(name).strip() for name in HOSTILE]
    assert {len(row) for row in rows} == {5} and rows[0][:3] == ["50.0 %", "1.500 µs", "1.000 MiB"]


def test_html() -> None:
    reader = Cells()
    page = rendered("html", HOSTILE)
    assert page.count("x" * 524_288) == 1, "kept once, whatever shows it"
    reader.feed(page)
    reader.close()
    head, *rows = reader.rows[: len(HOSTILE) + 1]
    at = head.index("Name")
    assert [row[at] for row in rows] == HOSTILE
    assert "b" not in reader.tags


def test_table() -> None:
    text = rendered("table", HOSTILE)
    lines = text.split("\n")
    assert len(lines) == 5 + len(HOSTILE) and all(line.isprintable() for line in lines)
    for name, line in zip(HOSTILE, lines[4:], strict=False):
        assert printable(name).rstrip() in line


printables = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)


@settings(deadline=None, max_examples=200)
@given(st.lists(printables, min_size=1, max_size=5))
def test_any_names(names: list[str]) -> None:
    pytest.importorskip("markdown_it")
    assert [row[3] for row in read_csv(rendered("csv", names))] == names
    assert [row[3] for row in read_tsv(rendered("tsv", names))] == names
    assert [row["name"] for row in json.loads(rendered("json", names))["reports"][0]["rows"]] == names
    assert [row[3] for row in read_markdown(rendered("markdown", names))] == [printable(n).strip() for n in names]


def test_fixed_units_are_in_the_columns_names() -> None:
    report = Report(parse("things", HEAD), [(50.0, 1_500_000, 3 << 20, "a", ""), (50.0, None, None, "b", "")])
    scaled = in_units(report, Units("ms", "MiB"))
    assert [c.name for c in scaled.columns] == ["share", "total_ms", "mib", "name", "errors"]
    assert scaled.rows == [(50.0, 1.5, 3.0, "a", ""), (50.0, None, None, "b", "")]
    out = io.StringIO()
    renderer("json")(Document({}, Losses.none(), [scaled]), out)
    content = json.loads(out.getvalue())["reports"][0]
    assert content["columns"][1] == {"name": "total_ms", "unit": "ms"} and content["rows"][0]["total_ms"] == 1.5
    out = io.StringIO()
    renderer("table")(Document({}, Losses.none(), [scaled]), out)
    assert (
        "Total (ms)" in out.getvalue() and "1.500  " in out.getvalue() and " ms" not in out.getvalue().split("\n", 3)[3]
    )
    assert [c.name for c in in_units(report, Units("ns", "B")).columns][1:3] == ["total_ns", "bytes"]
