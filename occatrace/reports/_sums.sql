-- What the reports of the summary add up: one block for each kind of value. `reports/sums.py` makes of it statistics by key, from
-- the tables of a run or from merged parts, and the reports that name it (`-- sums:`) read `NAME_sums` without knowing which.
-- Columns: process; the keys (texts, never NULL); what is `joined` in their place, as it is quicker; n (1; 0: only a part of another value); v (the value; NULL: not known); with
-- `busy`, s and e, when it ran; and what is `added`, the `least` or the `most` of its key. With `median`, values have a histogram, too.
-- A block with `given` is used as it is, by its name: statistics of what has no single values; partial.py has them of merged parts.

-- sums: occa
-- keys: name mode source
-- joined: id
-- median: yes
-- added: failed
-- busy: yes
WITH named AS (
    SELECT kernel, name, mode, source || CASE WHEN line > 0 THEN ':' || line ELSE '' END AS source,
           dense_rank() OVER (ORDER BY name, mode, source, line) AS id
    FROM kernels
),
work AS (
    SELECT thread, run_seq, sum(span(start_ns, end_ns)) AS ns FROM activities
    WHERE kind = 'kernel' AND run_seq IS NOT NULL GROUP BY thread, run_seq
)
SELECT r.process, coalesce(n.name, '(unknown kernel)') AS name, coalesce(n.mode, '') AS mode, coalesce(n.source, '') AS source,
       coalesce(n.id, 0) AS id, 1 AS n, CASE WHEN host_mode(n.mode) THEN span(r.start_ns, r.end_ns) ELSE w.ns END AS v,
       CASE WHEN host_mode(n.mode) THEN r.start_ns END AS s, CASE WHEN host_mode(n.mode) THEN r.end_ns END AS e,
       (r.error IS NOT NULL)::INTEGER AS failed
FROM kernel_runs r LEFT JOIN named n USING (kernel) LEFT JOIN work w ON w.thread = r.thread AND w.run_seq = r.seq
UNION ALL  -- the busy time of an OCCA kernel on a device is that of its launches
SELECT a.process, n.name, n.mode, n.source, n.id, 0, NULL, a.start_ns, a.end_ns, 0
FROM activities a JOIN named n USING (kernel) WHERE a.kind = 'kernel';

-- sums: launched
-- keys: name mode source parent
-- joined: name id
-- median: yes
-- added: failed
-- busy: yes
WITH named AS (
    SELECT kernel, name, mode, source || CASE WHEN line > 0 THEN ':' || line ELSE '' END AS source,
           dense_rank() OVER (ORDER BY name, mode, source, line) AS id
    FROM kernels
)
SELECT a.process, coalesce(a.name, '(unknown kernel)') AS name, n.mode, n.source, n.name AS parent, n.id, 1 AS n,
       span(a.start_ns, a.end_ns) AS v, a.start_ns AS s, a.end_ns AS e, coalesce(a.status < 0, false)::INTEGER AS failed
FROM activities a JOIN named n USING (kernel) WHERE a.kind = 'kernel';

-- sums: gpu
-- keys: name device
-- median: yes
-- added: failed
-- busy: yes
SELECT a.process, coalesce(a.name, '(unknown kernel)') AS name, coalesce(d.name, '') AS device, 1 AS n, span(a.start_ns, a.end_ns) AS v,
       a.start_ns AS s, a.end_ns AS e, coalesce(a.status < 0, false)::INTEGER AS failed
FROM activities a LEFT JOIN devices d USING (device) WHERE a.kind = 'kernel';

-- sums: memory
-- keys: name mode
-- median: yes
-- added: failed
-- busy: yes
SELECT o.process, g.name, g.mode, 1 AS n, span(o.start_ns, o.end_ns) AS v, o.start_ns AS s, o.end_ns AS e,
       coalesce(o.failed, false)::INTEGER AS failed
FROM memory_operations o JOIN memory_groups g USING (key);

-- sums: size
-- keys: name mode
-- median: yes
SELECT o.process, g.name, g.mode, 1 AS n, o.bytes AS v
FROM memory_operations o JOIN memory_groups g USING (key) WHERE NOT o.failed;

