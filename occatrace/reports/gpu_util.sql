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
WITH used AS (SELECT device, queue FROM activities GROUP BY ALL),
places AS (
    SELECT device, NULL AS queue, CASE WHEN count(*) = 1 THEN min(queue) END AS single FROM used GROUP BY device
    UNION ALL
    SELECT device, queue, queue FROM used WHERE queue IS NOT NULL
),
-- A device with one queue is as busy as that queue.
keys AS (SELECT *, dense_rank() OVER (ORDER BY device, single NULLS FIRST) AS key FROM places),
parts AS (SELECT DISTINCT device, single, key FROM keys),
intervals AS (
    SELECT key, start_ns AS s, greatest(start_ns, end_ns) AS e, thread, process
    FROM activities a JOIN parts p ON a.device IS NOT DISTINCT FROM p.device AND a.queue = p.single
    UNION ALL
    SELECT key, start_ns, greatest(start_ns, end_ns), thread, process FROM activities a JOIN parts p ON a.device IS NOT DISTINCT FROM p.device WHERE p.single IS NULL
),
ordered AS (
    SELECT key, s, e, thread, process, max(e) OVER (PARTITION BY key ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until FROM intervals
),
-- What was not recorded is no gap.
pieces AS (
    SELECT key, s, e, thread, until, CASE WHEN s > until THEN nullif(greatest(s - until - unrecorded_ns(process, until, s), 0), 0) END AS gap FROM ordered
),
-- All of one pass: a window over millions of pieces is what takes time here. Of gaps that are as long the first.
sums AS (
    SELECT key, count(*) AS calls, sum(e - s) AS total,
           sum(CASE WHEN until IS NULL THEN span(s, e) WHEN e > until THEN span(greatest(s, until), e) ELSE 0 END) AS busy,
           count(gap) AS gaps, count(*) FILTER (gap < 10_000) AS gaps_10us, count(*) FILTER (gap BETWEEN 10_000 AND 99_999) AS gaps_100us,
           count(*) FILTER (gap BETWEEN 100_000 AND 999_999) AS gaps_1ms, count(*) FILTER (gap BETWEEN 1_000_000 AND 9_999_999) AS gaps_10ms,
           count(*) FILTER (gap >= 10_000_000) AS long_gaps, max(gap) AS longest, sum(gap)::BIGINT AS idle,
           arg_max({'thread': thread, 'begins': until, 'ends': s}, gap * 18446744073709551616::HUGEINT - s) FILTER (gap IS NOT NULL) AS hole
    FROM pieces GROUP BY key
),
longest_holes AS (SELECT key, hole.thread AS thread, hole.begins AS begins, hole.ends AS ends FROM sums WHERE hole IS NOT NULL),
within AS (
    SELECT h.key, c.function, min(c.start_ns) AS first, sum(least(c.end_ns, h.ends) - greatest(c.start_ns, h.begins)) AS ns
    FROM longest_holes h JOIN calls c ON c.thread = h.thread AND c.start_ns < h.ends AND c.end_ns > h.begins GROUP BY h.key, c.function
),
-- Of calls within each other that fill it alike, the outermost.
causes AS (SELECT DISTINCT ON (key) key, function AS call, ns FROM within ORDER BY key, ns DESC, first, function),
spans AS (SELECT *, (busy + coalesce(idle, 0))::BIGINT AS length FROM sums)
SELECT share(busy, length) AS share, busy AS busy_ns, length - busy AS idle_ns, coalesce(longest, 0) AS longest_gap_ns,
       CASE WHEN c.call IS NOT NULL THEN share(c.ns, longest) END AS call_share, coalesce(c.call, '') AS call,
       length AS span_ns, calls, gaps, gaps_10us, gaps_100us, gaps_1ms, gaps_10ms, long_gaps, total AS total_ns, CASE WHEN busy > 0 THEN total / busy END AS overlap,
       coalesce(d.name, 'unknown device') || CASE WHEN k.queue IS NULL THEN '' ELSE ', queue ' || q.id END AS name
FROM keys k JOIN spans USING (key) LEFT JOIN causes c ON c.key = k.key AND 10 * c.ns >= longest
LEFT JOIN devices d USING (device) LEFT JOIN queues q ON q.queue = k.queue
ORDER BY device, k.queue NULLS FIRST
