"""Documents as one HTML file: tables that sort, figures, facts. Nothing from elsewhere, and its policy lets nothing out.

Names come from the traced program: they are text everywhere, and the policy runs no script but ours.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, TextIO

from occatrace.core.checked import printable
from occatrace.core.units import duration, size
from occatrace.render import Document, Figure, Flame, SourceFile
from occatrace.render.text import NUMERIC, cell, sections
from occatrace.reports import Column, Report
from occatrace.store.losses import Losses

ROWS = 200  # of a table; what is beyond is told, with where to get it
_LONGEST = 300  # characters of a cell
# Columns that are left out where they say nothing about any row.
_OPTIONAL = ("failed", "bytes", "source", "device", "errors", "mode", "error")


@cache
def asset(name: str) -> str:
    """A style or script that lies beside this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def head(title: str, style: str, script: str) -> str:
    """The beginning of a page that asks nobody for anything; `script` is the only one that it will run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{text(title)}</title>\n<link rel="icon" href="data:,">\n<style>\n{style}</style>\n</head>\n'
    )


def text(value: str) -> str:
    """Any text within HTML: harmless, on one line, and not longer than anybody reads."""
    return escape(shortened(value))


def shortened(value: str) -> str:
    """A text on one line, and not longer than anybody reads."""
    shown = printable(value[: _LONGEST + 1])
    return shown if len(value) <= _LONGEST else f"{shown[:_LONGEST]}… ({len(value):,} characters)"


def embedded(content: Any) -> str:
    """JSON within a script element, which it cannot end."""
    return (
        json.dumps(content, separators=(",", ":"))
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    )


class Wholes:
    """The whole of each text that a page shows shortened or with escapes: once, however many cells show it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, value: str) -> str:
        """The attribute that has the number of this text; nothing where the text is shown as it is."""
        if shortened(value) == value:
            return ""
        return f' data-whole="{self._numbers.setdefault(value, len(self._numbers))}"'

    def block(self) -> str:
        """The texts by their numbers, as the page keeps them."""
        content = embedded(list(self._numbers))
        return f'<script type="application/json" id="wholes">{content}</script>\n' if self._numbers else ""


def render(document: Document, out: TextIO) -> None:
    """Write the page."""
    out.writelines(_page(document))


def _page(document: Document) -> Iterator[str]:
    program = " ".join(map(str, document.run.get("program", ()))) or "a run"
    script, style, wholes = asset("html_script.js"), asset("html_style.css") + _dark_plots(document), Wholes()
    if document.flame:
        script, style = script + asset("html_flame.js"), style + asset("html_flame.css")
    yield head(f"occatrace: {program}", style, script)
    tables = [
        (title, rows, replace(report, notes=()) if part else report)
        for report in document.reports
        for part, (title, rows) in enumerate(sections(report))
    ]
    links = [("figures", "Plots")] if document.figures else []
    links += [("graph", "Flame graph")] if document.flame else []
    links += [("sources", "Source")] if document.sources else []
    links += [(f"t{number}", title) for number, (title, _, _) in enumerate(tables)]
    links += [("facts", "The run")] if document.facts else []
    yield '<body>\n<nav aria-label="Parts of the page"><ul><li><a class="brand" href="#top">occatrace</a></li>'
    yield "".join(f'<li><a href="#{target}">{text(title.partition(" (")[0])}</a></li>' for target, title in links)
    yield f'</ul></nav>\n<main id="top">\n<h1>{text(program)}</h1>\n'
    yield from preface(document.run, document.losses)
    if document.tiles:
        yield '<dl class="tiles">\n'
        for tile in document.tiles:
            more = f'<dd class="more">{text(tile.more)}</dd>' if tile.more else ""
            yield f'<div><dt>{text(tile.title)}</dt><dd class="value">{text(tile.value)}</dd>{more}</div>\n'
        yield "</dl>\n"
    if document.figures:
        yield '<div class="figures" id="figures">\n'
        for figure in document.figures:
            yield from _figure(figure)
        yield "</div>\n"
    if document.flame:
        yield from flame(document.flame)
    yield from _sources(document.sources)
    for number, (title, rows, report) in enumerate(tables):
        yield from table(number, title, rows, report, wholes)
    for remark in document.remarks:
        yield f'<p class="note">{text(remark)}</p>\n'
    if document.facts:
        yield '<section id="facts"><h2>The run</h2><dl class="facts">\n'
        yield "".join(
            f"<dt>{text(name)}</dt><dd{wholes.mark(value)}>{text(value)}</dd>\n" for name, value in document.facts
        )
        yield "</dl></section>\n"
    yield f"</main>\n{wholes.block()}<script>{script}</script>\n</body>\n</html>\n"