-- sums: region
-- keys: name source kind inside kernel
-- median: yes
-- added: barrier_ns mutex_ns wait_ns tasks task_ns unbalanced slowest
-- least: fewest
-- most: largest
WITH parts AS (
    SELECT region_thread AS thread, region_seq AS seq, sum(barrier_ns + join_ns) AS barrier_ns, sum(mutex_ns) AS mutex_ns,
           sum(wait_ns) AS wait_ns, sum(tasks) AS tasks, sum(task_ns) AS task_ns, max(work) - avg(work) AS unbalanced,
           max(work) AS slowest
    FROM (
        SELECT *, greatest(span(start_ns, end_ns)::BIGINT + late_ns::BIGINT - (barrier_ns + wait_ns + mutex_ns)::BIGINT, 0) AS work
        FROM omp_threads
    )
    GROUP BY ALL
)
SELECT r.process, coalesce(r.function, '') AS name,
       CASE WHEN r.source != '' OR k.source IS NULL THEN coalesce(r.source, '')
            ELSE k.source || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END END AS source,
       r.kind, CASE WHEN r.target_seq IS NOT NULL THEN ' in target' WHEN r.depth > 0 THEN ' nested' ELSE '' END AS inside,
       coalesce(k.name, '') AS kernel, 1 AS n, span(r.start_ns, r.end_ns) AS v, p.barrier_ns, p.mutex_ns, p.wait_ns, p.tasks,
       p.task_ns, p.unbalanced, p.slowest, r.threads AS fewest, r.threads AS largest
FROM omp_regions r LEFT JOIN kernels k USING (kernel) LEFT JOIN parts p ON p.thread = r.thread AND p.seq = r.seq;

-- sums: target
-- keys: name function source device parent parent_device
-- median: yes
-- added: bytes mapped_to mapped_from
SELECT o.process, o.operation AS name, coalesce(CASE WHEN c.seq IS NULL THEN o.function ELSE c.function END, '') AS function,
       coalesce(CASE WHEN c.seq IS NULL THEN o.source ELSE c.source END, '') AS source, coalesce(o.device_num::VARCHAR, '') AS device,
       coalesce(c.operation, '') AS parent, coalesce(c.device_num::VARCHAR, '') AS parent_device, 1 AS n,
       span(o.start_ns, o.end_ns) AS v, o.bytes, o.mapped_to, o.mapped_from
FROM omp_targets o
LEFT JOIN omp_targets c ON c.thread = o.thread AND c.seq = o.target_seq AND o.operation NOT LIKE 'target%';

-- sums: command
-- keys: name source
-- added: host_ns waiting_ns waiting dependencies
WITH commands AS (SELECT * FROM sycl_calls WHERE operation = 'submit'),
work AS (
    SELECT c.thread, c.seq, sum(span(a.start_ns, a.end_ns)) AS ns, min(a.start_ns) AS begins,
           max(a.name) FILTER (a.kind = 'kernel') AS kernel
    FROM activities a ASOF JOIN commands c ON a.thread = c.thread AND a.seq > c.seq
    WHERE a.seq <= c.last_seq GROUP BY ALL
),
after AS (SELECT process, command, count(*) AS n FROM sycl_dependencies GROUP BY ALL)
SELECT c.process, coalesce(w.kernel, c.name, '') AS name, coalesce(c.source, '') AS source, 1 AS n, w.ns AS v,
       span(c.start_ns, c.end_ns) AS host_ns, CASE WHEN w.begins IS NOT NULL THEN span(c.created_ns, w.begins) END AS waiting_ns,
       (w.begins IS NOT NULL)::INTEGER AS waiting, a.n AS dependencies
FROM commands c LEFT JOIN work w USING (thread, seq) LEFT JOIN after a ON a.process = c.process AND a.command = c.command;

-- sums: range
-- keys: api domain name kind
-- median: yes
-- added: open
-- busy: yes
SELECT r.process, r.api, r.domain, r.name, r.kind, 1 AS n,
       CASE WHEN r.kind != 'mark' THEN span(r.start_ns, coalesce(r.end_ns, t.end_ns)) END AS v, r.start_ns AS s,
       coalesce(r.end_ns, t.end_ns) AS e, (r.end_ns IS NULL)::INTEGER AS open
FROM ranges r JOIN threads t USING (thread);

