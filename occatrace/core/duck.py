"""DuckDB as the analysis uses it: connections, results, errors. `duckdb` here is the extension module of DuckDB's package
where there is one by itself (DuckDB 1.4 and later): the Python part of the package (relations, expressions, its version from
the metadata of installed packages) takes three times as long to load. A later `import duckdb` adds that part to the same
classes, as the public interface (occatrace/api.py) does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb as duckdb
else:
    try:
        import _duckdb as duckdb
    except ImportError:
        import duckdb

__all__ = ["duckdb"]
