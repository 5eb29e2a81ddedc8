-- title: OCCA kernel calls
-- about: every call of an OCCA kernel in the order of time, with the device work it launched
-- column: start_ns ns Start (since the first call, range or work of the run)
-- column: call_ns ns Call (duration of the call on the host)
-- column: work_ns ns Work (sum of its device work; in Serial and OpenMP mode the call)
-- column: launches count Launches
-- column: thread text Thread (thread id)
-- column: mode text Mode
-- column: error text Error
-- column: name text Kernel
WITH work AS (
    SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns
    FROM activities WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY thread, run_seq
)
SELECT r.start_ns - run_zero() AS start_ns, span(r.start_ns, r.end_ns) AS call_ns,
       CASE WHEN host_mode(k.mode) THEN span(r.start_ns, r.end_ns) ELSE w.ns END AS work_ns, r.launches, t.tid AS thread,
       coalesce(k.mode, '') AS mode, coalesce(r.error, '') AS error, coalesce(k.name, '(unknown kernel)') AS name
FROM kernel_runs r LEFT JOIN kernels k USING (kernel) LEFT JOIN threads t ON t.thread = r.thread
LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq
ORDER BY r.start_ns, r.thread, r.seq
