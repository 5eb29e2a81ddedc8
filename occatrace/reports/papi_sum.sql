-- title: Counters of PAPI by kernel and range
-- about: what --papi counted in calls of OCCA kernels (modes Serial and OpenMP) and in ranges, with the OpenMP teams that worked for them.
--   A range has in it what the ranges and kernels inside counted. Rate: by the time of those calls and ranges that were counted
-- empty: nothing was counted (occa_prof --papi EVENTS)
-- of: papi_counts
-- group: counter
-- column: total count Total
-- column: calls count Count (calls of the kernel, or times that the range was open)
-- column: avg number Avg
-- column: min count Min
-- column: max count Max
-- column: rate number Per second
-- column: counter text Event
-- column: kind text Kind
-- column: name text Kernel or range
-- column: source source Source
WITH what AS (
    SELECT r.thread, r.seq, 'kernel' AS kind, coalesce(k.name, '(unknown kernel)') AS name,
           coalesce(k.source || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END, '') AS source, span(r.start_ns, r.end_ns) AS ns
    FROM kernel_runs r LEFT JOIN kernels k USING (kernel)
    UNION ALL
    SELECT r.thread, r.seq, 'range', CASE WHEN r.domain != '' THEN r.domain || ' ' ELSE '' END || r.name, '', span(r.start_ns, r.end_ns)
    FROM ranges r WHERE r.end_ns IS NOT NULL AND r.kind != 'mark'
)
SELECT sum(value)::BIGINT AS total, count(*) AS calls, avg(value) AS avg, min(value) AS min, max(value) AS max,
       CASE WHEN sum(ns) > 0 THEN sum(value) * 1e9 / sum(ns) END AS rate, counter, kind, name, source
FROM papi_counts JOIN what USING (thread, seq)
GROUP BY counter, kind, name, source
ORDER BY counter, kind, total DESC, name, source
