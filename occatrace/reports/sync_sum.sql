-- title: Waits for devices
-- about: which threads and queues waited for the work of which queue, as reported by CUPTI
-- of: waits
-- share: of the time of all waits
-- column: share percent Time
-- column: total_ns ns Total
-- column: calls count Count
-- column: avg_ns ns Avg
-- column: med_ns ns Med
-- column: min_ns ns Min
-- column: max_ns ns Max
-- column: stddev_ns ns StdDev
-- column: waiting text Who waits (a thread, or a queue)
-- column: queue text For the work of (a queue; empty: all of the context, or not known)
-- column: name text For
-- column: caller source Line (of the program, that waits; of several the one that waits longest, and how many others)
WITH named AS (
    SELECT w.kind AS name, coalesce('queue ' || v.id, nullif(t.name, ''), 'thread ' || t.tid, '') AS waiting,
           coalesce('queue ' || q.id, '') AS queue, w.start_ns, w.end_ns, w.thread, w.seq
    FROM waits w LEFT JOIN queues q ON q.queue = w.queue LEFT JOIN queues v ON v.queue = w.waiting_queue LEFT JOIN threads t ON t.thread = w.thread
),
groups AS (SELECT name, waiting, queue, row_number() OVER (ORDER BY name, waiting, queue) AS key FROM (SELECT DISTINCT name, waiting, queue FROM named)),
samples AS (SELECT key, span(start_ns, end_ns) AS v FROM named JOIN groups USING (name, waiting, queue)),
called AS (
    SELECT key, main_line(source, ns) AS caller
    FROM (
        SELECT g.key, c.source, sum(span(n.start_ns, n.end_ns)) AS ns
        FROM named n JOIN groups g USING (name, waiting, queue) JOIN call_lines c ON c.thread = n.thread AND c.seq = n.seq GROUP BY ALL
    ) GROUP BY key
)
SELECT share(total, sum(total) OVER ()) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns, lowest AS min_ns, highest AS max_ns,
       deviation AS stddev_ns, waiting, queue, name, coalesce(caller, '') AS caller
FROM statistics(samples) JOIN groups USING (key) LEFT JOIN called USING (key) ORDER BY total DESC, name, waiting, queue
