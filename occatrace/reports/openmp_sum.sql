-- title: OpenMP regions
-- about: parallel regions by their place in the code. Imbalance: of the time of the slowest thread, what the team would save if
--   all took as long as the average (waits not counted). Waits are sums over the threads, without the tasks run meanwhile. Times of
--   regions inside others, and inside target constructs, are part of those, and not of the whole that the share is of
-- share: of the time of all outermost regions
-- of: omp_regions
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
-- column: source source Source (file and line; without debug information that of the OCCA kernel)
-- column: kernel text OCCA kernel
WITH regions AS (
    SELECT r.* REPLACE (CASE WHEN r.source != '' OR k.source IS NULL THEN r.source
                        ELSE k.source || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END END AS source), CASE WHEN target_seq IS NOT NULL THEN ' in target' WHEN depth > 0 THEN ' nested' ELSE '' END AS inside,
           k.name AS kernel_name
    FROM omp_regions r LEFT JOIN kernels k USING (kernel)
),
groups AS (
    SELECT function, source, kind, inside, kernel_name,
           row_number() OVER (ORDER BY function, source, kind, inside, kernel_name) AS key
    FROM (SELECT DISTINCT function, source, kind, inside, kernel_name FROM regions)
),
keyed AS (
    SELECT g.key, r.thread, r.seq, r.start_ns, r.end_ns, r.threads
    FROM regions r JOIN groups g ON g.function IS NOT DISTINCT FROM r.function AND g.source IS NOT DISTINCT FROM r.source
         AND g.kind = r.kind AND g.inside = r.inside AND g.kernel_name IS NOT DISTINCT FROM r.kernel_name
),
samples AS (SELECT key, span(start_ns, end_ns) AS v FROM keyed),
parts AS (
    SELECT region_thread AS thread, region_seq AS seq, sum(barrier_ns + join_ns) AS barrier_ns, sum(mutex_ns) AS mutex_ns,
           sum(wait_ns) AS wait_ns, sum(tasks) AS tasks, sum(task_ns) AS task_ns, count(*) AS threads,
           max(work) AS slowest, avg(work) AS mean
    FROM (
        SELECT *, greatest(span(start_ns, end_ns)::BIGINT + late_ns::BIGINT - (barrier_ns + wait_ns + mutex_ns)::BIGINT, 0) AS work
        FROM omp_threads
    )
    GROUP BY ALL
),
teams AS (
    SELECT key, min(k.threads) AS fewest, max(k.threads) AS most, sum(p.barrier_ns) AS barrier_ns, sum(p.mutex_ns) AS mutex_ns,
           sum(p.wait_ns) AS wait_ns, sum(p.tasks) AS tasks, sum(p.task_ns) AS task_ns,
           sum(slowest - mean) AS unbalanced, sum(slowest) AS slowest
    FROM keyed k LEFT JOIN parts p USING (thread, seq) GROUP BY key
)
SELECT CASE WHEN inside = '' THEN share(total, sum(total) FILTER (inside = '') OVER ()) END AS share, total AS total_ns, calls,
       mean AS avg_ns, median AS med_ns, lowest AS min_ns, highest AS max_ns, deviation AS stddev_ns,
       CASE WHEN fewest = most THEN most::VARCHAR ELSE fewest || '-' || most END AS threads,
       share(unbalanced, slowest) AS imbalance, nullif(barrier_ns, 0) AS barrier_ns, nullif(mutex_ns, 0) AS mutex_ns,
       nullif(wait_ns, 0) AS wait_ns, coalesce(tasks, 0) AS tasks, nullif(task_ns, 0) AS task_ns,
       kind || inside AS kind, coalesce(function, '') AS name, coalesce(source, '') AS source,
       coalesce(kernel_name, '') AS kernel
FROM statistics(samples) JOIN teams USING (key) JOIN groups USING (key)
ORDER BY inside != '', total DESC, name, source, kind
