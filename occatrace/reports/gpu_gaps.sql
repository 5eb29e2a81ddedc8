-- title: Longest times without work
-- about: the twenty longest gaps of each device between its first and its last work, and the host call that filled most of each:
--   of the thread that enqueued the work after the gap
-- needs: calls
-- counts: activities
-- empty: no device had two pieces of work with a time between them
-- share: of the recorded time from the first to the last work of the device
-- column: share percent Time
-- column: gap_ns ns Gap
-- column: start_ns ns From (since the first call, range or work of the run)
-- column: call_share percent In the call (how much of the gap)
-- column: call text Call (empty: none that fills a tenth of it; the program did something else)
-- column: after text After (the work that ended before it)
-- column: before text Before (the work that began after it)
-- column: name text Device
WITH work AS (SELECT device AS key, start_ns AS s, greatest(start_ns, end_ns) AS e, thread, process, name FROM activities WHERE device IS NOT NULL),
ordered AS (
    SELECT key, s, thread, process, name, max(e) OVER (PARTITION BY key ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until
    FROM work
),
-- What was not recorded is no gap.
gaps AS (SELECT *, s - until - unrecorded_ns(process, until, s) AS gap FROM ordered WHERE s > until),
-- Which are the longest is known without sorting all.
shortest AS (SELECT key, list_min(max(gap, 20)) AS gap FROM gaps WHERE gap > 0 GROUP BY key),
numbered AS (
    SELECT g.*, row_number() OVER (PARTITION BY key ORDER BY g.gap DESC, s) AS place FROM gaps g JOIN shortest l USING (key) WHERE g.gap >= l.gap
),
longest AS (SELECT * FROM numbered WHERE place <= 20),
holes AS (
    SELECT l.*, a.after FROM longest l LEFT JOIN (
        SELECT key, place, arg_min(w.name, w.s) AS after FROM longest l JOIN work w USING (key) WHERE w.e = l.until AND w.s < l.s GROUP BY key, place
    ) a USING (key, place)
),
within AS (
    SELECT h.key, h.place, c.function, min(c.start_ns) AS first, sum(least(c.end_ns, h.s) - greatest(c.start_ns, h.until)) AS ns
    FROM holes h JOIN calls c ON c.thread = h.thread AND c.start_ns < h.s AND c.end_ns > h.until GROUP BY h.key, h.place, c.function
),
-- Of calls within each other that fill it alike, the outermost.
causes AS (SELECT DISTINCT ON (key, place) key, place, function AS call, ns FROM within ORDER BY key, place, ns DESC, first, function),
idle AS (SELECT key, sum(gap)::BIGINT AS idle FROM gaps WHERE gap > 0 GROUP BY key),
spans AS (SELECT key, (busy + coalesce(idle, 0))::BIGINT AS length FROM busy(work) LEFT JOIN idle USING (key))
SELECT share(gap, length) AS share, gap AS gap_ns, until - run_zero() AS start_ns, CASE WHEN c.call IS NOT NULL THEN share(c.ns, gap) END AS call_share,
       coalesce(c.call, '') AS call, after, h.name AS before, d.name AS name
FROM holes h JOIN spans USING (key) LEFT JOIN causes c ON c.key = h.key AND c.place = h.place AND 10 * c.ns >= h.gap JOIN devices d ON d.device = h.key
ORDER BY h.key, h.place
