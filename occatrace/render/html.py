"""A plain HTML page of tables: one file, no script, nothing from elsewhere; readable in light, dark and print."""

from __future__ import annotations

from html import escape
from typing import TextIO

from occatrace.render import Document
from occatrace.render.text import NUMERIC, cell

_STYLE = """
:root { color-scheme: light dark; font: 14px/1.4 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 110rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #8884; }
th { position: sticky; top: 0; background: Canvas; }
.n { text-align: right; }
.name { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; font-family: ui-monospace, monospace; }
.part { padding-left: 2rem; }
.loss { color: #c33; }
"""


def render(document: Document, out: TextIO) -> None:
    """Write the page."""
    program = " ".join(map(str, document.run.get("program", ()))) or "a run"
    out.write('<!doctype html>\n<html lang="en"><meta charset="utf-8">')
    out.write('<meta name="viewport" content="width=device-width">')
    out.write(f"<title>occatrace: {escape(program)}</title><style>{_STYLE}</style>\n<h1>{escape(program)}</h1>\n")
    for line in document.losses.lines():
        out.write(f'<p class="loss">{escape(line)}</p>\n')
    for report in document.reports:
        places = {column.name: place for place, column in enumerate(report.columns)}
        columns = [column for column in report.columns if column.unit != "parent"]
        share = f" % is {report.definition.share}." if report.definition.share else ""
        about = report.definition.about
        out.write(
            f"<h2>{escape(report.definition.title)}</h2>\n<p>{escape(about[:1].upper() + about[1:])}.{escape(share)}</p>\n"
        )
        out.write('<div class="wide"><table>\n<tr>')
        for column in columns:
            out.write(f'<th class="{"n" if column.unit in NUMERIC else ""}">{escape(column.title)}</th>')
        out.write("</tr>\n")
        for row in report.rows:
            part = "parent" in places and row[places["parent"]] is not None
            out.write("<tr>")
            for column in columns:
                kind = "n" if column.unit in NUMERIC else "name" if column.name == "name" else ""
                kind += " part" if part and column.name == "name" else ""
                out.write(f'<td class="{kind}">{escape(cell(row[places[column.name]], column))}</td>')
            out.write("</tr>\n")
        out.write("</table></div>\n")
    out.write("</html>\n")
