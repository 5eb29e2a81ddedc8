-- title: Counters by process and device
-- about: values over time, those that --sample took and those that the program gave: a value counts for the time to the next one
--   of the same counter, process and device
-- empty: nothing was sampled (occa_prof --sample host), and the program gave no values
-- of: counters
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
WITH steps AS (
    SELECT * REPLACE (value / if(unit = 'bytes', 1048576, 1) AS value, if(unit = 'bytes', 'MiB', unit) AS unit),
           coalesce(lead(time_ns) OVER (PARTITION BY process, device, name, unit ORDER BY time_ns), time_ns) - time_ns AS ns
    FROM counters
)
SELECT count(*) AS samples, CASE WHEN sum(ns) > 0 THEN sum(value * ns) / sum(ns) ELSE avg(value) END AS avg, min(value) AS min,
       max(value) AS max, arg_max(value, time_ns) AS last, (max(time_ns) - min(time_ns))::BIGINT AS span_ns, c.unit AS unit,
       coalesce('rank ' || p.rank || ' ', '') || regexp_extract(p.exe, '[^/]*$') || ' ' || p.pid AS process,
       coalesce(d.name, '') AS device, c.name AS name
FROM steps c JOIN processes p USING (process) LEFT JOIN devices d USING (device)
GROUP BY c.process, c.device, c.name, c.unit, p.rank, p.exe, p.pid, d.name
ORDER BY p.rank NULLS FIRST, c.process, c.device NULLS FIRST, c.name, c.unit
