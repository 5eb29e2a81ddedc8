-- title: Python lines
-- about: launches, copies, allocations, builds, waits and MPI calls by the line of the program's own code that caused them
--   (--python lines): the innermost one (docs/python-programs.md). Device is the time of the work that they launched, for OCCA's Serial and OpenMP modes
--   that of the kernel calls
-- empty: no lines recorded (occa_prof --python lines)
-- column: device_ns ns Device
-- column: calls count Calls
-- column: launches count Launches
-- column: copies count Copies
-- column: bytes bytes Moved
-- column: allocations count Allocations
-- column: allocated_bytes bytes Allocated
-- column: in_use_bytes bytes Never freed
-- column: name text Function
-- column: source source Line
-- column: through text Through (the innermost line, where that is in a package; the most frequent one)
WITH called AS (SELECT l.thread, l.seq, p.function, p.source, p.through FROM python_lines l JOIN own_lines(python_frames) p ON p.process = l.process AND p.leaf = l.frame),
work AS (
    SELECT thread, seq, kind, span(start_ns, end_ns) AS v, bytes FROM activities
    UNION ALL
    SELECT r.thread, r.seq, 'kernel', span(r.start_ns, r.end_ns), 0 FROM kernel_runs r JOIN kernels USING (kernel) WHERE host_mode(mode)
    UNION ALL
    SELECT thread, seq, kind, span(start_ns, end_ns), bytes FROM occa_copies WHERE host_mode(mode)
),
done AS (
    SELECT c.function, c.source, sum(v) AS device, count(*) FILTER (w.kind = 'kernel') AS launches,
           count(*) FILTER (w.kind IN ('HtoD', 'DtoH', 'DtoD', 'HtoH', 'fill', 'map', 'unmap', 'migrate')) AS copies, sum(w.bytes) FILTER (w.kind != 'kernel') AS bytes
    FROM called c JOIN work w USING (thread, seq) GROUP BY ALL
),
kept AS (
    SELECT c.function, c.source, count(*) AS allocations, sum(a.bytes) AS allocated, coalesce(sum(a.bytes) FILTER (a.end_ns IS NULL), 0) AS in_use
    FROM called c JOIN allocations a USING (thread, seq)
    -- What OCCA's own stands for, by its mode, counts once.
    LEFT JOIN allocations o ON o.api = 'occa' AND o.thread = a.thread AND o.seq = a.scope_seq
    WHERE a.kind NOT IN ('slice', 'wrapped') AND o.seq IS NULL GROUP BY ALL
),
made AS (SELECT function, source, coalesce(mode(through) FILTER (through != ''), '') AS through, count(*) AS calls FROM called GROUP BY function, source)
SELECT device AS device_ns, calls, coalesce(launches, 0) AS launches, coalesce(copies, 0) AS copies, bytes, coalesce(allocations, 0) AS allocations,
       allocated AS allocated_bytes, in_use AS in_use_bytes, function AS name, source, through
FROM made LEFT JOIN done USING (function, source) LEFT JOIN kept USING (function, source)
ORDER BY device DESC NULLS LAST, calls DESC, source, name
