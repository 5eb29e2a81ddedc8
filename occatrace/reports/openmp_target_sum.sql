-- title: OpenMP target constructs
-- about: target constructs by their place in the code; indented, their operations on devices. Times are those of the host from
--   the start to the end of each; bytes are those allocated (alloc) or moved (HtoD, DtoH, DtoD); do not add the two
-- share: of the time of all constructs, and of what was asked for outside of any
-- of: omp_targets
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
WITH operations AS (
    SELECT o.operation AS name, coalesce(o.function, '') AS function, coalesce(o.source, '') AS source, o.device_num AS device,
           o.start_ns, o.end_ns, o.bytes, o.mapped_to, o.mapped_from,
           c.operation AS parent, coalesce(c.function, '') AS parent_function, coalesce(c.source, '') AS parent_source,
           c.device_num AS parent_device
    FROM omp_targets o
    LEFT JOIN omp_targets c ON c.thread = o.thread AND c.seq = o.target_seq AND o.operation NOT LIKE 'target%'
),
groups AS (
    SELECT *, row_number() OVER (ORDER BY name, function, source, device, parent, parent_source) AS key
    FROM (
        SELECT DISTINCT name, CASE WHEN parent IS NULL THEN function ELSE parent_function END AS function,
               CASE WHEN parent IS NULL THEN source ELSE parent_source END AS source, device, parent, parent_function,
               parent_source, parent_device
        FROM operations
    )
),
keyed AS (
    SELECT g.key, o.start_ns, o.end_ns, o.bytes, o.mapped_to, o.mapped_from
    FROM operations o JOIN groups g ON g.name = o.name AND g.device IS NOT DISTINCT FROM o.device
         AND g.parent IS NOT DISTINCT FROM o.parent
         AND g.function = CASE WHEN o.parent IS NULL THEN o.function ELSE o.parent_function END
         AND g.source = CASE WHEN o.parent IS NULL THEN o.source ELSE o.parent_source END
         AND g.parent_device IS NOT DISTINCT FROM o.parent_device
),
samples AS (SELECT key, span(start_ns, end_ns) AS v FROM keyed),
sums AS (
    SELECT key, nullif(sum(bytes), 0) AS bytes, nullif(sum(mapped_to), 0) AS mapped_to,
           nullif(sum(mapped_from), 0) AS mapped_from FROM keyed GROUP BY key
),
rows AS (
    SELECT g.*, s.* EXCLUDE (key), b.* EXCLUDE (key), CASE WHEN parent IS NULL THEN 0 ELSE 1 END AS level,
           coalesce(parent, name) AS above, coalesce(parent_device, device) AS above_device
    FROM groups g JOIN statistics(samples) s USING (key) JOIN sums b USING (key)
)
SELECT share(total, sum(total) FILTER (level = 0) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns,
       lowest AS min_ns, highest AS max_ns, deviation AS stddev_ns, bytes, mapped_to, mapped_from, device, name, function,
       source, parent
FROM rows
ORDER BY max(CASE WHEN level = 0 THEN total END) OVER (PARTITION BY above, function, source, above_device) DESC NULLS LAST,
         above, function, source, above_device, level, total DESC, name
