-- title: Balance of the ranks
-- about: time of each rank in its own work, in MPI and on devices; its time is that between MPI_Init and
--   MPI_Finalize
-- share: of the rank's time
-- column: share percent Own work
-- column: span_ns ns Span
-- column: compute_ns ns Compute (outside of MPI; with several threads in MPI, at least this)
-- column: ratio number Compute by mean (over that of the mean rank: 1 is balanced, and so is a difference below 1 µs)
-- column: device_ns ns Device (time in which at least one piece of its work ran on a device; part of all the others)
-- column: mpi_ns ns MPI
-- column: waiting_ns ns In waiting calls (part of MPI: receives, waits, probes, barriers, fences and locks, which do nothing else; waits in other calls: wait_states)
-- column: sent bytes Sent (messages and one-sided transfers that it started)
-- column: received bytes Received
-- column: calls count Calls (of MPI)
-- column: name text Rank
-- column: host text Host
WITH joint AS (
    SELECT process, sum(calls) AS calls, sum(total_ns) AS total,
           sum(total_ns) FILTER (regexp_matches(function,
               '^MPI_(Wait|M?[Rr]ecv|M?[Pp]robe|Barrier|Win_(fence|wait|complete|lock|unlock|flush))')) AS waiting
    FROM call_stats
    WHERE api = 'mpi' AND function NOT IN ('MPI_Init', 'MPI_Init_thread', 'MPI_Finalize', 'MPI_Session_init', 'MPI_Session_finalize')
    GROUP BY process
),
devices_of AS (SELECT process AS key, start_ns AS s, greatest(start_ns, end_ns) AS e FROM activities),
traffic AS (
    SELECT process, sum(bytes) FILTER (kind IN ('send', 'put', 'accumulate')) AS sent, sum(bytes) FILTER (kind IN ('receive', 'get')) AS received
    FROM mpi_messages WHERE state IN ('complete', 'freed') GROUP BY process
),
rows AS (
    SELECT p.process, p.rank, p.host, p.pid,
           span(m.start_ns, coalesce(m.end_ns, p.end_ns))::BIGINT AS length,
           coalesce(j.total, 0) AS mpi, coalesce(j.waiting, 0) AS waiting, coalesce(j.calls, 0) AS calls
    FROM processes p JOIN mpi_ranks m USING (process) LEFT JOIN joint j USING (process)
),
work AS (SELECT *, greatest(length - mpi::BIGINT, 0) AS compute FROM rows)
SELECT share(compute, length) AS share, length AS span_ns, compute AS compute_ns,
       CASE WHEN avg(compute) OVER () > 0 THEN
           CASE WHEN is_imbalance(abs(compute - avg(compute) OVER ())) THEN compute / avg(compute) OVER () ELSE 1.0 END END AS ratio, coalesce(b.busy, 0) AS device_ns,
       mpi AS mpi_ns, waiting AS waiting_ns, coalesce(t.sent, 0) AS sent, coalesce(t.received, 0) AS received, calls,
       coalesce('rank ' || rank, 'pid ' || pid) AS name, host
FROM work w LEFT JOIN busy(devices_of) b ON b.key = w.process LEFT JOIN traffic t USING (process)
ORDER BY rank NULLS LAST, pid
