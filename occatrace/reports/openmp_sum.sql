-- title: OpenMP regions
-- about: parallel regions by their place in the code. Imbalance: of the time of the slowest thread, what the team would save if
--   all took as long as the average (waits not counted). Waits are sums over the threads, without the tasks run meanwhile. Times of
--   regions inside others, and inside target constructs, are part of those, and not of the whole that the share is of
-- share: of the time of all outermost regions; waits are sums over the threads
-- of: omp_regions
-- sums: region
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: threads text Threads (of the team, fewest and most)
-- column: imbalance percent Imbalance
-- column: barrier_ns ns Barrier wait (at the end of the region and at barriers inside)
-- column: mutex_ns ns Mutex wait (critical sections, locks, ordered)
-- column: wait_ns ns Task wait (taskwait, taskgroup)
-- column: tasks count Tasks
-- column: task_ns ns In tasks
-- column: kind text Kind
-- column: name text Region (function)
-- column: source source Source (file and line; of an OCCA kernel its own)
-- column: kernel text OCCA kernel
SELECT CASE WHEN inside = '' THEN share(total, sum(total) FILTER (inside = '') OVER ()) END AS share, total AS total_ns, calls,
       mean AS avg_ns, median AS med_ns, lowest AS min_ns, highest AS max_ns, deviation AS stddev_ns,
       CASE WHEN fewest = largest THEN largest::BIGINT::VARCHAR ELSE fewest::BIGINT || '-' || largest::BIGINT END AS threads,
       share(unbalanced, slowest) AS imbalance, nullif(barrier_ns, 0) AS barrier_ns, nullif(mutex_ns, 0) AS mutex_ns,
       nullif(wait_ns, 0) AS wait_ns, coalesce(tasks, 0) AS tasks, nullif(task_ns, 0) AS task_ns,
       kind || inside AS kind, name, source, kernel
FROM region_sums ORDER BY inside != '', total DESC, name, source, region_sums.kind, kernel
