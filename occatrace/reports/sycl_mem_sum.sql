-- title: SYCL allocations by line
-- about: unified memory by the line of the program that allocated it
-- share: of the bytes of all these allocations
-- of: sycl_calls
-- column: share percent Bytes
-- column: bytes bytes Total
-- column: calls count Allocations
-- column: never_freed bytes Never freed
-- column: host_ns ns Host (time in the allocating calls)
-- column: kind text Kind
-- column: function text Function
-- column: source source Source (file and line)
WITH made AS (SELECT * FROM sycl_calls WHERE operation = 'malloc'),
rows AS (
    SELECT a.kind, c.function, c.source, sum(a.bytes) AS bytes, count(*) AS calls,
           nullif(coalesce(sum(a.bytes) FILTER (a.end_ns IS NULL), 0), 0) AS never_freed, sum(span(c.start_ns, c.end_ns)) AS host_ns
    FROM allocations a ASOF JOIN made c ON a.thread = c.thread AND a.seq > c.seq
    WHERE a.start_ns <= c.end_ns GROUP BY ALL
)
SELECT share(bytes, sum(bytes) OVER ()) AS share, bytes, calls, never_freed, host_ns, kind, function, source
FROM rows ORDER BY bytes DESC, kind, function, source
