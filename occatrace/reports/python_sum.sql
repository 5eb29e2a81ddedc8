-- title: Python
-- about: the start of the interpreter, imports (python_import_sum has each), calls from C or Fortran into Python, the functions that
--   --python functions chose. Self is without what stands in this report inside of it. The first call stands apart: Others is the
--   average without it
-- empty: no CPython was recorded (of programs that start Python, those are that use a traced API)
-- group: part
-- column: total_ns ns Total
-- column: self_ns ns Self
-- column: calls count Calls
-- column: first_ns ns First
-- column: others_ns ns Others (average of all but the first)
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: failed count Failed (ended by an exception)
-- column: part text Part
-- column: name text Name
-- column: source source Source
WITH outer_calls AS (
    SELECT *, false AS starting FROM python_calls WHERE kind != 'import'
    UNION ALL
    SELECT * EXCLUDE (within) FROM python_imports WHERE within IS NULL
),
own AS (
    SELECT c.start_ns, span(c.start_ns, c.end_ns) AS v, c.inner_ns, c.failed, c.kind != 'resumption' AS begins,
           CASE c.kind WHEN 'border' THEN 3 WHEN 'function' THEN 4 WHEN 'resumption' THEN 4 WHEN 'run' THEN 2 ELSE 1 END AS place,
           CASE c.kind WHEN 'start' THEN 'start of ' || c.name
               WHEN 'import' THEN CASE WHEN c.starting THEN 'imports while it starts' ELSE 'imports by the program' END
               ELSE c.name END AS name,
           CASE WHEN c.source != '' THEN c.source || CASE WHEN c.line > 0 THEN ':' || c.line ELSE '' END ELSE '' END AS source
    FROM outer_calls c
),
groups AS (
    SELECT place, name, source, row_number() OVER (ORDER BY place, name, source) AS key
    FROM (SELECT DISTINCT place, name, source FROM own)
),
keyed AS (SELECT g.key, o.* EXCLUDE (place, name, source) FROM own o JOIN groups g USING (place, name, source)),
samples AS (SELECT key, v FROM keyed),
more AS (
    SELECT key, arg_min(v, start_ns) AS first, sum(inner_ns) AS inner_ns, count(*) FILTER (failed) AS failed,
           count(*) FILTER (begins) AS begun, min(start_ns) AS since
    FROM keyed GROUP BY key
)
SELECT total AS total_ns, CASE WHEN g.name NOT LIKE 'imports %' AND g.place != 2 THEN greatest(total::BIGINT - inner_ns::BIGINT, 0) END AS self_ns,
       begun AS calls, first AS first_ns,
       CASE WHEN calls > 1 THEN (total - first) / (calls - 1) END AS others_ns, mean AS avg_ns, median AS med_ns, lowest AS min_ns,
       highest AS max_ns, failed,
       ['interpreter', 'program', 'calls from C or Fortran', 'functions'][g.place] AS part, g.name, g.source
FROM statistics(samples) JOIN more USING (key) JOIN groups g USING (key)
ORDER BY g.place, CASE WHEN g.place <= 2 THEN since END, total DESC, g.name
