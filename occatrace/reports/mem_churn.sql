-- title: OCCA memory allocated again and again
-- about: sizes that were allocated and freed many times: what a pool, or one allocation before the loop, would save
-- needs: calls
-- share: of the time in OCCA's allocations and frees
-- column: share percent Time
-- column: saved_ns ns To save (all of these calls but one of each)
-- column: allocations count Allocations
-- column: frees count Frees
-- column: bytes bytes Each
-- column: name text Mode
WITH allocations AS (SELECT mode, bytes, count(*) AS n, sum(span(start_ns, end_ns)) AS ns FROM occa_allocations GROUP BY ALL),
frees AS (SELECT mode, bytes, count(*) AS n, sum(span(start_ns, end_ns)) AS ns FROM occa_frees GROUP BY ALL),
whole AS (SELECT (SELECT coalesce(sum(ns), 0) FROM allocations) + (SELECT coalesce(sum(ns), 0) FROM frees) AS ns)
SELECT share(a.ns + f.ns, (SELECT ns FROM whole)) AS share, a.ns * (a.n - 1) / a.n + f.ns * (f.n - 1) / f.n AS saved_ns,
       a.n AS allocations, f.n AS frees, bytes, mode AS name
FROM allocations a JOIN frees f USING (mode, bytes) WHERE a.n >= 10 AND f.n >= 9 ORDER BY a.ns + f.ns DESC, bytes, mode
