-- title: Lines of the program
-- about: recorded calls, and the device work, copies and allocations that they caused, by the line of the program that made the
--   outermost call: below a call of OCCA that of the OCCA call. Device is the time of the work that was launched there, for OCCA's
--   Serial and OpenMP modes that of the calls
-- of: call_site_stats
-- counts: call_site_stats activities kernel_runs occa_copies allocations
-- empty: no calls recorded one by one (at the level tally none are), or the run is of a version before call sites
-- share: of the device time of all lines
-- column: share percent Time
-- column: device_ns ns Device
-- column: calls count Calls (that the line itself makes)
-- column: host_ns ns Host (in these calls)
-- column: launches count Launches
-- column: bytes bytes Moved (by device work, OCCA's copies and MPI)
-- column: allocations count Allocations
-- column: allocated_bytes bytes Allocated
-- column: in_use_bytes bytes Never freed
-- column: name text Function (that contains the line)
-- column: file source File
-- column: line count Line
-- column: why text Why no line
WITH lines AS (
    SELECT process, site, dense_rank() OVER (ORDER BY function, file, line, CASE WHEN file = '' THEN module END, CASE WHEN file = '' THEN "offset" END) AS key,
           CASE WHEN function != '' THEN function ELSE module_place(module, "offset") END AS name,
           CASE WHEN file != '' THEN file ELSE module_place(module, "offset") END AS file, nullif(line, 0) AS line, why
    FROM call_sites
),
named AS (SELECT key, any_value(name) AS name, any_value(file) AS file, any_value(line) AS line, any_value(why) AS why FROM lines GROUP BY key),
called AS (
    -- Of an outer call and those within it, the outer one takes longest.
    SELECT key, arg_max(calls, total) AS calls, max(total) AS host, sum(bytes) FILTER (api = 'mpi') AS bytes
    FROM (
        SELECT l.key, s.api, sum(s.calls) AS calls, sum(s.total_ns) AS total, sum(s.bytes) AS bytes
        FROM call_site_stats s JOIN lines l USING (process, site) GROUP BY ALL
    ) GROUP BY key
),
work AS (
    SELECT process, thread, seq, kind, span(start_ns, end_ns) AS v, bytes FROM activities
    UNION ALL
    SELECT r.process, r.thread, r.seq, 'kernel', span(r.start_ns, r.end_ns), 0 FROM kernel_runs r JOIN kernels USING (kernel) WHERE host_mode(mode)
    UNION ALL
    SELECT process, thread, seq, kind, span(start_ns, end_ns), bytes FROM occa_copies WHERE host_mode(mode)
),
done AS (
    SELECT l.key, sum(w.v) AS device, count(*) FILTER (w.kind = 'kernel') AS launches, sum(w.bytes) FILTER (w.kind != 'kernel') AS bytes
    FROM work w JOIN call_places p USING (thread, seq) JOIN lines l ON l.process = p.process AND l.site = p.site GROUP BY l.key
),
kept AS (
    SELECT l.key, count(*) AS allocations, sum(a.bytes) AS allocated, coalesce(sum(a.bytes) FILTER (a.end_ns IS NULL), 0) AS in_use
    FROM allocations a JOIN call_places p USING (thread, seq) JOIN lines l ON l.process = p.process AND l.site = p.site
    -- What OCCA's own stands for, by its mode, counts once.
    LEFT JOIN allocations o ON o.api = 'occa' AND o.thread = a.thread AND o.seq = a.scope_seq
    WHERE a.kind NOT IN ('slice', 'wrapped') AND (a.api = 'occa' OR o.seq IS NULL) GROUP BY l.key
)
SELECT share(device, sum(device) OVER ()) AS share, device AS device_ns, calls, host AS host_ns, coalesce(launches, 0) AS launches,
       coalesce(d.bytes, 0) + coalesce(c.bytes, 0) AS bytes, coalesce(allocations, 0) AS allocations, coalesce(allocated, 0) AS allocated_bytes,
       coalesce(in_use, 0) AS in_use_bytes, name, file, line, why
FROM called c JOIN named USING (key) LEFT JOIN done d USING (key) LEFT JOIN kept USING (key)
ORDER BY device DESC NULLS LAST, host DESC, calls DESC, file, line, name
