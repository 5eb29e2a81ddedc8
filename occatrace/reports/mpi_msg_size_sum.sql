-- title: MPI messages by size
-- about: messages, one-sided transfers and collectives by kind and size, each where it is sent and where it is received
-- share: of the bytes of this kind
-- plot: bars range total name
-- column: share percent Bytes
-- column: total bytes Total
-- column: count count Messages
-- column: avg bytes Avg
-- column: med bytes Med
-- column: min bytes Min
-- column: max bytes Max
-- column: stddev bytes StdDev
-- column: time_ns ns Time (sum, from the start to the completion)
-- column: rate number MB/s (bytes by that time)
-- column: device count On device (with a buffer in device memory, as far as that can be known)
-- column: name text Kind
-- column: range text Size (in powers of eight)
WITH moved AS (
    SELECT *, CASE WHEN bytes = 0 THEN 0 WHEN bytes <= 256 THEN 1 ELSE 2 + _msb((bytes - 1) // 256) // 3 END AS class
    FROM mpi_messages WHERE state = 'complete' AND NOT nobody
),
groups AS (SELECT kind, class, row_number() OVER (ORDER BY kind, class) AS key FROM (SELECT DISTINCT kind, class FROM moved)),
samples AS (SELECT key, bytes AS v FROM moved JOIN groups USING (kind, class)),
times AS (
    SELECT key, sum(span(start_ns, end_ns)) AS took, count(*) FILTER (on_device) AS device, min(bytes) AS least, max(bytes) AS most
    FROM moved JOIN groups USING (kind, class) GROUP BY key
)
SELECT share(total, sum(total) OVER (PARTITION BY kind)) AS share, total, calls AS count, mean AS avg, median AS med,
       lowest AS min, highest AS max, deviation AS stddev, took AS time_ns,
       CASE WHEN took > 0 THEN 1000.0 * total / took END AS rate, device, kind AS name,
       ['0 B', '1 to 256 B', 'up to 2 KiB', 'up to 16 KiB', 'up to 128 KiB', 'up to 1 MiB', 'up to 8 MiB', 'up to 64 MiB',
        'up to 512 MiB', 'up to 4 GiB', 'over 4 GiB'][least(class, 10) + 1] AS range
FROM statistics(samples) JOIN times USING (key) JOIN groups USING (key)
ORDER BY sum(total) OVER (PARTITION BY kind) DESC, kind, class
