-- title: Counters
-- about: values over time: those that the program gives by occatrace.h or ITT, and what was sampled; the mean is of the
--   samples, whatever lies between them
-- column: samples count Samples
-- column: first number First
-- column: last number Last
-- column: mean number Mean
-- column: min number Min
-- column: max number Max
-- column: unit text Unit
-- column: device text Device (empty: of the process)
-- column: name text Counter
SELECT count(*) AS samples, arg_min(value, time_ns) AS first, arg_max(value, time_ns) AS last, avg(value) AS mean,
       min(value) AS min, max(value) AS max, c.unit AS unit, coalesce(d.name, '') AS device, c.name AS name
FROM counters c LEFT JOIN devices d USING (device) GROUP BY c.name, c.unit, d.name ORDER BY c.name, c.unit, device
