-- title: Ranks
-- about: each rank of a parallel job: how long it ran, its time in MPI, its kernels, its copies, its calls
-- column: rank number Rank
-- column: span_ns ns Ran (from the start of tracing to the last event)
-- column: mpi_ns ns MPI (time in its calls, of all threads, with the start and the end of MPI)
-- column: kernel_ns ns Kernels (on devices, or calls of OCCA kernels that run on the host)
-- column: kernels count Kernels run
-- column: copy_ns ns Memory (operations that move or set memory)
-- column: bytes bytes Bytes
-- column: calls count Calls
-- column: failed count Failed
-- column: processes count Processes
-- column: ended text Ended (how its last process ended; empty: it did not get to say)
-- column: cpus text Processors (that it may use; empty: not known)
-- column: name text Host
WITH ranks AS (
    SELECT rank, count(*) AS processes, max(end_ns) - min(start_ns) AS span_ns, arg_max(coalesce(exit, ''), start_ns) AS ended,
           arg_min(coalesce(cpus, ''), start_ns) AS cpus,
           string_agg(DISTINCT host, ', ' ORDER BY host) AS name
    FROM processes WHERE rank IS NOT NULL GROUP BY rank
),
kernels AS (
    SELECT p.rank, sum(k.ns) AS kernel_ns, count(*) AS kernels
    FROM (
        SELECT process, span(start_ns, end_ns) AS ns FROM activities WHERE kind = 'kernel'
        UNION ALL
        SELECT r.process, span(r.start_ns, r.end_ns) FROM kernel_runs r JOIN kernels k USING (kernel) WHERE host_mode(k.mode)
    ) k JOIN processes p USING (process) GROUP BY p.rank
),
copies AS (
    SELECT p.rank, sum(c.ns) AS copy_ns, sum(c.bytes) AS bytes
    FROM (
        SELECT process, span(start_ns, end_ns) AS ns, bytes FROM activities
        WHERE kind IN ('HtoD', 'DtoH', 'DtoD', 'HtoH', 'fill', 'map', 'unmap', 'migrate')
        UNION ALL
        SELECT process, span(start_ns, end_ns), bytes FROM occa_copies WHERE host_mode(mode)
    ) c JOIN processes p USING (process) GROUP BY p.rank
),
calls AS (
    SELECT p.rank, sum(s.calls) AS calls, sum(s.failed) AS failed, sum(s.total_ns) FILTER (s.api = 'mpi')::BIGINT AS mpi_ns
    FROM call_stats s JOIN processes p USING (process) GROUP BY p.rank
)
SELECT rank, span_ns, coalesce(mpi_ns, 0) AS mpi_ns, coalesce(kernel_ns, 0) AS kernel_ns, coalesce(kernels, 0) AS kernels, coalesce(copy_ns, 0) AS copy_ns,
       coalesce(bytes, 0) AS bytes, coalesce(calls, 0) AS calls, coalesce(failed, 0) AS failed, processes, ended, cpus, name
FROM ranks LEFT JOIN kernels USING (rank) LEFT JOIN copies USING (rank) LEFT JOIN calls USING (rank)
ORDER BY rank
