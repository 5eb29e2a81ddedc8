"""What a gathered table is: events that go row by row to a raw table while a trace is read, and from there to the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from occatrace.core.model import Function, Model
from occatrace.core.sql import text as sql_text
from occatrace.ingest.reading import Columns
from occatrace.ingest.threads import ThreadMap


@dataclass(frozen=True)
class Gathered:
    """Rows of one kind, in DuckDB from the first batch on, so that their number does not matter.

    When `insert` runs there are, besides the raw table, `slots` (slot, process) and the tables processes, threads,
    names, sites, kernels, devices, queues and those gathered before; `site_texts` has the sites as reports show them.
    """

    raw: str
    """Name of the raw table."""
    ddl: str
    """Its columns; the first is `slot INTEGER`, the thread of the event (thread of the store: slot + 1)."""
    takes: Callable[[str, Function | None, Columns], bool]
    """Whether events of this name (and function, where it is a call) belong here."""
    columns: Callable[[ThreadMap, Columns], Columns]
    """The raw columns of a batch, without `slot`."""
    insert: Callable[[Model], str]
    """SQL that fills the store's table from the raw one; not run where that is empty."""
    texts: tuple[str, ...] = ()
    """Fields of the event that are strings: `columns` gets their texts."""

    def take(
        self, model: Model, event: str, function: Function | None, threads: ThreadMap, columns: Columns
    ) -> Columns | None:
        """The raw columns of a batch (with or without `slot`); None: it does not belong here."""
        return self.columns(threads, columns) if self.takes(event, function, columns) else None


def never(event: str, function: Function | None, columns: Columns) -> bool:
    """`takes` of a table that overrides `take`."""
    return False


def nothing(threads: ThreadMap, columns: Columns) -> Columns:
    """`columns` of a table that overrides `take`."""
    return {}


def kind_text(model: Model) -> str:
    """SQL: the name of the activity kind `r.kind`."""
    names = model.texts("device", "activity_kind").items()
    return "CASE r.kind " + " ".join(f"WHEN {n} THEN '{name}'" for n, name in names) + " ELSE 'other' END"


def apis_with_handles(model: Model) -> str:
    """SQL: the APIs whose memory has handles that are no addresses, as it is mapped to be seen; all but shared virtual memory."""
    return ", ".join(map(sql_text, model.mapping)) or "''"


def enum_text(model: Model, api: str, enum: str, column: str) -> str:
    """SQL: the name of a value of an enumeration of the model."""
    if enum not in model.enums.get(api, {}):
        return "''"
    names = model.texts(api, enum).items()
    return f"CASE {column} " + " ".join(f"WHEN {n} THEN {sql_text(name)}" for n, name in names) + " ELSE '' END"
