-- title: OCCA kernel bandwidth (an upper bound: as if each memory argument were touched once)
-- about: bytes of the distinct memory arguments of each kernel call over its device time, in Serial and OpenMP mode over the
--   time of the call. The effective bandwidth is at most this, if no memory is touched twice; a kernel that uses a part of an
--   argument has less, one that goes over it again more
-- empty: no call of an OCCA kernel with memory arguments and a known time (at the level tally calls leave no events)
-- counts: kernel_runs
-- share: of the bytes of all these calls
-- column: share percent Bytes
-- column: gb_per_s number GB/s (10⁹ bytes per second, over the sum of the durations)
-- column: busy_gb_per_s number GB/s busy (over the time in which at least one ran: what overlapping calls reach together)
-- column: bytes_per_call bytes Each (bytes of one call's memory arguments, on average)
-- column: args number Objects (distinct memory objects of one call, on average)
-- column: calls count Calls
-- column: bytes bytes Total
-- column: total_ns ns Time
-- column: busy_ns ns Busy
-- column: mode text Mode
-- column: name text Kernel
-- column: source source Source (file and line)
WITH named AS (
    SELECT kernel, dense_rank() OVER (ORDER BY name, mode, source, line) AS key, name, mode,
           source || CASE WHEN line > 0 THEN ':' || line ELSE '' END AS source
    FROM kernels
),
groups AS (SELECT DISTINCT key, name, mode, source FROM named),
work AS (
    SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns
    FROM activities WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY thread, run_seq
),
runs AS (
    SELECT n.key, r.thread, r.seq, r.memory_args AS args, r.memory_bytes AS bytes, r.start_ns, r.end_ns, host_mode(n.mode) AS on_host,
           CASE WHEN host_mode(n.mode) THEN span(r.start_ns, r.end_ns) ELSE w.ns END AS ns
    FROM kernel_runs r JOIN named n USING (kernel) LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq
    WHERE r.error IS NULL AND r.memory_args > 0
),
intervals AS (
    SELECT key, start_ns AS s, end_ns AS e FROM runs WHERE on_host
    UNION ALL
    SELECT r.key, a.start_ns, a.end_ns FROM runs r JOIN activities a ON a.thread = r.thread AND a.run_seq = r.seq
    WHERE NOT r.on_host AND a.kind = 'kernel'
),
sums AS (
    SELECT key, count(*) AS calls, sum(bytes) AS bytes, avg(args) AS args, sum(ns) AS ns FROM runs WHERE ns IS NOT NULL GROUP BY key
)
SELECT share(bytes, sum(bytes) OVER ()) AS share, CASE WHEN ns > 0 THEN bytes / ns END AS gb_per_s,
       CASE WHEN busy > 0 THEN bytes / busy END AS busy_gb_per_s, bytes / calls AS bytes_per_call, args, calls, bytes, ns AS total_ns,
       busy AS busy_ns, mode, name, source
FROM sums JOIN groups USING (key) LEFT JOIN busy(intervals) USING (key) ORDER BY bytes DESC, name, key
