-- title: CPU time by function
-- about: where threads spent their processor time, by samples of their stacks (--sample-stacks). Self is the time in the function
--   itself, Total with what it called. In is the traced call in which most of it passed (a wait that spins, a launch, a build).
--   Devices idle is the part during which no queue of the process had work running; Queues idle are those that had none for
--   more than half of it
-- of: stack_samples
-- counts: stack_samples
-- needs: calls
-- empty: no stacks were sampled (occa_prof --sample-stacks), or no thread used processor time
-- share: of the sampled time of all threads
-- column: share percent Time
-- column: self_ns ns Self
-- column: total_ns ns Total
-- column: samples count Samples (in the function itself)
-- column: in_call text In (the traced call)
-- column: idle percent Devices idle (during the time in the function and what it called)
-- column: idle_queues text Queues idle
-- column: name text Function
-- column: file source File
-- column: line count Line (of its own with most time)
WITH frames AS (
    SELECT process, path, frame, depth, max(depth) OVER (PARTITION BY process, path, frame) AS innermost, file, nullif(line, 0) AS line,
           CASE WHEN function != '' THEN function WHEN module != '' THEN regexp_extract(module, '[^/]*$') ELSE '(code without a file)' END AS name
    FROM joined_frames
),
-- Calls and work that begin before a moment and end after it are running then: the latest end so far tells.
ends AS (
    SELECT thread, start_ns, function, end_ns,
           max(end_ns) OVER w AS until, arg_max(function, end_ns) OVER w AS outermost
    FROM (SELECT thread, start_ns, end_ns, function FROM calls UNION ALL SELECT thread, start_ns, 18446744073709551615, function FROM unfinished)
    WINDOW w AS (PARTITION BY thread ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
work AS (
    SELECT queue, start_ns, max(end_ns) OVER (PARTITION BY queue ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS until
    FROM activities WHERE kind != 'marker' AND queue IS NOT NULL AND end_ns > start_ns
),
sampled AS (SELECT row_number() OVER () AS sample, process, thread, time_ns, cpu_ns, path, frame FROM stack_samples),
called AS (
    SELECT s.sample, CASE WHEN e.end_ns > s.time_ns THEN e.function WHEN e.until > s.time_ns THEN e.outermost END AS function
    FROM sampled s ASOF JOIN ends e ON e.thread = s.thread AND s.time_ns >= e.start_ns
),
asked AS (SELECT s.sample, s.time_ns, q.queue, q.id FROM sampled s JOIN queues q USING (process) WHERE q.queue IN (SELECT queue FROM work)),
queues_then AS (
    SELECT a.sample, a.id, coalesce(w.until, 0) <= a.time_ns AS idle
    FROM asked a ASOF LEFT JOIN work w ON w.queue = a.queue AND a.time_ns >= w.start_ns
),
idle_then AS (SELECT sample, bool_and(idle) AS idle FROM queues_then GROUP BY sample),
-- A function within itself counts once.
within AS (SELECT DISTINCT s.sample, s.cpu_ns, f.name, f.file FROM sampled s JOIN frames f USING (process, path, frame)),
totals AS (
    SELECT w.name, w.file, sum(w.cpu_ns) AS total, sum(w.cpu_ns) FILTER (i.idle) AS idle, sum(w.cpu_ns) FILTER (i.idle IS NOT NULL) AS told
    FROM within w LEFT JOIN idle_then i USING (sample) GROUP BY ALL
),
in_calls AS (
    SELECT name, file, arg_max(function, (total, function)) AS function FROM (
        SELECT w.name, w.file, coalesce(c.function, '') AS function, sum(w.cpu_ns) AS total
        FROM within w LEFT JOIN called c USING (sample) GROUP BY ALL
    ) GROUP BY ALL
),
idle_queues AS (
    SELECT name, file, string_agg(id, ', ' ORDER BY id) AS ids FROM (
        SELECT w.name, w.file, q.id, coalesce(sum(w.cpu_ns) FILTER (q.idle), 0) AS idle, sum(w.cpu_ns) AS total
        FROM within w JOIN queues_then q USING (sample) GROUP BY ALL
    ) WHERE idle * 2 > total GROUP BY ALL
),
own AS (
    SELECT name, file, sum(ns) AS self, sum(samples) AS samples, arg_max(line, (ns, -line::BIGINT)) AS line FROM (
        SELECT f.name, f.file, f.line, sum(s.cpu_ns) AS ns, count(*) AS samples
        FROM sampled s JOIN frames f USING (process, path, frame) WHERE f.depth = f.innermost GROUP BY ALL
    ) GROUP BY ALL
)
SELECT share(coalesce(self, 0), (SELECT sum(cpu_ns) FROM sampled)) AS share, coalesce(self, 0) AS self_ns, total AS total_ns,
       coalesce(samples, 0) AS samples, coalesce(c.function, '') AS in_call, CASE WHEN told > 0 THEN share(coalesce(t.idle, 0), told) END AS idle,
       coalesce(ids, '') AS idle_queues, name, file, line
FROM totals t JOIN in_calls c USING (name, file) LEFT JOIN own USING (name, file) LEFT JOIN idle_queues USING (name, file)
ORDER BY self_ns DESC, total_ns DESC, name, file
