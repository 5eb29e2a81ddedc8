-- title: SYCL commands
-- about: commands of SYCL by their kernel or operation and the line that submitted them, with the work on devices that the
--   runtime made of them. Host is the time from the start to the end of handing them to the backend.
-- share: of the device time of all commands
-- of: sycl_calls
-- column: share percent Time
-- column: device_ns ns Device
-- column: calls count Commands
-- column: avg_ns ns Avg (device time of a command)
-- column: host_ns ns Host (time in which the runtime handed them to the backend)
-- column: waiting_ns ns Delay (mean time from the submission by the program to the start of the work)
-- column: dependencies count Depends (commands that these must wait for)
-- column: name text Command
-- column: source source Source (file and line of the submission)
WITH commands AS (SELECT * FROM sycl_calls WHERE operation = 'submit'),
work AS (
    SELECT c.thread, c.seq, sum(span(a.start_ns, a.end_ns)) AS ns, min(a.start_ns) AS begins,
           max(a.name) FILTER (a.kind = 'kernel') AS kernel
    FROM activities a ASOF JOIN commands c ON a.thread = c.thread AND a.seq > c.seq
    WHERE a.seq <= c.last_seq GROUP BY ALL
),
after AS (SELECT process, command, count(*) AS n FROM sycl_dependencies GROUP BY ALL),
rows AS (
    SELECT coalesce(w.kernel, c.name) AS name, c.source, sum(w.ns) AS device_ns, count(*) AS calls,
           sum(w.ns) / count(w.ns) AS avg_ns, sum(span(c.start_ns, c.end_ns)) AS host_ns,
           avg(CASE WHEN w.begins IS NOT NULL THEN span(c.created_ns, w.begins) END) AS waiting_ns, sum(a.n) AS dependencies
    FROM commands c LEFT JOIN work w USING (thread, seq) LEFT JOIN after a ON a.process = c.process AND a.command = c.command
    GROUP BY ALL
)
SELECT share(device_ns, sum(device_ns) OVER ()) AS share, device_ns, calls, avg_ns, host_ns, waiting_ns, dependencies, name, source
FROM rows ORDER BY device_ns DESC NULLS LAST, host_ns DESC, name, source