def _dark_plots(document: Document) -> str:
    rules = {rule for figure in document.figures for rule in figure.dark}
    return f"@media screen and (prefers-color-scheme: dark) {{\n{chr(10).join(sorted(rules))}\n}}\n" if rules else ""


def preface(run: Mapping[str, Any], losses: Losses) -> Iterator[str]:
    """When and where the run was, and what is missing of it."""
    lines = losses.lines()
    meta = [f"{run['mode']} mode"] if run.get("mode") else []
    meta += [f"on {run['host']}"] if run.get("host") else []
    meta += [str(run["started"]).replace("T", " ")] if run.get("started") else []
    if run.get("started"):
        status = run.get("exit_status")
        meta.append("still running, or cut off" if status is None else f"exit status {status}")
        if not lines:
            meta.append("nothing was lost")
    if meta:
        yield f'<p class="meta">{text(" · ".join(meta))}</p>\n'
    if lines:
        yield '<div class="losses" role="note">' + "".join(f"<p>{text(line)}</p>" for line in lines) + "</div>\n"


def _figure(figure: Figure) -> Iterator[str]:
    hover = f' data-hover="hover-{figure.name}"' if figure.hover else ""
    yield f'<figure id="plot-{figure.name}"{hover}><figcaption><h2>{text(figure.title)}</h2>'
    yield f'<p class="about">{escape(printable(figure.about))}</p></figcaption>\n'
    label = escape("; ".join(map(shortened, (figure.title, *figure.words))))
    yield f'<div class="broad" role="img" aria-label="{label}">{figure.broad}</div>\n'
    yield f'<div class="narrow" role="img" aria-label="{label}">{figure.narrow}</div>\n'
    if figure.hover:
        yield f'<script type="application/json" id="hover-{figure.name}">{embedded(figure.hover)}</script>\n'
    yield "</figure>\n"


def flame(content: Flame) -> Iterator[str]:
    """The section of a flame graph, which html_flame.js draws."""
    choices = "".join(
        f'<button type="button" data-measure="{name}" aria-pressed="false">{text(title)}</button>'
        for name, title in content.measures.items()
    )
    yield '<section id="graph"><h2>Flame graph</h2>\n'
    yield f'<div class="bar-of-tools"><span class="choices" role="group" aria-label="Measure">{choices}</span>'
    yield '<input type="search" placeholder="Search (text or /regex/)" aria-label="Search for frames">'
    yield '<button type="button" class="reset" disabled>Reset zoom</button></div>\n'
    yield '<p class="told" aria-live="polite"></p>\n<div class="graph" role="group" aria-label="Frames"></div>\n'
    yield '<noscript><p class="note">The graph is drawn by a script of this page; the tables are not.</p></noscript>\n'
    yield f'<script type="application/json" id="tree">{embedded(content.tree)}</script>\n</section>\n'


_SOURCE_HEADS = ("Device", "Host", "Calls", "Moved", "Line", "Source")


def _sources(files: Sequence[SourceFile]) -> Iterator[str]:
    """Source files with what their lines caused in the margin; the first one is open."""
    if not files:
        return
    yield '<section id="sources" class="tall"><h2>Annotated source</h2>\n<p class="about">What each line of the program caused: '
    yield "time of devices in the work that it launched, time of the host in its calls, these calls, and bytes moved. "
    yield "OCCA kernels are at the line where they begin.</p>\n"
    for number, file in enumerate(files):
        total = duration(sum(line.device_ns for line in file.lines))
        yield f'<details{"" if number else " open"}><summary><span class="path">{text(file.name)}</span> device {total}</summary>\n'
        if file.note:
            yield f'<p class="note">{text(file.note)}</p>\n'
        shown = _SOURCE_HEADS if any(line.text is not None for line in file.lines) else _SOURCE_HEADS[:-1]
        kinds = "source" if len(shown) == len(_SOURCE_HEADS) else "source bare"
        yield f'<div class="wide" role="region" tabindex="0" aria-label="{text(file.name)}"><table class="{kinds}"><thead><tr>'
        for head_ in shown:
            kind = "" if head_ == "Source" else ' class="n"'
            yield f'<th scope="col"{kind}><span>{head_}</span></th>'
        yield "</tr></thead>\n<tbody>\n"
        before = file.lines[0].number - 1 if file.lines else 0
        for line in file.lines:
            if line.number != before + 1 and len(shown) == len(_SOURCE_HEADS):
                yield '<tr><td class="n" colspan="5">⋮</td><td></td></tr>\n'
            before = line.number
            numbers = (
                duration(line.device_ns) if line.device_ns else "", duration(line.host_ns) if line.host_ns else "",
                f"{line.calls:,}" if line.calls else "", size(line.bytes) if line.bytes else "", str(line.number),
            )  # fmt: skip
            hot = line.calls and len(shown) == len(
                _SOURCE_HEADS
            )  # without text, all lines are those that caused something
            yield f"<tr{' class=hot' if hot else ''}>" + "".join(f'<td class="n">{number}</td>' for number in numbers)
            if len(shown) == len(_SOURCE_HEADS):
                yield f"<td><code>{text((line.text or '').expandtabs(4))}</code></td>"
            yield "</tr>\n"
        yield "</tbody></table></div>\n"
        if file.left_out:
            yield f'<p class="note">{file.left_out:,} more lines: occa_prof annotate RUN {text(file.name)}</p>\n'
        yield "</details>\n"
    yield "</section>\n"


