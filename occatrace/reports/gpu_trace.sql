-- title: Device work
-- about: every piece of device work in the order of its start
-- column: start_ns ns Start (since the first call, range or work of the run)
-- column: duration_ns ns Duration
-- column: waited_ns ns Waited (from its enqueue to its start)
-- column: bytes bytes Bytes
-- column: gb_per_s number GB/s
-- column: grid text Threads
-- column: block text Block
-- column: device text Device
-- column: queue count Queue (its number in the process)
-- column: status number Status (0: complete, negative: error code)
-- column: okl text OKL
-- column: name text Name
SELECT a.start_ns - run_zero() AS start_ns, span(a.start_ns, a.end_ns) AS duration_ns,
       span(a.queued_ns, a.start_ns) AS waited_ns, a.bytes,
       CASE WHEN a.bytes > 0 AND a.end_ns > a.start_ns THEN a.bytes / (a.end_ns - a.start_ns) END AS gb_per_s,
       CASE WHEN a.gx > 0 THEN concat_ws('×', a.gx, nullif(a.gy, 0), nullif(a.gz, 0)) ELSE '' END AS grid,
       CASE WHEN a.lx > 0 THEN concat_ws('×', a.lx, nullif(a.ly, 0), nullif(a.lz, 0)) ELSE '' END AS block,
       coalesce(d.name, '') AS device, q.id AS queue, a.status, coalesce(k.name, '') AS okl, a.name
FROM activities a LEFT JOIN devices d USING (device) LEFT JOIN queues q USING (queue) LEFT JOIN kernels k USING (kernel)
ORDER BY a.start_ns, a.end_ns, a.name
