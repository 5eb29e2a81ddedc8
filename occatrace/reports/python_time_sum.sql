-- title: Time of Python
-- about: where the time went of threads in which Python ran: the program itself, or the calls into it. Time in a traced API counts for
--   the outermost call. What is left is Python's own and that of its extension modules, which are not told apart. Device work runs
--   beside all this
-- share: of the time in Python
-- needs: calls
-- counts: python_calls
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
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
rows AS (
    SELECT 1 AS place, total, calls, 'in all' AS name FROM whole
    UNION ALL
    SELECT 2, (SELECT sum(busy) FROM busy(api_intervals)), (SELECT count(*) FROM imports), 'imports'
    UNION ALL
    SELECT 3, sum(span(s, e)), count(*), api_title(name) FROM outermost GROUP BY name
    UNION ALL
    SELECT 4, greatest(total::BIGINT - coalesce((SELECT sum(busy) FROM busy(all_intervals)), 0)::BIGINT, 0), NULL,
           'Python and its extension modules' FROM whole
    UNION ALL
    SELECT 5, (SELECT sum(busy) FROM busy(device)), (SELECT count(*) FROM device), 'device work (beside)'
)
SELECT share(total, (SELECT total FROM whole)) AS share, total AS total_ns, calls, name
FROM rows WHERE total > 0 ORDER BY place, total DESC, name