-- sums: work
-- keys: kind
SELECT process, 'device' AS kind, 1 AS n, span(start_ns, end_ns) AS v FROM activities WHERE kind != 'marker'
UNION ALL
SELECT r.process, 'device', 1, span(r.start_ns, r.end_ns) FROM kernel_runs r JOIN kernels k USING (kernel) WHERE host_mode(k.mode);

-- sums: projected
-- keys: api domain name
-- added: ranges range_ns projected_ns kernels copies bytes
-- busy: yes
WITH work AS (
    SELECT row_number() OVER () AS piece, w.*
    FROM (
        SELECT process, thread, seq, coalesce(nullif(queued_ns, 0), start_ns) AS launched, start_ns, end_ns, bytes, kind = 'kernel' AS kernel
        FROM activities WHERE kind != 'marker'
        UNION ALL
        SELECT r.process, r.thread, r.seq, r.start_ns, r.start_ns, r.end_ns, 0, true
        FROM kernel_runs r JOIN kernels k USING (kernel) WHERE host_mode(k.mode)
    ) w
),
numbered AS (
    SELECT row_number() OVER () AS range, r.*, coalesce(r.end_ns, t.end_ns) AS until,
           -- Calls take their numbers at entry; of a begin that was not recorded all numbers up to its end count.
           coalesce(r.seq, 0) AS from_seq, CASE WHEN r.end_thread = r.thread THEN r.end_seq END AS to_seq
    FROM ranges r JOIN threads t USING (thread) WHERE r.kind != 'mark'
),
-- Pushed ranges of one depth do not overlap in a thread: for each piece and depth there is at most one, the last begun.
levels AS (SELECT DISTINCT thread, api, domain, depth FROM numbered WHERE kind = 'push'),
candidates AS (SELECT w.piece, w.seq, l.* FROM work w JOIN levels l USING (thread)),
pushed AS (SELECT * FROM numbered WHERE kind = 'push'),
inside AS (
    SELECT c.piece, p.range
    FROM candidates c ASOF JOIN pushed p
    ON c.thread = p.thread AND c.api = p.api AND c.domain = p.domain AND c.depth = p.depth AND c.seq >= p.from_seq
    WHERE p.to_seq IS NULL OR c.seq < p.to_seq
    UNION ALL
    SELECT w.piece, r.range FROM numbered r JOIN work w
    ON w.process = r.process AND w.launched >= r.start_ns AND w.launched < r.until WHERE r.kind = 'start'
),
projected AS (
    SELECT range, min(w.start_ns) AS first, max(greatest(w.start_ns, w.end_ns)) AS last
    FROM inside JOIN work w USING (piece) GROUP BY range
),
-- Two ranges of one name, one in the other, have a piece twice; it is work once.
distinct_work AS (SELECT DISTINCT r.api, r.domain, r.name, piece FROM inside JOIN numbered r USING (range))
SELECT w.process, d.api, d.domain, d.name, 1 AS n, span(w.start_ns, greatest(w.start_ns, w.end_ns)) AS v, w.start_ns AS s,
       greatest(w.start_ns, w.end_ns) AS e, 0 AS ranges, 0 AS range_ns, 0 AS projected_ns, w.kernel::INTEGER AS kernels,
       (NOT w.kernel)::INTEGER AS copies, w.bytes
FROM distinct_work d JOIN work w USING (piece)
UNION ALL
SELECT r.process, r.api, r.domain, r.name, 0, NULL, NULL, NULL, 1, span(r.start_ns, r.until), coalesce(span(p.first, p.last), 0), 0, 0, 0
FROM numbered r LEFT JOIN projected p USING (range);

-- sums: counted
-- keys: counter kind name source
-- added: ns
WITH what AS (
    SELECT r.process, r.thread, r.seq, 'kernel' AS kind, coalesce(k.name, '(unknown kernel)') AS name,
           coalesce(k.source || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END, '') AS source, span(r.start_ns, r.end_ns) AS ns
    FROM kernel_runs r LEFT JOIN kernels k USING (kernel)
    UNION ALL
    SELECT r.process, r.thread, r.seq, 'range', CASE WHEN r.domain != '' THEN r.domain || ' ' ELSE '' END || r.name, '',
           span(r.start_ns, r.end_ns)
    FROM ranges r WHERE r.end_ns IS NOT NULL AND r.kind != 'mark'
)
SELECT w.process, c.counter, w.kind, w.name, w.source, 1 AS n, c.value AS v, w.ns
FROM papi_counts c JOIN what w USING (thread, seq);

