"""The lines of the program that made calls, as numbers: of millions of calls a text each would not fit into memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from occatrace.store.tables import Store

_PLACE = 'line_place(s.file, s.line, s.module, s."offset")'


@dataclass(frozen=True)
class Lines:
    """Lines by number, 0: not known. In a query of calls named `c` with process, thread, seq and caller: what to join, and the
    number of a call's line."""

    texts: list[str]
    join: str
    number: str


def of_calls(store: Store) -> Lines:
    """Make the table `call_line_texts`, by which lines have numbers."""
    store.con.execute(f"""
        CREATE OR REPLACE TEMP TABLE call_line_texts AS
        SELECT source, row_number() OVER (ORDER BY source) AS line
        FROM (SELECT {_PLACE} AS source FROM call_sites s UNION SELECT source FROM python_places)""")
    found = store.con.execute("SELECT source FROM call_line_texts ORDER BY line").fetchall()
    join = (
        f" LEFT JOIN (SELECT s.process, s.address, t.line FROM call_sites s JOIN call_line_texts t ON t.source = {_PLACE}) l"
        " ON l.process = c.process AND l.address = c.caller"
    )
    number = "coalesce(l.line, 0)::INTEGER"
    if "python_lines" in store.filled:
        # Python's line stands for the place in the extension module.
        join += (
            " LEFT JOIN (SELECT thread, seq, line FROM python_places JOIN call_line_texts USING (source)) y"
            " ON y.thread = c.thread AND y.seq = c.seq"
        )
        number = "coalesce(y.line, l.line, 0)::INTEGER"
    return Lines(["", *(source for (source,) in found)], join, number)
