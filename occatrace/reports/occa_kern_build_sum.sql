-- title: OCCA kernel builds
-- about: calls that build or load kernels, and the backend's compiler within them
-- needs: calls
-- share: of the time in these calls
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: avg_ns ns Avg
-- column: max_ns ns Max
-- column: compiler_ns ns In the backend's compiler
-- column: failed count Failed
-- column: name text Function
WITH builds AS (
    SELECT thread, function, start_ns, end_ns, failed FROM calls WHERE api = 'occa' AND function ILIKE '%buildKernel%'
),
compiler AS (
    SELECT b.function, sum(span(c.start_ns, c.end_ns)) AS ns
    FROM calls c JOIN builds b ON b.thread = c.thread AND c.start_ns >= b.start_ns AND c.end_ns <= b.end_ns
    WHERE c.api != 'occa' AND (c.function ILIKE '%BuildProgram%' OR c.function ILIKE '%CompileProgram%' OR c.function ILIKE '%ModuleLoad%')
    GROUP BY b.function
),
sums AS (
    SELECT function, count(*) AS calls, sum(span(start_ns, end_ns)) AS total, max(span(start_ns, end_ns)) AS longest,
           count(*) FILTER (failed) AS failed
    FROM builds GROUP BY function
)
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, total / calls AS avg_ns, longest AS max_ns,
       coalesce(ns, 0) AS compiler_ns, failed, function AS name
FROM sums LEFT JOIN compiler USING (function) ORDER BY total DESC, name
