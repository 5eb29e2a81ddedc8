-- title: Device kernels
-- about: kernels as the backend ran them, per device
-- share: of the time of all device kernels
-- of: activities
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
WITH groups AS (
    SELECT name, device, row_number() OVER (ORDER BY name, device) AS key
    FROM (SELECT DISTINCT name, device FROM activities WHERE kind = 'kernel')
),
samples AS (
    SELECT g.key, span(start_ns, end_ns) AS v, start_ns AS s, end_ns AS e, status
    FROM activities a JOIN groups g ON g.name = a.name AND g.device IS NOT DISTINCT FROM a.device WHERE kind = 'kernel'
),
failures AS (SELECT key, count(*) FILTER (status < 0) AS failed FROM samples GROUP BY key),
rows AS (SELECT * FROM statistics(samples) LEFT JOIN busy(samples) USING (key) LEFT JOIN failures USING (key))
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns, lowest AS min_ns,
       highest AS max_ns, deviation AS stddev_ns, busy AS busy_ns, failed, coalesce(d.name, '') AS device, g.name AS name
FROM rows JOIN groups g USING (key) LEFT JOIN devices d USING (device) ORDER BY total DESC, g.name, d.name, key
