-- title: Memory pools
-- about: pools of pyopencl and pycuda (--python pools, lines): what was asked of each, how much of that it served from what it had,
--   and the most that it held and that arrays used of it. Rounding: what is lost because a pool keeps blocks of certain sizes only
-- empty: no pools seen (occa_prof --python pools, or lines)
-- share: of the blocks that the pool gave out
-- column: allocations count Asked for
-- column: reused_percent percent Reused (served from what the pool had)
-- column: frees count Given back
-- column: asked_bytes bytes Asked (sum of all)
-- column: held_high_bytes bytes Held, most (in use or kept for later)
-- column: used_high_bytes bytes In use, most (of what was asked for)
-- column: rounding_high_bytes bytes Rounding, most (at once)
-- column: held_bytes bytes Held at the end
-- column: used_bytes bytes In use at the end
-- column: hit_ns ns Avg reused (time to get a block that the pool had)
-- column: miss_ns ns Avg new (time to get one from the driver)
-- column: process text Process
-- column: name text Pool (number, class and what it allocates by)
-- column: source source Made at
WITH used AS (
    SELECT process, pool, moment, sum(d) OVER w AS asked, sum(r) OVER w AS rounding FROM (
        SELECT process, pool, start_ns AS moment, asked::HUGEINT AS d, bytes::HUGEINT - asked AS r, 1 AS given FROM pool_blocks
        UNION ALL
        SELECT process, pool, end_ns, -asked::HUGEINT, asked::HUGEINT - bytes, 0 FROM pool_blocks WHERE end_ns IS NOT NULL
    ) WINDOW w AS (PARTITION BY process, pool ORDER BY moment, given ROWS UNBOUNDED PRECEDING)
),
highs AS (SELECT process, pool, max(asked) AS asked, max(rounding) AS rounding FROM used GROUP BY ALL),
sizes AS (SELECT process, pool, max(bytes) AS high, arg_max(bytes, time_ns) AS last FROM pool_sizes GROUP BY ALL),
sums AS (
    SELECT process, pool, count(*) AS n, count(*) FILTER (reused) AS hits, count(end_ns) AS frees, sum(asked) AS asked,
           coalesce(sum(asked) FILTER (end_ns IS NULL), 0) AS in_use, avg(call_ns) FILTER (reused) AS hit, avg(call_ns) FILTER (NOT reused) AS miss
    FROM pool_blocks GROUP BY ALL
)
SELECT coalesce(n, 0) AS allocations, share(hits, n) AS reused_percent, coalesce(frees, 0) AS frees, coalesce(s.asked, 0) AS asked_bytes,
       coalesce(z.high, 0) AS held_high_bytes, coalesce(h.asked, 0) AS used_high_bytes, coalesce(h.rounding, 0) AS rounding_high_bytes,
       coalesce(z.last, 0) AS held_bytes, coalesce(in_use, 0) AS used_bytes, hit AS hit_ns, miss AS miss_ns, r.pid::VARCHAR AS process,
       format('{} {}{}', p.id, p.kind, CASE WHEN p.allocator != '' THEN ' (' || regexp_extract(p.allocator, '[^.]*$') || ')' ELSE '' END) AS name,
       coalesce(l.source, '') AS source
FROM pools p JOIN processes r USING (process) LEFT JOIN own_lines(python_frames) l ON l.process = p.process AND l.leaf = p.frame
LEFT JOIN sums s ON s.process = p.process AND s.pool = p.id LEFT JOIN sizes z ON z.process = p.process AND z.pool = p.id
LEFT JOIN highs h ON h.process = p.process AND h.pool = p.id
ORDER BY asked_bytes DESC, r.pid, p.id
