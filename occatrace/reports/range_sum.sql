-- title: Ranges
-- about: what the program marked by NVTX, ROCTX, ITT or occatrace.h: ranges and, without a time, marks. A range that never
--   ended lasts to the last event of its thread.
-- share: of the time of all ranges of this domain (nested ranges count in each of them)
-- group: domain
-- sums: range
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
SELECT share(total, sum(total) OVER (PARTITION BY api, r.domain)) AS share, total AS total_ns, calls, mean AS avg_ns,
       median AS med_ns, lowest AS min_ns, highest AS max_ns, CASE WHEN kind != 'mark' THEN deviation END AS stddev_ns,
       CASE WHEN kind != 'mark' THEN busy END AS busy_ns, open, kind,
       api_title(api) || CASE WHEN r.domain != '' THEN ' ' || r.domain ELSE '' END AS domain, name
FROM range_sums r
ORDER BY sum(total) OVER (PARTITION BY api, r.domain) DESC NULLS LAST, api, r.domain, total DESC NULLS LAST, name, kind
