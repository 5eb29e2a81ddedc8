-- title: Calls in time order
-- about: every recorded call (occa_prof trace shows them with their arguments)
-- needs: calls
-- column: start_ns ns Start (since the first call, range or work of the run)
-- column: duration_ns ns Duration
-- column: pid text Process
-- column: tid text Thread
-- column: bytes bytes Bytes
-- column: error text Error
-- column: api text API
-- column: name text Function
SELECT c.start_ns - run_zero() AS start_ns, span(c.start_ns, c.end_ns) AS duration_ns,
       p.pid, t.tid, c.bytes, coalesce(c.error, '') AS error, c.api, c.function AS name
FROM calls c JOIN threads t USING (thread) JOIN processes p ON p.process = c.process
ORDER BY c.start_ns, c.thread, c.seq
