-- title: Memory operations by time
-- about: copies, fills and maps by kind, on devices and by OCCA in Serial and OpenMP mode (where the call does the copy)
-- share: of the time of all memory operations
-- of: activities occa_copies
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Count
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: busy_ns ns Busy (time in which at least one ran: overlap counted once)
-- column: failed count Failed
-- column: mode text Mode (API of the device, or OCCA mode)
-- column: name text Operation
-- column: caller source Line (of the program, that makes most of its time; and how many others make it)
WITH samples AS (SELECT key, span(start_ns, end_ns) AS v, start_ns AS s, end_ns AS e, failed FROM memory_operations),
failures AS (SELECT key, count(*) FILTER (failed) AS failed FROM samples GROUP BY key),
called AS (SELECT key, main_line(source, ns) AS caller FROM (SELECT key, source, sum(ns) AS ns FROM memory_lines GROUP BY ALL) GROUP BY key),
rows AS (SELECT * FROM statistics(samples) LEFT JOIN busy(samples) USING (key) LEFT JOIN failures USING (key) LEFT JOIN called USING (key))
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns, lowest AS min_ns,
       highest AS max_ns, deviation AS stddev_ns, busy AS busy_ns, failed, mode, name,
       coalesce(caller, '') AS caller
FROM rows JOIN memory_groups USING (key) ORDER BY total DESC, name, mode
