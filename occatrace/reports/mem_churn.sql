-- title: Memory allocated again and again
-- about: sizes that were allocated and freed many times: what a pool, or one allocation before the loop, would save. Where OCCA
--   allocates, the calls of the API below are within OCCA's and not listed again.
-- empty: no size was allocated and freed ten times (or nothing recorded: at the level tally calls leave no events)
-- share: of the time in all allocating and freeing calls
-- column: share percent Time
-- column: total_ns ns Total (of these allocations and frees)
-- column: saved_ns ns To save (all of these calls but one of each)
-- column: allocations count Allocations
-- column: frees count Frees
-- column: bytes bytes Each
-- column: at_once count At once (the most of them in use at the same time: how many a pool would hold)
-- column: kind text Kind
-- column: name text Device or mode
-- column: caller source Line (of the program, that makes most of their time; and how many others allocate this size)
WITH own AS (
    SELECT a.*, CASE a.api WHEN 'occa' THEN coalesce(a.mode, '') ELSE coalesce(api_title(a.api) || ' ' || d.name, api_title(a.api)) END AS name
    FROM allocations a LEFT JOIN devices d USING (device) WHERE a.scope_seq IS NULL AND a.kind != 'slice'
),
sums AS (
    SELECT name, kind, bytes, count(*) AS n, count(end_ns) AS frees, sum(call_ns) AS ns, coalesce(sum(free_call_ns), 0) AS free_ns
    FROM own GROUP BY ALL
),
many AS (SELECT * FROM sums WHERE n >= 10 AND frees >= 9),
changes AS (
    SELECT name, kind, bytes, start_ns AS moment, 1 AS change FROM own SEMI JOIN many USING (name, kind, bytes)
    UNION ALL
    SELECT name, kind, bytes, end_ns, -1 FROM own SEMI JOIN many USING (name, kind, bytes) WHERE end_ns IS NOT NULL
),
curve AS (
    SELECT name, kind, bytes, sum(change) OVER (PARTITION BY name, kind, bytes ORDER BY moment, change DESC ROWS UNBOUNDED PRECEDING) AS in_use
    FROM changes
),
tops AS (SELECT name, kind, bytes, max(in_use) AS at_once FROM curve GROUP BY ALL),
called AS (
    SELECT name, kind, bytes, main_line(source, ns) AS caller
    FROM (
        SELECT o.name, o.kind, o.bytes, c.source, sum(o.call_ns + coalesce(o.free_call_ns, 0)) AS ns
        FROM own o SEMI JOIN many USING (name, kind, bytes) JOIN call_lines c ON c.thread = o.thread AND c.seq = o.seq GROUP BY ALL
    ) GROUP BY ALL
),
whole AS (SELECT coalesce(sum(ns + free_ns), 0) AS ns FROM sums)
SELECT share(m.ns + free_ns, (SELECT ns FROM whole)) AS share, m.ns + free_ns AS total_ns, m.ns * (n - 1) / n + free_ns * (frees - 1) / frees AS saved_ns,
       n AS allocations, frees, bytes, at_once, kind, name, coalesce(caller, '') AS caller
FROM many m JOIN tops USING (name, kind, bytes) LEFT JOIN called USING (name, kind, bytes) ORDER BY total_ns DESC, bytes, name, kind
