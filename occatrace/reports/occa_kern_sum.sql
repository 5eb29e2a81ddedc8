-- title: OCCA kernels
-- about: kernels by source name; indented, the backend kernels that each of them launched. On devices the time
--   is that of the device work of the call, in Serial and OpenMP mode that of the call itself.
-- share: of the time of all OCCA kernels
-- of: kernel_runs
-- sums: occa launched
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
WITH rows AS (
    SELECT 0 AS level, name AS kernel, name, mode, source, NULL AS parent, * EXCLUDE (name, mode, source), total AS weight FROM occa_sums
    UNION ALL BY NAME
    SELECT 1 AS level, o.name AS kernel, l.name, l.mode, l.source, l.parent, l.* EXCLUDE (name, mode, source, parent), o.total AS weight
    FROM launched_sums l JOIN occa_sums o ON o.name = l.parent AND o.mode = l.mode AND o.source = l.source
)
SELECT share(total, sum(total) FILTER (level = 0) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns,
       lowest AS min_ns, highest AS max_ns, deviation AS stddev_ns, busy AS busy_ns, failed, mode, name,
       CASE WHEN level = 0 THEN source ELSE '' END AS source, parent
FROM rows ORDER BY weight DESC NULLS LAST, kernel, mode, rows.source, level, total DESC NULLS LAST, name
