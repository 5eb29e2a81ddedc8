-- title: Histograms
-- about: durations of kernels and functions, in octaves; --filter-name chooses one
-- share: of the calls of this name
-- column: name text Name
-- column: from_ns ns From
-- column: to_ns ns Below
-- column: calls count Calls
-- column: share percent Share
WITH samples AS (
    SELECT function AS name, value_ns AS v, calls AS n FROM call_hist
    UNION ALL
    SELECT name, span(start_ns, end_ns), 1 FROM activities WHERE kind = 'kernel'
),
octaves AS (
    SELECT name, CASE WHEN v < 1 THEN -1 ELSE _msb(v::UBIGINT) END AS octave, sum(n) AS calls FROM samples GROUP BY ALL
)
SELECT name, CASE WHEN octave < 0 THEN 0 ELSE 2.0 ** octave END AS from_ns, 2.0 ** (octave + 1) AS to_ns, calls,
       share(calls, sum(calls) OVER (PARTITION BY name)) AS share
FROM octaves ORDER BY sum(calls) OVER (PARTITION BY name) DESC, name, octave
