-- title: Use of devices and queues
-- about: from the first to the last work of each device and queue: how much of the time something ran, and the gaps by size, with
--   the host call that was running in the longest one (gpu_gaps lists the longest ones)
-- needs: calls
-- counts: activities
-- share: of the recorded time from the first to the last work there
-- column: share percent Busy
-- column: busy_ns ns Busy time (time in which at least one ran)
-- column: idle_ns ns Idle
-- column: longest_gap_ns ns Longest gap
-- column: call_share percent Of it (how much of the longest gap the call fills)
-- column: call text In the call (of the thread that enqueued the work after the longest gap; empty: no call fills a tenth of it, the program did something else)
-- column: span_ns ns Span (from the first start to the last end, as far as it was recorded)
-- column: calls count Work
-- column: gaps count Gaps (times without work in between)
-- column: gaps_10us count <10 µs
-- column: gaps_100us count <100 µs
-- column: gaps_1ms count <1 ms
-- column: gaps_10ms count <10 ms
-- column: long_gaps count Longer (10 ms and more)
-- column: total_ns ns Sum (of the durations)
-- column: overlap number Overlap (sum over busy time: 1 is one after the other)
-- column: name text Device or queue
WITH places AS (
    SELECT device, NULL AS queue, start_ns AS s, greatest(start_ns, end_ns) AS e, thread, process FROM activities
    UNION ALL
    SELECT device, queue, start_ns, greatest(start_ns, end_ns), thread, process FROM activities
),
keys AS (SELECT device, queue, row_number() OVER (ORDER BY device, queue NULLS FIRST) AS key FROM (SELECT DISTINCT device, queue FROM places)),
intervals AS (
    SELECT key, s, e, thread, process FROM places p JOIN keys k ON p.device IS NOT DISTINCT FROM k.device AND p.queue IS NOT DISTINCT FROM k.queue
),
ordered AS (
    SELECT key, s, thread, process, max(e) OVER (PARTITION BY key ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until FROM intervals
),
-- What was not recorded is no gap.
gaps AS (
    SELECT key, thread, until AS begins, s AS ends, s - until - unrecorded_ns(process, until, s) AS ns FROM ordered WHERE s > until
),
holes AS (
    SELECT key, count(*) AS gaps, count(*) FILTER (ns < 10_000) AS gaps_10us, count(*) FILTER (ns BETWEEN 10_000 AND 99_999) AS gaps_100us,
           count(*) FILTER (ns BETWEEN 100_000 AND 999_999) AS gaps_1ms, count(*) FILTER (ns BETWEEN 1_000_000 AND 9_999_999) AS gaps_10ms,
           count(*) FILTER (ns >= 10_000_000) AS long_gaps, max(ns) AS longest, sum(ns)::BIGINT AS idle
    FROM gaps WHERE ns > 0 GROUP BY key
),
longest_holes AS (
    SELECT DISTINCT ON (key) key, thread, begins, ends FROM gaps WHERE ns > 0 ORDER BY key, ns DESC, ends
),
within AS (
    SELECT h.key, c.function, min(c.start_ns) AS first, sum(least(c.end_ns, h.ends) - greatest(c.start_ns, h.begins)) AS ns
    FROM longest_holes h JOIN calls c ON c.thread = h.thread AND c.start_ns < h.ends AND c.end_ns > h.begins GROUP BY h.key, c.function
),
-- Of calls within each other that fill it alike, the outermost.
causes AS (SELECT DISTINCT ON (key) key, function AS call, ns FROM within ORDER BY key, ns DESC, first, function),
sums AS (SELECT key, count(*) AS calls, sum(e - s) AS total FROM intervals GROUP BY key),
spans AS (SELECT key, busy, (busy + coalesce(idle, 0))::BIGINT AS length FROM busy(intervals) LEFT JOIN holes USING (key))
SELECT share(busy, length) AS share, busy AS busy_ns, length - busy AS idle_ns, coalesce(longest, 0) AS longest_gap_ns,
       CASE WHEN c.call IS NOT NULL THEN share(c.ns, longest) END AS call_share, coalesce(c.call, '') AS call,
       length AS span_ns, calls, coalesce(gaps, 0) AS gaps, coalesce(gaps_10us, 0) AS gaps_10us,
       coalesce(gaps_100us, 0) AS gaps_100us, coalesce(gaps_1ms, 0) AS gaps_1ms, coalesce(gaps_10ms, 0) AS gaps_10ms,
       coalesce(long_gaps, 0) AS long_gaps, total AS total_ns, CASE WHEN busy > 0 THEN total / busy END AS overlap,
       coalesce(d.name, 'unknown device') || CASE WHEN k.queue IS NULL THEN '' ELSE ', queue ' || q.id END AS name
FROM sums JOIN spans USING (key) LEFT JOIN holes USING (key) LEFT JOIN causes c ON c.key = holes.key AND 10 * c.ns >= longest JOIN keys k USING (key)
LEFT JOIN devices d USING (device) LEFT JOIN queues q ON q.queue = k.queue
ORDER BY k.key