def table(
    number: int,
    title: str,
    rows: Sequence[tuple[Any, ...]],
    report: Report,
    wholes: Wholes,
    more: str | None = "occa_prof report RUN --report {} --format csv",
) -> Iterator[str]:
    """A section with a table that sorts; `more` is the command that prints all rows, with a place for the report's name."""
    definition = report.definition
    places = {column.name: place for place, column in enumerate(report.columns)}
    shown = rows[:ROWS]
    # The name first: it stays in sight where a narrow screen shows a part of the table.
    columns = sorted(
        (c for c in report.columns if c.unit != "parent" and c.name != definition.group and _says(c, places, shown)),
        key=lambda column: column.name != "name",
    )
    about = definition.about[:1].upper() + definition.about[1:].rstrip(".") + "."
    share = f" % is {definition.share}." if definition.share else ""
    yield f'<section id="t{number}" class="{"tall" if len(shown) > 12 else ""}" data-report="{text(definition.name)}">'
    yield f'<h2>{text(title)}</h2>\n<p class="about" id="about{number}">{escape(printable(about + share))}</p>\n'
    for note in report.notes:
        yield f'<p class="about">{escape(printable(note))}</p>\n'
    yield f'<div class="wide"><table class="sortable" aria-describedby="about{number}">'
    yield f"<caption>{text(title)}</caption>\n<thead><tr>"
    for column in columns:
        kind = ' class="n"' if column.unit in NUMERIC else ""
        hint = f' title="{text(column.help)}"' if column.help else ""
        yield f'<th scope="col"{kind}{hint} data-name="{text(column.name)}"><span>{text(column.title)}</span></th>'
    yield "</tr></thead>\n<tbody>\n"
    for row in shown:
        marks = []
        if "parent" in places and row[places["parent"]] is not None:
            marks.append("part")
        if "failed" in places and row[places["failed"]]:
            marks.append("failed")
        yield f'<tr class="{" ".join(marks)}">' if marks else "<tr>"
        for column in columns:
            yield _cell(column, row[places[column.name]], wholes)
        yield "</tr>\n"
    yield "</tbody></table></div>\n"
    if not rows:
        empty = definition.empty or "nothing was recorded"
        yield f'<p class="note">{escape(printable(empty[:1].upper() + empty[1:]))}.</p>\n'
    if len(rows) > ROWS:
        all_of_them = f" All of them: {more.format(definition.name)}" if more else ""
        yield f'<p class="note">The first {ROWS:,} of {len(rows):,} rows.{text(all_of_them)}</p>\n'
    yield "</section>\n"


def _says(column: Column, places: dict[str, int], rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether some row has something there; a column of names or numbers that are all unknown only takes room."""
    values = [row[places[column.name]] for row in rows]
    if column.name in _OPTIONAL:
        return not values or any(values)
    return column.name == "name" or not values or any(value not in (None, "") for value in values)


def _cell(column: Column, value: Any, wholes: Wholes) -> str:
    if column.name == "name" or column.unit not in NUMERIC:
        content = "" if value is None else str(value)
        if column.name == "name":
            return f'<th scope="row" class="name"{wholes.mark(content)}>{text(content)}</th>'
        if column.unit == "source":
            # The file's name is enough to know it; the folder is there for those who point at it.
            shown = text(content.rpartition("/")[2])
            full = f' data-full="{text(content)}"' if "/" in content else ""
            return f'<td title="{text(content)}"{full}{wholes.mark(content)}>{shown}</td>'
        kind = ' class="long"' if len(content) > 30 else ""
        return f"<td{kind}{wholes.mark(content)}>{text(content)}</td>"
    shown = escape(cell(value, column))
    exact = "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)
    bar = (
        f' bar" style="--p:{min(max(float(value), 0), 100):.1f}%'
        if column.unit == "percent" and value is not None
        else ""
    )
    return f'<td class="n{bar}" data-v="{exact}">{shown}</td>'
