-- title: Counters by process and device
-- about: values over time, those that --sample took and those that the program gave: a value counts for the time to the next one
--   of the same counter, process and device. What --papi counted: its rate in calls of kernels
-- empty: nothing was sampled (occa_prof --sample host) or counted (--papi EVENTS), and the program gave no values
-- of: counters papi_counts
-- column: samples count Samples
-- column: avg number Avg (over time; of a single value that one)
-- column: min number Min
-- column: max number Max
-- column: last number Last
-- column: span_ns ns Over (from the first to the last)
-- column: unit text Unit (bytes are in MiB here; of CPU 100 % is one core)
-- column: process text Process (with its rank, where it has one)
-- column: device text Device (empty: of the process)
-- column: name text Counter
WITH rates AS (
    SELECT r.process, c.counter, r.start_ns, r.end_ns, c.value * 1e9 / (r.end_ns - r.start_ns) AS value, c.value AS counted
    FROM papi_counts c JOIN kernel_runs r USING (thread, seq) WHERE r.end_ns > r.start_ns
),
steps AS (
    SELECT * REPLACE (value / if(unit = 'bytes', 1048576, 1) AS value, if(unit = 'bytes', 'MiB', unit) AS unit),
           coalesce(lead(time_ns) OVER (PARTITION BY process, device, name, unit ORDER BY time_ns), time_ns) - time_ns AS ns
    FROM counters
),
grouped AS (
    SELECT process, device, count(*) AS samples, CASE WHEN sum(ns) > 0 THEN sum(value * ns) / sum(ns) ELSE avg(value) END AS avg,
           min(value) AS min, max(value) AS max, arg_max(value, time_ns) AS last, (max(time_ns) - min(time_ns))::BIGINT AS span_ns,
           unit, name
    FROM steps GROUP BY process, device, name, unit
    UNION ALL
    SELECT process, NULL, count(*), sum(counted) * 1e9 / sum(end_ns - start_ns), min(value), max(value), arg_max(value, end_ns),
           (max(end_ns) - min(start_ns))::BIGINT, '/s', counter || ' in kernels'
    FROM rates GROUP BY process, counter
)
SELECT samples, avg, min, max, last, span_ns, unit,
       coalesce('rank ' || p.rank || ' ', '') || regexp_extract(p.exe, '[^/]*$') || ' ' || p.pid AS process,
       coalesce(d.name, '') AS device, g.name AS name
FROM grouped g JOIN processes p USING (process) LEFT JOIN devices d USING (device)
ORDER BY p.rank NULLS FIRST, g.process, g.device NULLS FIRST, g.name, unit
