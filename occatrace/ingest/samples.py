"""RUN/samples/HOST.tsv into the table `counters`."""

from __future__ import annotations

from pathlib import Path

from occatrace.core.duck import duckdb
from occatrace.core.sql import text as sql_text
from occatrace.run.layout import SAMPLES_FOLDER, SAMPLES_TOTAL

_COLUMNS = (
    "{'time': 'UBIGINT', 'pid': 'UINTEGER', 'number': 'UINTEGER', 'device': 'VARCHAR', 'name': 'VARCHAR',"
    " 'unit': 'VARCHAR', 'value': 'DOUBLE'}"
)


def read(con: duckdb.DuckDBPyConnection, run: Path, host: str) -> None:
    """Add the samples of a host to `counters`, of the processes that were traced. A device that no process has seen under
    its name, or that is not alone in having it, is named in the counter, which the host's first process has then."""
    file = run / SAMPLES_FOLDER / f"{host}.tsv"
    if not file.is_file() or not file.stat().st_size:
        return
    con.execute(
        f"""
        INSERT INTO counters BY NAME
        WITH samples AS (
            SELECT * FROM read_csv({sql_text(str(file))}, delim='\t', header=false, quote='', escape='', auto_detect=false,
                                   ignore_errors=true, columns={_COLUMNS})
        ),
        own AS (SELECT * FROM processes WHERE trace = $host),
        images AS (  -- a program that another one became (exec) has its number; the first one also what was before
            SELECT process, pid, CASE WHEN lag(process) OVER (PARTITION BY pid ORDER BY start_ns) IS NULL THEN 0
                                      ELSE start_ns END AS since
            FROM own WHERE pid > 0
        ),
        steps AS (
            SELECT *, lead(time) OVER w AS t1, lead(value) OVER w AS v1, lag(time) OVER w AS t0, lag(value) OVER w AS v0
            FROM samples WHERE pid > 0 WINDOW w AS (PARTITION BY pid, name ORDER BY time)
        ),
        shares AS (  -- a share stands where its time begins; the last one also where it ends
            SELECT time, pid, name, CASE WHEN unit = '{SAMPLES_TOTAL}' THEN '%' ELSE unit END AS unit,
                   CASE WHEN unit != '{SAMPLES_TOTAL}' THEN value WHEN share >= 0 THEN 100 * share END AS value
            FROM (SELECT *, coalesce((v1 - value) / (t1 - time), (value - v0) / (time - t0)) AS share FROM steps)
        ),
        alone AS (SELECT device FROM samples WHERE pid = 0 GROUP BY device HAVING count(DISTINCT number) = 1),
        seen AS (
            SELECT d.name, min(d.device) AS device, arg_min(d.process, d.device) AS process
            FROM devices d JOIN own USING (process) WHERE d.name IN (FROM alone) GROUP BY d.name
        )
        SELECT i.process, NULL::UINTEGER AS device, s.name, s.unit, s.time AS time_ns, s.value
        FROM shares s ASOF JOIN images i ON s.pid = i.pid AND s.time >= i.since WHERE s.value IS NOT NULL
        UNION ALL
        SELECT coalesce(d.process, (SELECT min(process) FROM own)), d.device,
               CASE WHEN d.device IS NULL THEN s.name || ' of ' || s.device || ' #' || s.number ELSE s.name END,
               s.unit, s.time, s.value
        FROM samples s LEFT JOIN seen d ON d.name = s.device WHERE s.pid = 0 AND (SELECT count(*) FROM own) > 0""",
        {"host": host},
    )
    # The first sample may be the first thing that is known of the run.
    con.execute(
        """
        UPDATE processes SET first_ns = least(coalesce(first_ns, start_ns), (
            SELECT min(c.time_ns) FROM counters c JOIN processes p USING (process) WHERE p.trace = $host
        )) WHERE trace = $host""",
        {"host": host},
    )
