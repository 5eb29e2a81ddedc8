-- title: Memory operations by time
-- about: copies, fills and maps by kind, on devices and by OCCA in Serial and OpenMP mode (where the call does the copy)
-- share: of the time of all memory operations
-- of: activities occa_copies
-- sums: memory memory_callers
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
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns, lowest AS min_ns,
       highest AS max_ns, deviation AS stddev_ns, busy AS busy_ns, failed, mode, name, coalesce(by_time, '') AS caller
FROM memory_sums LEFT JOIN memory_callers USING (name, mode) ORDER BY total DESC, name, mode
