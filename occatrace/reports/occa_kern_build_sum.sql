-- title: OCCA kernel builds
-- about: calls that build or load kernels: how many found their binary in OCCA's cache, and what the compilers took. OCCA runs
--   the compiler of the host as a child process: its processor time is known; the compiler of the backend is a call within
-- empty: no builds recorded (at the level tally calls leave no events)
-- counts: builds
-- share: of the time in these calls
-- column: share percent Time
-- column: total_ns ns Total
-- column: builds count Builds (calls that built or loaded the kernel)
-- column: hits count Cache hits (of these, the binary was there and nothing was compiled)
-- column: avg_ns ns Avg
-- column: max_ns ns Max
-- column: built_avg_ns ns Avg built (of those that were no cache hits)
-- column: hit_avg_ns ns Avg hit
-- column: host_compiler_ns ns Host compiler (processor time of the child processes)
-- column: compiler_ns ns Backend's compiler (calls like clBuildProgram within the builds)
-- column: failed count Failed
-- column: mode text Mode
-- column: name text Kernel
-- column: source source Source
-- column: caller source Line (of the program, that built it; of several the one that took longest, and how many others)
WITH own AS (
    SELECT *, span(start_ns, end_ns) AS ns, dense_rank() OVER (ORDER BY name, mode, source) AS key FROM builds WHERE api = 'occa'
),
backend AS (
    SELECT o.key, sum(span(b.start_ns, b.end_ns)) AS ns FROM builds b
    JOIN own o ON o.thread = b.thread AND b.start_ns >= o.start_ns AND b.end_ns <= o.end_ns
    WHERE b.api != 'occa' GROUP BY o.key
),
built AS (
    SELECT key, main_line(source, ns) AS caller
    FROM (SELECT o.key, c.source, sum(o.ns) AS ns FROM own o JOIN call_lines c USING (thread, seq) GROUP BY ALL) GROUP BY key
),
sums AS (
    SELECT key, any_value(name) AS name, any_value(mode) AS mode, any_value(source) AS source, count(*) AS builds,
           count(*) FILTER (cached AND NOT failed) AS hits, sum(ns) AS total, max(ns) AS longest,
           avg(ns) FILTER (NOT cached) AS built_avg, avg(ns) FILTER (cached) AS hit_avg, sum(compiler_ns) AS compiler,
           count(*) FILTER (failed) AS failed
    FROM own GROUP BY key
)
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, builds, hits, total / builds AS avg_ns, longest AS max_ns,
       built_avg AS built_avg_ns, hit_avg AS hit_avg_ns, compiler AS host_compiler_ns, coalesce(ns, 0) AS compiler_ns, failed,
       coalesce(mode, '') AS mode, coalesce(name, '(unknown kernel)') AS name, coalesce(source, '') AS source,
       coalesce(caller, '') AS caller
FROM sums LEFT JOIN backend USING (key) LEFT JOIN built USING (key) ORDER BY total DESC, name, key
