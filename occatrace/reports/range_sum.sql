-- title: Ranges
-- about: what the program marked by NVTX, ROCTX, ITT or occatrace.h: ranges and, without a time, marks. A range that never
--   ended lasts to the last event of its thread.
-- share: of the time of all ranges of this domain (nested ranges count in each of them)
-- group: domain
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Count
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: busy_ns ns Busy (time in which at least one was open: overlap counted once)
-- column: open count Open (never ended)
-- column: kind text Kind (push: nested in its thread; start: may overlap; mark: a moment)
-- column: domain text Domain (API, and its domain where it is not the default one)
-- column: name text Range
WITH groups AS (
    SELECT api, domain, name, kind, row_number() OVER (ORDER BY api, domain, name, kind) AS key
    FROM (SELECT DISTINCT api, domain, name, kind FROM ranges)
),
samples AS (
    SELECT g.key, CASE WHEN r.kind != 'mark' THEN span(r.start_ns, coalesce(r.end_ns, t.end_ns)) END AS v, r.start_ns AS s,
           coalesce(r.end_ns, t.end_ns) AS e, r.end_ns IS NULL AS never
    FROM ranges r JOIN groups g USING (api, domain, name, kind) JOIN threads t USING (thread)
),
open AS (SELECT key, count(*) FILTER (never) AS open FROM samples GROUP BY key),
rows AS (SELECT * FROM statistics(samples) LEFT JOIN busy(samples) USING (key) LEFT JOIN open USING (key))
SELECT share(total, sum(total) OVER (PARTITION BY g.api, g.domain)) AS share, total AS total_ns, calls, mean AS avg_ns,
       median AS med_ns, lowest AS min_ns, highest AS max_ns, CASE WHEN g.kind != 'mark' THEN deviation END AS stddev_ns,
       CASE WHEN g.kind != 'mark' THEN busy END AS busy_ns, open, g.kind AS kind,
       api_title(g.api) || CASE WHEN g.domain != '' THEN ' ' || g.domain ELSE '' END AS domain, g.name AS name
FROM rows JOIN groups g USING (key)
ORDER BY sum(total) OVER (PARTITION BY g.api, g.domain) DESC NULLS LAST, g.api, g.domain, total DESC NULLS LAST, g.name, g.kind
