-- title: Managed memory that the driver moved
-- about: pages that moved by themselves between host and devices (not by the program's copies), and faults, as reported by CUPTI;
--   faults are recorded in -m full only
-- of: managed_memory
-- share: of the time of all of them
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Count (of records: a block of pages that moved, a group of faults)
-- column: bytes bytes Bytes
-- column: avg_bytes bytes Avg bytes
-- column: max_bytes bytes Max bytes
-- column: faults count Faults
-- column: device text Device
-- column: name text Kind
WITH sums AS (
    SELECT m.kind AS name, coalesce(d.name, '') AS device, sum(span(start_ns, end_ns)) AS total, count(*) AS calls, sum(bytes) AS bytes,
           avg(bytes) AS avg_bytes, max(bytes) AS max_bytes, sum(count) AS faults
    FROM managed_memory m LEFT JOIN devices d USING (device) GROUP BY ALL
)
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, bytes, avg_bytes, max_bytes, faults, device, name
FROM sums ORDER BY total DESC, name, device
