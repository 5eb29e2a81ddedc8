-- title: Python imports
-- about: modules as they were imported, each under the one that imported it, the longest first; of several processes added up.
--   Self is without the modules imported by it
-- column: total_ns ns Total
-- column: self_ns ns Self
-- column: calls count Times
-- column: failed count Failed
-- column: part text When (start: before the program began)
-- column: depth count Depth
-- column: name text Module
-- column: tree text Tree
WITH RECURSIVE modules AS (
    SELECT process, number, name, failed, span(start_ns, end_ns) AS v, inner_ns,
           CASE WHEN starting THEN 'start' ELSE 'program' END AS part, within
    FROM python_imports
),
walked AS (
    SELECT process, number, [part, name] AS path, name, failed, v, inner_ns FROM modules WHERE within IS NULL
    UNION ALL
    SELECT m.process, m.number, list_append(w.path, m.name), m.name, m.failed, m.v, m.inner_ns
    FROM modules m JOIN walked w ON w.process = m.process AND w.number = m.within
),
sums AS (
    SELECT path, any_value(name) AS name, count(*) AS calls, count(*) FILTER (failed) AS failed, sum(v) AS total,
           sum(greatest(v::BIGINT - inner_ns::BIGINT, 0)) AS self
    FROM walked GROUP BY path
),
-- The place of each among its neighbours, the longest first, under that of the one around it.
places AS (SELECT *, row_number() OVER (PARTITION BY path[:-2] ORDER BY total DESC, name) AS place FROM sums),
ordered AS (
    SELECT path, [place] AS places FROM places WHERE len(path) = 2
    UNION ALL
    SELECT p.path, list_append(o.places, p.place) FROM places p JOIN ordered o ON o.path = p.path[:-2]
)
SELECT total AS total_ns, self AS self_ns, calls, failed, path[1] AS part, len(path) - 2 AS depth, name,
       repeat('  ', len(path) - 2) || name AS tree
FROM sums JOIN ordered USING (path) ORDER BY part DESC, places
