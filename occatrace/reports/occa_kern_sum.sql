-- title: OCCA kernels
-- about: kernels as their author named them; indented, the backend kernels that each of them launched. On devices the time
--   is that of the device work of the call, in Serial and OpenMP mode that of the call itself.
-- share: of the time of all OCCA kernels
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: busy_ns ns Busy (time in which at least one ran: overlap counted once)
-- column: failed count Failed
-- column: mode text Mode (OCCA mode in which it really ran)
-- column: name text Kernel
-- column: source source Source (file and line)
-- column: parent parent Parent (of a backend kernel: the OCCA kernel that launched it)
WITH work AS (
    SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns
    FROM activities WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY thread, run_seq
),
named AS (
    SELECT kernel, {'name': name, 'mode': mode, 'source': source || CASE WHEN line > 0 THEN ':' || line ELSE '' END} AS key
    FROM kernels
),
runs AS (
    SELECT coalesce(n.key, {'name': '(unknown kernel)', 'mode': '', 'source': ''}) AS key, r.*
    FROM kernel_runs r LEFT JOIN named n USING (kernel)
),
samples AS (
    SELECT key, CASE WHEN host_mode(key.mode) THEN span(r.start_ns, r.end_ns) ELSE w.ns END AS v
    FROM runs r LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq
),
intervals AS (
    SELECT key, start_ns AS s, end_ns AS e FROM runs WHERE host_mode(key.mode)
    UNION ALL
    SELECT n.key, a.start_ns, a.end_ns FROM activities a JOIN named n USING (kernel) WHERE a.kind = 'kernel'
),
failures AS (SELECT key, count(error) AS failed FROM runs GROUP BY key),
logical AS (SELECT * FROM statistics(samples) LEFT JOIN busy(intervals) USING (key) LEFT JOIN failures USING (key)),
launches AS (
    SELECT {'name': n.key.name, 'mode': n.key.mode, 'source': n.key.source, 'backend': a.name} AS key,
           span(a.start_ns, a.end_ns) AS v, a.start_ns AS s, a.end_ns AS e, a.status
    FROM activities a JOIN named n USING (kernel) WHERE a.kind = 'kernel'
),
launch_failures AS (SELECT key, count(*) FILTER (status < 0) AS failed FROM launches GROUP BY key),
backend AS (SELECT * FROM statistics(launches) LEFT JOIN busy(launches) USING (key) LEFT JOIN launch_failures USING (key)),
ranked AS (SELECT *, row_number() OVER (ORDER BY total DESC NULLS LAST, calls DESC, key.name, key.mode, key.source) AS rank FROM logical),
rows AS (
    SELECT rank, 0 AS level, key.name AS name, key.mode AS mode, key.source AS source, NULL AS parent, * EXCLUDE (rank, key) FROM ranked
    UNION ALL
    SELECT r.rank, 1, b.key.backend, b.key.mode, '', r.key.name, b.* EXCLUDE (key)
    FROM backend b JOIN ranked r ON r.key.name = b.key.name AND r.key.mode = b.key.mode AND r.key.source = b.key.source
)
SELECT share(total, (SELECT sum(total) FROM logical)) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns,
       lowest AS min_ns, highest AS max_ns, deviation AS stddev_ns, busy AS busy_ns, failed, mode, name, source, parent
FROM rows ORDER BY rank, level, total DESC NULLS LAST, name
