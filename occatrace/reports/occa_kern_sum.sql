-- title: OCCA kernels
-- about: kernels by source name; indented, the backend kernels that each of them launched. On devices the time
--   is that of the device work of the call, in Serial and OpenMP mode that of the call itself.
-- share: of the time of all OCCA kernels
-- of: kernel_runs
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
WITH named AS (
    SELECT kernel, dense_rank() OVER (ORDER BY name, mode, source, line) AS key, name, mode,
           source || CASE WHEN line > 0 THEN ':' || line ELSE '' END AS source
    FROM kernels
),
groups AS (SELECT DISTINCT key, name, mode, source FROM named UNION ALL SELECT 0, '(unknown kernel)', '', ''),
work AS (
    SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns
    FROM activities WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY thread, run_seq
),
runs AS (
    SELECT coalesce(n.key, 0) AS key, coalesce(host_mode(n.mode), false) AS on_host, r.thread, r.seq, r.start_ns, r.end_ns, r.error
    FROM kernel_runs r LEFT JOIN named n USING (kernel)
),
samples AS (
    SELECT key, span(start_ns, end_ns) AS v FROM runs WHERE on_host
    UNION ALL
    SELECT key, w.ns FROM runs r LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq WHERE NOT on_host
),
launches AS (
    SELECT n.key, a.name, start_ns, end_ns, status FROM activities a JOIN named n USING (kernel) WHERE kind = 'kernel'
),
intervals AS (
    SELECT key, start_ns AS s, end_ns AS e FROM runs WHERE on_host
    UNION ALL
    SELECT key, start_ns, end_ns FROM launches
),
failures AS (SELECT key, count(error) AS failed FROM runs GROUP BY key),
logical AS (SELECT * FROM statistics(samples) LEFT JOIN busy(intervals) USING (key) LEFT JOIN failures USING (key)),
backends AS (
    SELECT key AS parent, name, row_number() OVER (ORDER BY key, name) AS key FROM (SELECT DISTINCT key, name FROM launches)
),
parts AS (
    SELECT b.key, span(start_ns, end_ns) AS v, start_ns AS s, end_ns AS e, status
    FROM launches l JOIN backends b ON b.parent = l.key AND b.name = l.name
),
part_failures AS (SELECT key, count(*) FILTER (status < 0) AS failed FROM parts GROUP BY key),
backend AS (SELECT * FROM statistics(parts) LEFT JOIN busy(parts) USING (key) LEFT JOIN part_failures USING (key)),
rows AS (
    SELECT 0 AS level, key AS kernel, g.name, g.mode, g.source, NULL AS parent, l.* EXCLUDE (key), total AS weight
    FROM logical l JOIN groups g USING (key)
    UNION ALL
    SELECT 1, b.parent, b.name, g.mode, '', g.name, s.* EXCLUDE (key), l.total
    FROM backend s JOIN backends b USING (key) JOIN groups g ON g.key = b.parent JOIN logical l ON l.key = b.parent
)
SELECT share(total, sum(total) FILTER (level = 0) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns,
       lowest AS min_ns, highest AS max_ns, deviation AS stddev_ns, busy AS busy_ns, failed, mode, name, source, parent
FROM rows ORDER BY weight DESC NULLS LAST, kernel, level, total DESC NULLS LAST, name
