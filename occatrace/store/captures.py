"""When a run recorded: by the switch of each node (run.json) and by the doing of each process (table `captures`). Where it did
not do so all the time, idle time and the length of the run are reckoned without the time between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from occatrace.core.duck import duckdb
from occatrace.core.sql import text as sql_text

_ENDLESS = 1 << 62


def make(con: duckdb.DuckDBPyConnection, facts: Mapping[str, Any]) -> bool:
    """Make the macros `unrecorded_ns` (of a process between two moments) and `recorded_ns` (of a run, given its length); where
    the run did not record all the time, also the tables on which they stand, `recorded` and `unrecorded`, and say so.
    `facts`: its run.json."""
    of_hosts: Mapping[str, Any] = facts.get("captures") or {}
    if not of_hosts and not con.execute("SELECT 1 FROM captures LIMIT 1").fetchall():
        con.execute(
            "CREATE OR REPLACE MACRO unrecorded_ns(p, a, b) AS 0; CREATE OR REPLACE MACRO recorded_ns(length) AS length"
        )
        return False
    spans = [f"({sql_text(host)}, {start}, {end})" for host, found in of_hosts.items() for start, end in found]
    # A node whose switch was never on has a span without length.
    spans += [f"({sql_text(host)}, 0, 0)" for host, found in of_hosts.items() if not found]
    shift = "h.{0}"
    clocks = ""
    if con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'process_clocks'").fetchall():
        shift = "(h.{0} - coalesce(round(k.ahead_ns + k.drift * (h.{0} - k.since_ns))::BIGINT, 0))"
        clocks = "LEFT JOIN process_clocks k ON k.process = p.process"
    hosts = f"VALUES {', '.join(spans)}" if spans else "SELECT '', 0, 0 WHERE false"
    con.execute(f"""
        CREATE OR REPLACE TABLE recorded AS
        WITH hosts(host, start_ns, end_ns) AS ({hosts}),
        both_ends AS (
            SELECT p.process, p.start_ns AS first, p.end_ns AS last,
                   greatest(p.start_ns::BIGINT, c.start_ns::BIGINT, {shift.format("start_ns")}) AS s,
                   least(p.end_ns::BIGINT, c.end_ns::BIGINT, {shift.format("end_ns")}) AS e
            FROM processes p LEFT JOIN captures c ON c.process = p.process
            LEFT JOIN hosts h ON h.host = coalesce(p.trace, p.host) {clocks}
        )
        SELECT process, s AS start_ns, e AS end_ns FROM both_ends WHERE s < e ORDER BY process, s""")
    con.execute(f"""
        CREATE OR REPLACE TABLE unrecorded AS
        SELECT process, coalesce(lag(end_ns) OVER w, 0) AS start_ns, start_ns AS end_ns FROM recorded
        WINDOW w AS (PARTITION BY process ORDER BY start_ns)
        UNION ALL SELECT process, max(end_ns), {_ENDLESS} FROM recorded GROUP BY process
        UNION ALL SELECT process, 0, {_ENDLESS} FROM processes WHERE process NOT IN (SELECT process FROM recorded)""")
    con.execute("""
        CREATE OR REPLACE MACRO unrecorded_ns(p, a, b) AS coalesce((
            SELECT sum(least(u.end_ns, b::BIGINT) - greatest(u.start_ns, a::BIGINT)) FROM unrecorded u
            WHERE u.process = p AND u.end_ns > a AND u.start_ns < b), 0)""")
    con.execute(f"CREATE OR REPLACE MACRO recorded_ns(length) AS {length(con)}")
    return True


def partly(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether there is the table `unrecorded`: the run did not record all the time."""
    try:
        con.execute("SELECT 1 FROM unrecorded LIMIT 0")  # a list of all tables takes 10 ms
    except duckdb.CatalogException:
        return False
    return True


def length(con: duckdb.DuckDBPyConnection) -> int:
    """The time in which any process of a run that did not record all the time did."""
    total, until = 0, 0
    for start, end in con.execute("SELECT start_ns, end_ns FROM recorded ORDER BY ALL").fetchall():
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total
