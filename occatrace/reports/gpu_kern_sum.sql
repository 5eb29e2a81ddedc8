-- title: Device kernels
-- about: kernels as the backend ran them, by the name of the device (`--by device` separates devices of one name)
-- share: of the time of all device kernels
-- of: activities
-- sums: gpu
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
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns, lowest AS min_ns,
       highest AS max_ns, deviation AS stddev_ns, busy AS busy_ns, failed, device, name
FROM gpu_sums ORDER BY total DESC, name, device
