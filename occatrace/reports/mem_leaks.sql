-- title: Memory never freed
-- about: allocations that were not freed before the end of the program, and in which call, scope and range they were made. A
--   buffer under an object of OCCA is left out where that object is listed itself; parts (slices, sub-buffers) count no bytes.
-- empty: no allocation was recorded (at the level tally calls leave no events)
-- counts: allocations
-- column: bytes bytes Bytes
-- column: at_ns ns Allocated (since the first call, range or work of the run)
-- column: handle text Memory (its handle or address)
-- column: kind text Kind
-- column: device text Device or mode
-- column: thread text Thread (process:thread)
-- column: scope text Within (the OCCA call around it, by its kernel where it is a kernel call)
-- column: range text Range (the program's innermost annotation around it in its thread)
-- column: name text By
-- column: caller source Line (of the program, that made the outermost call)
WITH left_over AS (SELECT * FROM allocations WHERE end_ns IS NULL),
ranged AS (
    SELECT l.thread, l.seq, l.handle, arg_max(r.name, r.start_ns) AS name
    FROM left_over l JOIN ranges r ON r.thread = l.thread AND r.kind = 'push' AND r.start_ns <= l.start_ns
        AND (r.end_ns IS NULL OR r.end_ns >= l.start_ns)
    GROUP BY ALL
)
SELECT l.bytes, l.start_ns - run_zero() AS at_ns, printf('0x%x', l.handle) AS handle, l.kind,
       CASE l.api WHEN 'occa' THEN coalesce(l.mode, '') ELSE coalesce(d.name, '') END AS device, p.pid || ':' || t.tid AS thread,
       CASE WHEN l.scope_seq IS NULL THEN '' ELSE coalesce(o.function, k.name, 'a call of OCCA') END AS scope,
       coalesce(r.name, '') AS range, l.function AS name, coalesce(c.source, '') AS caller
FROM left_over l JOIN processes p ON p.process = l.process JOIN threads t ON t.thread = l.thread
LEFT JOIN devices d ON d.device = l.device
LEFT JOIN allocations o ON o.thread = l.thread AND o.seq = l.scope_seq AND o.api = 'occa'
LEFT JOIN kernel_runs u ON u.thread = l.thread AND u.seq = l.scope_seq LEFT JOIN kernels k ON k.kernel = u.kernel
LEFT JOIN ranged r ON r.thread = l.thread AND r.seq = l.seq AND r.handle = l.handle
LEFT JOIN call_lines c ON c.thread = l.thread AND c.seq = l.seq
WHERE o.handle IS NULL OR o.end_ns IS NOT NULL
ORDER BY l.bytes DESC, at_ns, handle
