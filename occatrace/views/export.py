"""The tables of a run as files of other formats. Written by DuckDB, and by Python's own sqlite3 for SQLite."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from occatrace.core import files, halfway
from occatrace.core.schema import CALLS, SCHEMA_VERSION, TABLES
from occatrace.core.sql import name as sql_name
from occatrace.core.sql import text as sql_text
from occatrace.errors import StoreError
from occatrace.store.tables import Store, open_store
from occatrace.views import other_tools, rocpd, timeline

_COPY = {
    "parquet": "FORMAT parquet, COMPRESSION zstd",
    "csv": "FORMAT csv, HEADER",
    "json": "FORMAT json",  # one object per line
}
_FETCH = 8192
# Formats of other tools that are one file: what writes them.
_FILES: Mapping[str, Callable[[Store, Path], object]] = {"hatchet": other_tools.hatchet, "rocpd": rocpd.write}


def export(
    run: Path,
    target: Path,
    fmt: str,
    names: Sequence[str] = (),
    *,
    calls: bool = False,
    tell: Callable[[str], object] = str,
) -> list[str]:
    """Write tables of a run to `target`; returns their names. `tell` hears that the run goes on."""
    with open_store(run) as store:
        if store.partial:
            tell(store.partial)
        there = [table.name for table in TABLES]
        if calls or any(name not in there for name in names):
            there += [CALLS.name, *store.functions()]
        store.sum_lines(" ".join(names or there))
        unknown = [name for name in names if name not in there]
        if unknown:
            raise StoreError(f"no table {unknown[0]!r}; there are: {', '.join(there)}")
        chosen = list(names) or there
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place until it is complete: whatever ends us leaves no half of it.
        partial = halfway.add_path(files.partial_name(target))
        try:
            partial.mkdir()
            if fmt == "otf2":
                note = timeline.write(store, partial / target.name, format="otf2").note
                if note:
                    tell(note)
                _put(partial / target.name, target)
                return ["traces.otf2"]
            if write := _FILES.get(fmt):
                write(store, partial / target.name)
                _put(partial / target.name, target)
                return [target.name]
            if fmt == "nsys":
                made = other_tools.nsys(store, partial)
                if not made:
                    raise StoreError("nothing to write: no kernels, copies or calls were recorded")
                _put(partial, target)
                return made
            if fmt == "sqlite":
                _sqlite(store, partial / target.name, chosen)
                _put(partial / target.name, target)
            else:
                _folder(store, partial, fmt, chosen)
                _put(partial, target)
        finally:
            halfway.remove_path(partial)
        return chosen


def export_scaling(
    runs: Sequence[tuple[Path, Mapping[str, float]]], target: Path, tell: Callable[[str], object]
) -> None:
    """Write runs for Extra-P to one file. Each has the values of its parameters; none given: `processes`."""
    found = []
    for run, parameters in runs:
        with open_store(run) as store:
            if store.partial:
                tell(store.partial)
            measured = other_tools.measured(store)
            found.append((parameters or {"processes": measured.processes}, measured))
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = halfway.add_path(files.partial_name(target))
    try:
        other_tools.extrap(found, partial)
        _put(partial, target)
    finally:
        halfway.remove_path(partial)


def _put(made: Path, target: Path) -> None:
    """In place of what was there."""
    if target.is_dir():
        shutil.rmtree(target)
    elif made.is_dir():
        target.unlink(missing_ok=True)
    made.replace(target)


def _folder(store: Store, folder: Path, fmt: str, names: Sequence[str]) -> None:
    for name in names:
        file = sql_text(str(folder / f"{name}.{fmt}"))
        store.con.execute(f"COPY (SELECT * FROM {sql_name(name)}) TO {file} ({_COPY[fmt]})")
    manifest: dict[str, Any] = {"schema": SCHEMA_VERSION, "format": fmt, "tables": list(names)}
    if store.partial:
        manifest["partial"] = store.partial
    (folder / "tables.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _sqlite(store: Store, target: Path, names: Sequence[str]) -> None:
    """SQLite has 64-bit signed integers only: what is larger is kept as text; lists and structs as JSON."""
    with sqlite3.connect(target) as db:
        for name in names:
            cursor = store.con.cursor().execute(f"SELECT * FROM {sql_name(name)}")
            columns = ", ".join(sql_name(column[0]) for column in cursor.description or ())
            db.execute(f"CREATE TABLE {sql_name(name)} ({columns})")
            marks = ", ".join("?" * len(cursor.description or ()))
            while rows := cursor.fetchmany(_FETCH):
                db.executemany(f"INSERT INTO {sql_name(name)} VALUES ({marks})", [tuple(map(_plain, r)) for r in rows])
    db.close()


def _plain(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json.dumps(value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    return value
