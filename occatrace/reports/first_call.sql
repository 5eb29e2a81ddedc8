-- title: First calls
-- about: the first call of each OCCA kernel and function against the median of the others: the initial penalty
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
groups AS (
    SELECT kind, name, min(start_ns) AS first_at, arg_min(v, start_ns) AS first, count(*) AS calls, row_number() OVER (ORDER BY kind, name) AS key
    FROM samples WHERE v IS NOT NULL GROUP BY kind, name HAVING count(*) > 1
),
rest AS (SELECT g.key, s.v FROM samples s JOIN groups g USING (kind, name) WHERE s.start_ns > g.first_at AND s.v IS NOT NULL)
SELECT first::DOUBLE - median AS penalty_ns, first AS first_ns, median AS med_ns,
       CASE WHEN median > 0 THEN first / median END AS ratio, g.calls, kind, name
FROM groups g JOIN statistics(rest) USING (key) ORDER BY penalty_ns DESC, name
