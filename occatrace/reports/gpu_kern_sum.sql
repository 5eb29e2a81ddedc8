-- title: Device kernels
-- about: kernels as the backend ran them, per device
-- share: of the time of all device kernels
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Calls
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: busy_ns ns Busy (time in which at least one ran: overlap counted once)
-- column: failed count Failed
-- column: device text Device
-- column: name text Kernel
WITH samples AS (
    SELECT {'name': a.name, 'device': coalesce(d.name, '')} AS key, span(start_ns, end_ns) AS v, start_ns AS s, end_ns AS e, status
    FROM activities a LEFT JOIN devices d USING (device) WHERE kind = 'kernel'
),
failures AS (SELECT key, count(*) FILTER (status < 0) AS failed FROM samples GROUP BY key),
rows AS (SELECT * FROM statistics(samples) LEFT JOIN busy(samples) USING (key) LEFT JOIN failures USING (key))
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns, lowest AS min_ns,
       highest AS max_ns, deviation AS stddev_ns, busy AS busy_ns, failed, key.device AS device, key.name AS name
FROM rows ORDER BY total DESC, name, device
