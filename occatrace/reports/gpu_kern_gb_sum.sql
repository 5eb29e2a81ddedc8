-- title: Device kernels by grid and block
-- about: kernels as the backend ran them, apart for each number of threads and block size
-- share: of the time of all device kernels
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: grid text Threads
-- column: block text Block
-- column: name text Kernel
WITH groups AS (
    SELECT *, row_number() OVER (ORDER BY name, gx, gy, gz, lx, ly, lz) AS key
    FROM (SELECT DISTINCT name, gx, gy, gz, lx, ly, lz FROM activities WHERE kind = 'kernel')
),
samples AS (
    SELECT g.key, span(start_ns, end_ns) AS v
    FROM activities a JOIN groups g USING (name, gx, gy, gz, lx, ly, lz) WHERE kind = 'kernel'
)
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns, lowest AS min_ns,
       highest AS max_ns, deviation AS stddev_ns, concat_ws('×', gx, nullif(gy, 0), nullif(gz, 0)) AS grid,
       CASE WHEN lx > 0 THEN concat_ws('×', lx, nullif(ly, 0), nullif(lz, 0)) ELSE 'chosen by the backend' END AS block, name
FROM statistics(samples) JOIN groups USING (key) ORDER BY total DESC, name, key
