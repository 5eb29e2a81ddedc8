-- title: Memory by Python lines
-- about: device memory by the line of the program's own code that allocated it (--python lines): what was never freed, and what was
--   kept although no kernel, copy or fill used it any more. Blocks of memory pools are listed by the line that requested them, in
--   addition to the pool's own memory. Late: freed after more than 1 ms without use, for more than half of its life
-- empty: no lines of allocations recorded (occa_prof --python lines)
-- share: of the time that the memory was there
-- column: bytes bytes Bytes (sum of all)
-- column: allocations count Made
-- column: in_use_bytes bytes Never freed
-- column: left_over count Left
-- column: late count Late
-- column: late_bytes bytes Freed late
-- column: unused count Never used (by a kernel, copy or fill)
-- column: idle_ns ns Idle (mean time from the last use to the end)
-- column: idle_percent percent Idle (share of the time that it was there)
-- column: life_ns ns Life (mean)
-- column: kind text Kind
-- column: name text Function
-- column: source source Line
WITH made AS (
    SELECT a.process, l.frame, a.bytes, a.kind, a.start_ns, a.end_ns, a.used_ns, a.uses FROM allocations a JOIN python_lines l USING (thread, seq)
    WHERE a.kind NOT IN ('slice', 'wrapped') AND a.scope_seq IS NULL AND a.api != 'occa' AND a.kind != 'pool'
    UNION ALL
    SELECT process, frame, asked, 'pool block', start_ns, end_ns, used_ns, uses FROM pool_blocks WHERE frame IS NOT NULL
),
lives AS (
    SELECT m.*, p.function AS name, p.source, coalesce(m.end_ns, r.end_ns) AS until, greatest(m.start_ns, coalesce(m.used_ns, m.start_ns)) AS last
    FROM made m JOIN own_lines(python_frames) p ON p.process = m.process AND p.leaf = m.frame JOIN processes r ON r.process = m.process
),
timed AS (
    SELECT *, span(start_ns, until) AS life, CASE WHEN uses IS NOT NULL THEN span(last, until) END AS idle FROM lives
)
SELECT sum(bytes) AS bytes, count(*) AS allocations, coalesce(sum(bytes) FILTER (end_ns IS NULL), 0) AS in_use_bytes, count(*) FILTER (end_ns IS NULL) AS left_over,
       count(*) FILTER (end_ns IS NOT NULL AND uses > 0 AND idle > 1000000 AND idle * 2 > life) AS late,
       coalesce(sum(bytes) FILTER (end_ns IS NOT NULL AND uses > 0 AND idle > 1000000 AND idle * 2 > life), 0) AS late_bytes,
       count(*) FILTER (uses = 0) AS unused, avg(idle) AS idle_ns, share(sum(idle), sum(life) FILTER (idle IS NOT NULL)) AS idle_percent, avg(life) AS life_ns,
       kind, name, source
FROM timed GROUP BY kind, name, source ORDER BY in_use_bytes DESC, late_bytes DESC, bytes DESC, source, name, kind