-- sums: memory_callers
-- given: yes
-- The line that makes most of their time, and the one that moves most of their bytes, and how many others there are.
SELECT name, mode, main_line(source, ns) AS by_time, main_line(source, bytes) AS by_bytes
FROM (SELECT key, source, sum(ns) AS ns, sum(bytes) AS bytes FROM memory_lines GROUP BY ALL) JOIN memory_groups USING (key)
GROUP BY name, mode;

-- sums: call_sums
-- given: yes
-- Calls per function of the whole run, from events and tallies alike.
WITH functions AS (
    SELECT api, function, row_number() OVER (ORDER BY api, function) AS key
    FROM (SELECT DISTINCT api, function FROM call_stats WHERE calls > 0)
),
stats AS (SELECT f.key, c.* FROM call_stats c JOIN functions f USING (api, function) WHERE c.calls > 0),
hist AS (
    SELECT f.key, h.value_ns AS value, sum(h.calls) AS n FROM call_hist h JOIN functions f USING (api, function) GROUP BY ALL
),
sums AS (
    SELECT key, sum(calls) AS n, sum(failed) AS failed, sum(total_ns) AS total, sum(total_ns) / sum(calls) AS mean,
           sum(m2) AS within, sum(bytes) AS bytes, min(min_ns) AS lowest, max(max_ns) AS highest
    FROM stats GROUP BY key
),
between_threads AS (
    SELECT s.key, sum(s.calls * (s.total_ns / s.calls - t.mean) ** 2) AS spread FROM stats s JOIN sums t USING (key) GROUP BY s.key
)
SELECT f.api, f.function AS name, n AS calls, total, mean, least(greatest(median, lowest), highest) AS median, lowest, highest,
       CASE WHEN n > 1 THEN sqrt((within + spread) / (n - 1)) ELSE 0 END AS deviation, bytes, failed
FROM sums JOIN functions f USING (key) LEFT JOIN medians(hist) USING (key) LEFT JOIN between_threads USING (key);

-- sums: call_causes
-- given: yes
-- Why calls failed, and how often.
SELECT api, function AS name, error, count(*) AS n FROM failures GROUP BY ALL;

-- sums: api_rows
-- given: yes
-- Their rows in reports, from tables and from merged parts alike.
WITH causes AS (
    SELECT api, name, string_agg(error || CASE WHEN n > 1 THEN ' ×' || n ELSE '' END, ', ' ORDER BY n DESC, error) AS errors
    FROM call_causes GROUP BY api, name
)
SELECT share(total, sum(total) OVER (PARTITION BY api)) AS share, total AS total_ns, calls, mean AS avg_ns, median AS med_ns,
       lowest AS min_ns, highest AS max_ns, deviation AS stddev_ns, bytes, failed, api, name, coalesce(errors, '') AS errors
FROM call_sums LEFT JOIN causes USING (api, name)
ORDER BY sum(total) OVER (PARTITION BY api) DESC, api, total DESC, name;

-- sums: balance_sums
-- given: yes
-- Of each thing the rank with least and the one with most, those included that have none; size: how many ranks there are.
WITH ranks AS (SELECT DISTINCT rank FROM processes WHERE rank IS NOT NULL),
things AS (SELECT DISTINCT what, name FROM rank_work),
every AS (
    SELECT t.what, t.name, r.rank, coalesce(o.ns, 0) AS ns, o.ns IS NOT NULL AS has
    FROM things t CROSS JOIN ranks r LEFT JOIN rank_work o ON o.what = t.what AND o.name IS NOT DISTINCT FROM t.name AND o.rank = r.rank
)
SELECT what, name, sum(ns) AS total, min(ns) AS low, arg_min(rank, (ns, rank)) AS low_rank, max(ns) AS high,
       arg_max(rank, (ns, -rank)) AS high_rank, count(*) FILTER (has) AS ranks, count(*) AS size
FROM every GROUP BY ALL;
