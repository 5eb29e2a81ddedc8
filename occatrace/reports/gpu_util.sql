-- title: Use of devices and queues
-- about: from the first to the last work of each device and queue: how much of the time something ran, and the gaps
-- share: of the time from the first to the last work there
-- column: share percent Busy
-- column: busy_ns ns Busy time (time in which at least one ran)
-- column: total_ns ns Sum (of the durations)
-- column: overlap number Overlap (sum over busy time: 1 is one after the other)
-- column: span_ns ns Span (from the first start to the last end)
-- column: idle_ns ns Idle
-- column: calls count Work
-- column: gaps count Gaps (times without work in between)
-- column: long_gaps count Over 1 ms
-- column: longest_gap_ns ns Longest gap
-- column: name text Device or queue
WITH places AS (
    SELECT device, NULL AS queue, start_ns AS s, greatest(start_ns, end_ns) AS e FROM activities
    UNION ALL
    SELECT device, queue, start_ns, greatest(start_ns, end_ns) FROM activities
),
keys AS (SELECT device, queue, row_number() OVER (ORDER BY device, queue NULLS FIRST) AS key FROM (SELECT DISTINCT device, queue FROM places)),
intervals AS (
    SELECT key, s, e FROM places p JOIN keys k ON p.device IS NOT DISTINCT FROM k.device AND p.queue IS NOT DISTINCT FROM k.queue
),
ordered AS (
    SELECT key, s, max(e) OVER (PARTITION BY key ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until FROM intervals
),
holes AS (
    SELECT key, count(*) AS gaps, count(*) FILTER (s - until > 1000000) AS long_gaps, max(s - until) AS longest
    FROM ordered WHERE s > until GROUP BY key
),
sums AS (SELECT key, count(*) AS calls, sum(e - s) AS total, max(e) - min(s) AS length FROM intervals GROUP BY key)
SELECT share(busy, length) AS share, busy AS busy_ns, total AS total_ns, CASE WHEN busy > 0 THEN total / busy END AS overlap,
       length AS span_ns, length - busy AS idle_ns, calls, coalesce(gaps, 0) AS gaps, coalesce(long_gaps, 0) AS long_gaps,
       coalesce(longest, 0) AS longest_gap_ns,
       coalesce(d.name, 'unknown device') || CASE WHEN k.queue IS NULL THEN '' ELSE ', queue ' || q.id END AS name
FROM sums JOIN busy(intervals) USING (key) LEFT JOIN holes USING (key) JOIN keys k USING (key)
LEFT JOIN devices d USING (device) LEFT JOIN queues q ON q.queue = k.queue
ORDER BY k.key
