-- title: Builds by Python
-- about: programs that pyopencl and pycuda made of source (--python pools, lines), by source, line and what became of it: built; taken
--   from the library's cache; built without asking that cache (pyopencl leaves it to the driver's where there is one); failed
-- empty: no builds seen (occa_prof --python pools, or lines)
-- column: total_ns ns Total
-- column: calls count Builds
-- column: built count Built
-- column: cached count From the cache
-- column: uncached count Past the cache
-- column: driver_hits count Driver's cache (of these, PoCL's cache had them)
-- column: failed count Failed
-- column: mean_ns ns Avg
-- column: max_ns ns Max
-- column: hash text Source's hash
-- column: library text Library
-- column: name text Kernels
-- column: source source Line
WITH timed AS (
    SELECT b.*, span(b.start_ns, b.end_ns) AS v, coalesce(l.source, '') AS place
    FROM python_builds b LEFT JOIN own_lines(python_frames) l ON l.process = b.process AND l.leaf = b.frame
)
SELECT sum(v) AS total_ns, count(*) AS calls, count(*) FILTER (result = 'built') AS built, count(*) FILTER (result = 'cached') AS cached,
       count(*) FILTER (result = 'uncached') AS uncached, CASE WHEN count(driver_cached) > 0 THEN count(*) FILTER (driver_cached) END AS driver_hits,
       count(*) FILTER (result = 'failed') AS failed, avg(v) AS mean_ns,
       max(v) AS max_ns, source AS hash, library, kernels AS name, place AS source
FROM timed GROUP BY source, library, kernels, place ORDER BY total_ns DESC, place, hash
