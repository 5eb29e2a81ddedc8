-- title: MPI calls over the ranks
-- about: MPI calls of all ranks, by function, and how evenly they are spread over the ranks
-- share: of the time in MPI calls
-- sums: call_sums call_causes api_rows
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: bytes bytes Bytes (each message once where it is sent and once where it is received; of collectives, what each rank gives and gets)
-- column: ranks count Ranks (that call it)
-- column: rank_min_ns ns Rank min (time of the rank that spends least in it, of all ranks)
-- column: rank_max_ns ns Rank max (time of the rank that spends most in it)
-- column: failed count Failed
-- column: name text Function
-- column: errors text Errors
-- column: caller source Line (of the program, that makes most of its time; and how many others call it)
WITH processes_of_mpi AS (SELECT DISTINCT process FROM call_stats WHERE api = 'mpi' AND calls > 0),
by_process AS (
    SELECT function, process, sum(total_ns) AS total FROM call_stats WHERE api = 'mpi' AND calls > 0 GROUP BY ALL
),
spread AS (
    SELECT function, count(*) AS ranks, max(total) AS highest,
           CASE WHEN count(*) < (SELECT count(*) FROM processes_of_mpi) THEN 0 ELSE min(total) END AS lowest
    FROM by_process GROUP BY function
),
called AS (
    SELECT function, main_line(source, ns) AS caller
    FROM (
        SELECT t.function, line_place(s.file, s.line, s.module, s."offset") AS source, sum(t.total_ns) AS ns
        FROM call_site_stats t JOIN call_sites s USING (process, site) WHERE t.api = 'mpi' GROUP BY ALL
    ) GROUP BY function
)
SELECT r.* EXCLUDE (name), r.name, s.ranks, s.lowest AS rank_min_ns, s.highest AS rank_max_ns, coalesce(c.caller, '') AS caller
FROM api_rows r JOIN spread s ON s.function = r.name LEFT JOIN called c ON c.function = r.name WHERE r.api = 'mpi'
ORDER BY r.total_ns DESC, r.name
