-- title: First calls
-- about: the first call of each OCCA kernel and function against the median of the others: the initial penalty; only of those whose first call took longer
-- needs: calls
-- column: penalty_ns ns Penalty (first less the median of the others)
-- column: first_ns ns First
-- column: med_ns ns Med (of the others)
-- column: ratio number Ratio
-- column: calls count Calls
-- column: kind text Kind
-- column: name text Name
WITH work AS (
    SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns
    FROM activities WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY thread, run_seq
),
samples AS (
    SELECT 'function' AS kind, function AS name, start_ns, span(start_ns, end_ns) AS v FROM calls WHERE function != 'occa::kernel::run'
    UNION ALL
    SELECT 'kernel', k.name || ' [' || k.mode || ']', r.start_ns, CASE WHEN host_mode(k.mode) THEN span(r.start_ns, r.end_ns) ELSE w.ns END
    FROM kernel_runs r JOIN kernels k USING (kernel) LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq
),
-- One pass over the samples: what falls into each bucket, and which of it came first.
cells AS (
    SELECT kind, name, bucket(v) AS b, count(*) AS n, min(start_ns) AS begun, arg_min(v, start_ns) AS v, sum(v) AS total,
           min(v) AS lowest, max(v) AS highest
    FROM samples WHERE v IS NOT NULL GROUP BY ALL
),
groups AS (
    SELECT kind, name, arg_min(v, begun) AS first, arg_min(b, begun) AS first_bucket, sum(n) AS calls, row_number() OVER (ORDER BY kind, name) AS key
    FROM cells GROUP BY kind, name HAVING sum(n) > 1
),
-- Without the first. Where one is left in its bucket it is known exactly.
rest AS (
    SELECT g.key, c.n - (c.b = g.first_bucket)::INTEGER AS n,
           CASE WHEN c.b != g.first_bucket OR c.n > 2 THEN bucket_middle(c.b) ELSE c.total - g.first END AS value,
           CASE WHEN c.b != g.first_bucket OR c.n > 2 THEN c.lowest ELSE c.total - g.first END AS lowest,
           CASE WHEN c.b != g.first_bucket OR c.n > 2 THEN c.highest ELSE c.total - g.first END AS highest
    FROM cells c JOIN groups g USING (kind, name) WHERE c.n > (c.b = g.first_bucket)::INTEGER
),
bounds AS (SELECT key, min(lowest) AS lowest, max(highest) AS highest FROM rest GROUP BY key),
others AS (
    SELECT key, least(greatest(median, lowest), highest) AS median FROM medians(rest) JOIN bounds USING (key)
)
SELECT first::DOUBLE - median AS penalty_ns, first AS first_ns, median AS med_ns,
       CASE WHEN median > 0 THEN first / median END AS ratio, g.calls, kind, name
FROM groups g JOIN others USING (key) WHERE first > median ORDER BY penalty_ns DESC, name
