-- title: OCCA memory never freed
-- about: allocations by OCCA that were not freed before the end of the program
-- needs: calls
-- column: bytes bytes Bytes
-- column: at_ns ns Allocated (since the first call or work of the run)
-- column: handle text Memory
-- column: mode text Mode
-- column: thread text Thread
-- column: name text By
WITH freed AS (
    SELECT a.*, f.start_ns AS freed_ns
    FROM occa_allocations a ASOF LEFT JOIN occa_frees f ON f.process = a.process AND f.handle = a.handle AND f.start_ns >= a.end_ns
)
SELECT bytes, f.end_ns - run_zero() AS at_ns, printf('0x%x', handle) AS handle, f.mode AS mode,
       p.pid || ':' || t.tid AS thread, function AS name
FROM freed f JOIN processes p ON p.process = f.process JOIN threads t ON t.thread = f.thread
WHERE freed_ns IS NULL ORDER BY bytes DESC, at_ns
