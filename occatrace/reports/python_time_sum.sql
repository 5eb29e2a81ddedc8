-- title: Time of Python
-- about: time of threads in which Python ran: the program itself, or the calls into Python. Time in a traced API counts for
--   the outermost call. The rest belongs to Python and its extension modules; samples of the threads' CPU time (--python time)
--   separate them, with each extension module and its libraries below their sum. Device work runs in parallel
-- share: of the time in Python
-- needs: calls
-- of: python_calls
-- counts: python_calls
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: samples count Samples
-- column: name text Where
WITH windows AS (SELECT thread, start_ns AS s, end_ns AS e FROM python_calls WHERE kind IN ('run', 'border')),
inside AS (
    SELECT c.thread, c.api AS name, c.start_ns AS s, least(c.end_ns, w.e) AS e
    FROM calls c ASOF JOIN windows w ON c.thread = w.thread AND c.start_ns >= w.s WHERE c.start_ns < w.e
),
imports AS (
    SELECT i.thread, '' AS name, i.start_ns AS s, least(i.end_ns, w.e) AS e
    FROM python_calls i ASOF JOIN windows w ON i.thread = w.thread AND i.start_ns >= w.s
    WHERE i.kind = 'import' AND i.start_ns < w.e
),
outermost AS (
    SELECT name, s, e FROM (
        SELECT *, max(e) OVER (PARTITION BY thread ORDER BY s, e DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until FROM inside
    ) WHERE until IS NULL OR s >= until
),
api_intervals AS (SELECT thread AS key, s, e FROM imports),
all_intervals AS (SELECT thread AS key, s, e FROM imports UNION ALL SELECT thread, s, e FROM inside),
device AS (SELECT device AS key, start_ns AS s, end_ns AS e FROM activities),
whole AS (SELECT sum(span(s, e)) AS total, count(*) AS calls FROM windows),
rest AS (SELECT greatest(total::BIGINT - coalesce((SELECT sum(busy) FROM busy(all_intervals)), 0)::BIGINT, 0) AS total FROM whole),
-- Without those in imports and traced calls: until when such have lasted, at the moment of each.
until AS (SELECT key, s, max(e) OVER (PARTITION BY key ORDER BY s, e) AS e FROM all_intervals),
sampled AS (
    SELECT p.part, p.name, sum(p.cpu_ns) AS total, count(*) AS samples
    FROM (SELECT p.* FROM python_samples p ASOF JOIN windows w ON p.thread = w.thread AND p.time_ns >= w.s WHERE p.time_ns < w.e) p
    ASOF LEFT JOIN until u ON p.thread = u.key AND p.time_ns >= u.s
    WHERE u.e IS NULL OR p.time_ns >= u.e GROUP BY ALL
),
-- Samples stand for a little more or less than there was.
scaled AS (
    SELECT part, name, samples, total * least(1, (SELECT total FROM rest) / sum(total) OVER ()) AS total FROM sampled
),
rows AS (
    SELECT 1 AS place, total, calls, NULL AS samples, 'in all' AS name FROM whole
    UNION ALL
    SELECT 2, (SELECT sum(busy) FROM busy(api_intervals)), (SELECT count(*) FROM imports), NULL, 'imports'
    UNION ALL
    SELECT 3, sum(span(s, e)), count(*), NULL, CASE name WHEN 'openmp' THEN 'OpenMP' ELSE api_title(name) END FROM outermost GROUP BY name
    UNION ALL
    SELECT 4, total, NULL, NULL, 'Python and its extension modules' FROM rest WHERE NOT EXISTS (FROM scaled)
    UNION ALL
    SELECT 5, sum(total), NULL, sum(samples), 'Python' FROM scaled WHERE part = 'python'
    UNION ALL
    SELECT 6, sum(total), NULL, sum(samples), 'extension modules' FROM scaled WHERE part = 'extension'
    UNION ALL
    SELECT 7, total, NULL, samples, '  ' || name FROM scaled WHERE part = 'extension'
    UNION ALL
    SELECT 8, sum(total), NULL, sum(samples), 'elsewhere on a processor' FROM scaled WHERE part = 'elsewhere'
    UNION ALL
    SELECT 9, total - (SELECT sum(total) FROM scaled), NULL, NULL, 'not on a processor (waiting)' FROM rest WHERE EXISTS (FROM scaled)
    UNION ALL
    SELECT 10, (SELECT sum(busy) FROM busy(device)), (SELECT count(*) FROM device), NULL, 'device work (in parallel)'
)
SELECT share(total, (SELECT total FROM whole)) AS share, total::BIGINT AS total_ns, calls, samples, name
FROM rows WHERE total > 0 AND EXISTS (FROM windows) ORDER BY place, total DESC, name
