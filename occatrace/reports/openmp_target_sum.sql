-- title: OpenMP target constructs
-- about: target constructs by their place in the code; indented, their operations on devices. Times are those of the host from
--   the start to the end of each; bytes are those allocated (alloc) or moved (HtoD, DtoH, DtoD); do not add the two
-- share: of the time of all constructs, and of what was asked for outside of any
-- of: omp_targets
-- sums: target
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: bytes bytes Bytes
-- column: mapped_to bytes Mapped to (map clauses to the device; libgomp only)
-- column: mapped_from bytes Mapped from (map clauses from the device; libgomp only)
-- column: device number Device
-- column: name text Operation
-- column: function text Function
-- column: source source Source (file and line)
-- column: parent parent Parent (of an operation: the construct that it is part of)
WITH rows AS (
    SELECT *, CASE WHEN parent = '' THEN 0 ELSE 1 END AS level, CASE WHEN parent = '' THEN name ELSE parent END AS above,
           CASE WHEN parent = '' THEN device ELSE parent_device END AS above_device
    FROM target_sums
)
SELECT share(total, sum(total) FILTER (level = 0) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns,
       lowest AS min_ns, highest AS max_ns, deviation AS stddev_ns, nullif(bytes, 0) AS bytes, nullif(mapped_to, 0) AS mapped_to,
       nullif(mapped_from, 0) AS mapped_from, nullif(device, '')::INTEGER AS device, name, function, source,
       nullif(parent, '') AS parent
FROM rows
ORDER BY max(CASE WHEN level = 0 THEN total END) OVER (PARTITION BY above, function, source, above_device) DESC NULLS LAST,
         above, function, source, above_device, level, total DESC, name, rows.device
