-- title: MPI traffic between ranks
-- about: messages and one-sided transfers from rank to rank, as the sender (or the origin of the one-sided transfer) saw them; where the
--   sender was not traced, as the receiver did; collectives are not in it
-- share: of the bytes between ranks
-- plot: map source target total
-- column: share percent Bytes
-- column: total bytes Total
-- column: count count Messages
-- column: avg bytes Avg
-- column: min bytes Min
-- column: max bytes Max
-- column: time_ns ns Time (sum, from the start to the completion)
-- column: source count From (rank)
-- column: target count To (rank)
-- column: name text Pair
WITH ends AS (
    SELECT p.rank, m.partner, m.kind, m.bytes, span(m.start_ns, m.end_ns) AS took
    FROM mpi_messages m JOIN processes p USING (process)
    WHERE m.state IN ('complete', 'freed') AND m.partner IS NOT NULL AND p.rank IS NOT NULL AND m.kind NOT IN ('collective', 'other')
),
ways AS (
    SELECT CASE WHEN kind IN ('get', 'receive') THEN partner ELSE rank END AS source,
           CASE WHEN kind IN ('get', 'receive') THEN rank ELSE partner END AS target, bytes, took
    FROM ends
    WHERE kind != 'receive' OR partner NOT IN (SELECT rank FROM processes WHERE rank IS NOT NULL)
)
SELECT share(sum(bytes), sum(sum(bytes)) OVER ()) AS share, sum(bytes) AS total, count(*) AS count, avg(bytes) AS avg,
       min(bytes) AS min, max(bytes) AS max, sum(took) AS time_ns, source, target, source || ' → ' || target AS name
FROM ways GROUP BY source, target
ORDER BY source, target
