"""Files of tables without rows: what DuckDB would have written, for every reader of Parquet."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars
import pyarrow.parquet
import pytest

from occatrace.core.schema import TABLES, Column, Table
from occatrace.store import empty


@pytest.mark.parametrize(
    "table", [*TABLES, Table("wide", "", tuple(Column(f"c{i}", "DOUBLE", "", "") for i in range(300)))]
)
def test_as_duckdb_writes_it(tmp_path: Path, table: Table) -> None:
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    empty.write(ours, table)
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE t ({table.ddl()})")
        con.execute(f"COPY t TO '{theirs}' (FORMAT parquet, COMPRESSION zstd)")
        described = [con.execute(f"DESCRIBE FROM '{file}'").fetchall() for file in (ours, theirs)]
        assert described[0] == described[1]
        assert con.execute(f"FROM '{ours}'").fetchall() == []
        schema = "SELECT name, type, num_children, converted_type FROM parquet_schema('{}')"
        assert con.execute(schema.format(ours)).fetchall() == con.execute(schema.format(theirs)).fetchall()
    # Whether a column may be NULL is said by its rows, where DuckDB writes it.
    read = [pyarrow.parquet.read_table(file) for file in (ours, theirs)]
    assert (read[0].schema.names, read[0].schema.types) == (read[1].schema.names, read[1].schema.types)
    assert read[0].num_rows == 0
    assert polars.read_parquet(ours).schema == polars.read_parquet(theirs).schema
    assert empty.is_empty(ours) and empty.is_empty(theirs)


def test_files_that_are_not_empty(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    with duckdb.connect() as con:
        for rows, nothing in ((0, True), (1, False), (5000, False)):
            con.execute(f"COPY (SELECT 0::UTINYINT AS a FROM range({rows})) TO '{file}' (FORMAT parquet)")
            assert empty.is_empty(file) == nothing, rows
    content = empty.content(TABLES[0])
    for damaged in (content[:-1], content[1:], content[-7:], b"", content[:20] + content[-8:], b"PAR1" + content):
        file.write_bytes(damaged)
        assert not empty.is_empty(file), damaged
    assert not empty.is_empty(tmp_path / "none") and not empty.is_empty(tmp_path)
