-- title: Advice
-- about: what looks worth a try, each with its numbers; nothing here for a program without such signs
-- needs: calls
-- share: of the duration of the run
-- column: share percent Time
-- column: name text Sign
-- column: evidence text Evidence
-- column: advice text Worth a try
WITH run AS (SELECT greatest(max(end_ns) - min(start_ns), 1) AS length_ns FROM processes),
launches AS (
    SELECT a.name, count(*) AS n, avg(span(c.start_ns, c.end_ns)) AS api, avg(span(a.start_ns, a.end_ns)) AS run,
           sum(span(c.start_ns, c.end_ns)) AS total
    FROM activities a JOIN calls c ON c.thread = a.thread AND c.seq = a.seq WHERE a.kind = 'kernel' GROUP BY a.name
),
waits AS (
    SELECT function, count(*) AS n, sum(span(start_ns, end_ns)) AS ns FROM calls
    WHERE function IN ('occa::device::finish', 'occa::stream::finish', 'clFinish', 'clWaitForEvents') GROUP BY function
),
builds AS (
    SELECT count(*) AS n, sum(span(start_ns, end_ns)) AS ns FROM calls WHERE api = 'occa' AND function ILIKE '%buildKernel%'
),
churn AS (
    SELECT a.mode, a.bytes, count(*) AS n, sum(call_ns) AS ns, count(end_ns) AS frees
    FROM allocations a WHERE api = 'occa' AND kind != 'slice' GROUP BY a.mode, a.bytes
),
work AS (SELECT device AS key, start_ns AS s, end_ns AS e FROM activities WHERE device IS NOT NULL),
use AS (
    SELECT b.key, busy, length FROM busy(work) b JOIN (SELECT key, max(e) - min(s) AS length FROM work GROUP BY key) USING (key)
),
tiny AS (
    SELECT kind, count(*) AS n, avg(bytes) AS each, sum(span(start_ns, end_ns)) AS ns FROM activities
    WHERE kind IN ('HtoD', 'DtoH', 'DtoD') AND bytes BETWEEN 1 AND 4096 GROUP BY kind
),
failures AS (SELECT function, sum(failed) AS failed, sum(total_ns) AS ns FROM call_stats GROUP BY function HAVING sum(failed) > 0),
signs AS (
    SELECT total AS ns, 'short kernels' AS name,
           format('{:,} launches of {} ran {:.1f} µs on average, less than the {:.1f} µs of their launching call', n, name, run / 1e3, api / 1e3)
               AS evidence, 'join kernels, or give each more work' AS advice
    FROM launches WHERE n >= 100 AND run < api
    UNION ALL
    SELECT ns, 'waiting', format('{:,} calls of {} took {:.1f} ms, {:.0f} % of the run', n, function, ns / 1e6, share(ns, run.length_ns)),
           'wait once after several pieces of work, or use a second stream' FROM waits, run WHERE n >= 10 AND waits.ns > 0.2 * run.length_ns
    UNION ALL
    SELECT ns, 'kernel builds', format('{:,} builds took {:.1f} ms, {:.0f} % of the run', n, ns / 1e6, share(ns, run.length_ns)),
           'keep OCCA_CACHE_DIR between runs; build before the timed part' FROM builds, run WHERE n > 0 AND builds.ns > 0.2 * run.length_ns
    UNION ALL
    SELECT ns, 'allocation in a loop',
           format('{:,} allocations and {:,} frees of {:,} bytes in mode {} took {:.1f} ms', n, frees, bytes, mode, ns / 1e6),
           'allocate once before the loop, or use a memory pool' FROM churn WHERE n >= 20 AND frees >= 19
    UNION ALL
    SELECT length - busy AS ns, 'idle device',
           format('{} had work for {:.0f} % of the time from its first to its last work', coalesce(d.name, 'a device'), share(busy, length)),
           'look at the gaps in the timeline: what does the host do in them?'
    FROM use LEFT JOIN devices d ON d.device = use.key, run WHERE length > 0.1 * run.length_ns AND busy < 0.5 * length
    UNION ALL
    SELECT ns, 'small copies', format('{:,} {} copies of {:,.0f} bytes on average', n, kind, each),
           'gather them into fewer, larger copies' FROM tiny WHERE n >= 100
    UNION ALL
    SELECT ns, 'failed calls', format('{:,} calls of {} failed', failed, function), 'see the column Errors of api_sum' FROM failures
)
SELECT share(s.ns, run.length_ns) AS share, s.name, evidence, advice FROM signs s, run ORDER BY s.ns DESC, s.name, evidence
