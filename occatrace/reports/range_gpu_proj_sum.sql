-- title: Device work by range
-- about: device work launched inside each range, by calls of its thread, OCCA's included (of a range that may overlap others,
--   by any thread of its process while it was open); in the modes Serial and OpenMP the OCCA kernel call is the work. Nested
--   ranges count in each of them.
-- share: of all device work of the run
-- group: domain
-- column: share percent Work
-- column: work_ns ns Work (sum of the durations)
-- column: busy_ns ns Busy (time in which at least one piece of it ran)
-- column: projected_ns ns Projected (from the start of the first activity to the end of the last, summed over the ranges)
-- column: range_ns ns Range (the ranges themselves, on the host)
-- column: calls count Ranges
-- column: kernels count Kernels
-- column: copies count Copies (and fills)
-- column: bytes bytes Bytes (moved)
-- column: domain text Domain (API, and its domain where it is not the default one)
-- column: name text Range
WITH work AS (
    SELECT row_number() OVER () AS piece, w.*
    FROM (
        SELECT process, thread, seq, coalesce(nullif(queued_ns, 0), start_ns) AS launched, start_ns, end_ns, bytes, kind = 'kernel' AS kernel
        FROM activities WHERE kind != 'marker'
        UNION ALL
        SELECT r.process, r.thread, r.seq, r.start_ns, r.start_ns, r.end_ns, 0, true
        FROM kernel_runs r JOIN kernels k USING (kernel) WHERE host_mode(k.mode)
    ) w
),
numbered AS (
    SELECT row_number() OVER () AS range, r.*, coalesce(r.end_ns, t.end_ns) AS until,
           -- Calls take their numbers at entry; of a begin that was not recorded all numbers up to its end count.
           coalesce(r.seq, 0) AS from_seq, CASE WHEN r.end_thread = r.thread THEN r.end_seq END AS to_seq
    FROM ranges r JOIN threads t USING (thread) WHERE r.kind != 'mark'
),
groups AS (
    SELECT api, domain, name, row_number() OVER (ORDER BY api, domain, name) AS key
    FROM (SELECT DISTINCT api, domain, name FROM numbered)
),
-- Pushed ranges of one depth do not overlap in a thread: for each piece and depth there is at most one, the last begun.
levels AS (SELECT DISTINCT thread, api, domain, depth FROM numbered WHERE kind = 'push'),
candidates AS (SELECT w.piece, w.seq, w.start_ns AS work_start, l.* FROM work w JOIN levels l USING (thread)),
pushed AS (SELECT * FROM numbered WHERE kind = 'push'),
nested AS (
    SELECT c.piece, p.range
    FROM candidates c ASOF JOIN pushed p
    ON c.thread = p.thread AND c.api = p.api AND c.domain = p.domain AND c.depth = p.depth AND c.seq >= p.from_seq
    WHERE p.to_seq IS NULL OR c.seq < p.to_seq
),
overlapping AS (
    SELECT w.piece, r.range FROM numbered r JOIN work w
    ON w.process = r.process AND w.launched >= r.start_ns AND w.launched < r.until WHERE r.kind = 'start'
),
inside AS (
    SELECT g.key, i.range, w.start_ns AS s, greatest(w.start_ns, w.end_ns) AS e, w.bytes, w.kernel
    FROM (SELECT * FROM nested UNION ALL SELECT * FROM overlapping) i
    JOIN work w USING (piece) JOIN numbered r USING (range) JOIN groups g USING (api, domain, name)
),
projected AS (
    SELECT key, sum(span(first, last)) AS projected
    FROM (SELECT key, range, min(s) AS first, max(e) AS last FROM inside GROUP BY key, range) GROUP BY key
),
-- Two ranges of one name, one in the other, have a piece twice; it is work once.
distinct_work AS (
    SELECT g.key, w.piece, any_value(w.start_ns) AS s, any_value(greatest(w.start_ns, w.end_ns)) AS e,
           any_value(w.bytes) AS bytes, any_value(w.kernel) AS kernel
    FROM (SELECT * FROM nested UNION ALL SELECT * FROM overlapping) i
    JOIN work w USING (piece) JOIN numbered r USING (range) JOIN groups g USING (api, domain, name) GROUP BY ALL
),
sums AS (
    SELECT key, sum(span(s, e)) AS work, count(*) FILTER (kernel) AS kernels, count(*) FILTER (NOT kernel) AS copies, sum(bytes) AS bytes
    FROM distinct_work GROUP BY key
),
own AS (
    SELECT g.key, count(*) AS calls, sum(span(r.start_ns, r.until)) AS length
    FROM numbered r JOIN groups g USING (api, domain, name) GROUP BY g.key
)
SELECT share(work, (SELECT sum(span(start_ns, end_ns)) FROM work)) AS share, work AS work_ns, busy AS busy_ns,
       projected AS projected_ns, length AS range_ns, calls, kernels, copies, bytes,
       api_title(g.api) || CASE WHEN g.domain != '' THEN ' ' || g.domain ELSE '' END AS domain, g.name AS name
FROM sums JOIN groups g USING (key) JOIN own USING (key) JOIN projected USING (key) LEFT JOIN busy(distinct_work) USING (key)
ORDER BY sum(work) OVER (PARTITION BY g.api, g.domain) DESC, g.api, g.domain, work DESC, g.name
