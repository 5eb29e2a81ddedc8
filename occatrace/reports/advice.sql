-- title: Advice
-- about: what looks worth a try, each with its numbers; nothing here for a program without such signs. The first has the largest
--   predicted gain (occa_prof why --what-if of the fix), or share of the run where there is no prediction
-- needs: calls
-- made: advice
-- empty: no problems found
-- share: of the recorded time of the run
-- column: gain percent Gain (predicted, of the run time; empty: no prediction)
-- column: share percent Time
-- column: name text Sign
-- column: evidence text Evidence
-- column: advice text Worth a try
-- column: caller source Line (of the program, that has most of it; and how many others have some)
-- column: rank count Rank
WITH
-- The column `changes` is not shown: the changes of why --what-if that stand for the fix. What is MATERIALIZED is made one after
-- another, as a run of millions of launches has no room for all of it at once.
run AS (SELECT greatest(recorded_ns(run_length()), 1) AS length_ns),

-- Kernels that run for hardly more time than the call that launches them: the host, which has to prepare each, is the limit. One
-- that runs longer than 100 µs is not short, however slow its call was.
launches AS MATERIALIZED (
    SELECT coalesce(k.name || ' (' || a.name || ')', a.name) AS name, any_value(coalesce(k.name, a.name)) AS known, any_value(CASE WHEN k.name IS NOT NULL THEN 'occa::kernel::run' ELSE c.function END) AS function,
           count(*) AS n, avg(span(c.start_ns, c.end_ns)) AS api,
           avg(span(a.start_ns, a.end_ns)) AS run, sum(span(c.start_ns, c.end_ns)) AS total
    FROM activities a JOIN enqueuing_calls() c ON c.thread = a.thread AND c.seq = a.seq LEFT JOIN kernels k ON k.kernel = a.kernel
    WHERE a.kind = 'kernel' GROUP BY 1
),
launching AS (SELECT function, sum(total) AS total FROM launches GROUP BY function),
launch_lines AS MATERIALIZED (
    SELECT name, main_line(source, ns) AS caller FROM (
        SELECT coalesce(k.name || ' (' || a.name || ')', a.name) AS name, l.source, sum(span(a.start_ns, a.end_ns)) AS ns
        FROM activities a JOIN call_lines l USING (thread, seq) LEFT JOIN kernels k ON k.kernel = a.kernel WHERE a.kind = 'kernel' GROUP BY ALL
    ) GROUP BY name
),

-- Times without work on a device, and, where nothing was enqueued any more, the call in which the thread then was that
-- enqueued what came next.
work AS (SELECT device AS key, start_ns AS s, greatest(start_ns, end_ns) AS e, thread, seq, process, queued_ns FROM activities WHERE device IS NOT NULL),
ordered AS (
    SELECT key, s, thread, seq, process, queued_ns, max(e) OVER (PARTITION BY key ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until FROM work
),
gaps AS (SELECT key, process, thread, seq, until, queued_ns, s - until - unrecorded_ns(process, until, s) AS ns FROM ordered WHERE s > until),
holes AS MATERIALIZED (
    SELECT * FROM gaps WHERE ns > 0
),
enqueuing AS (SELECT thread, seq FROM activities WHERE kind NOT IN ('HtoD', 'DtoH', 'DtoD', 'HtoH', 'map')),
waiting AS (
    -- What takes less than a microsecond makes no device wait, and is most of many million calls.
    SELECT thread, seq, start_ns, end_ns, function, caller FROM calls ANTI JOIN enqueuing USING (thread, seq)
    WHERE api != 'occa' AND end_ns >= start_ns + 1000
),
outer_waiting AS (SELECT thread, seq, start_ns, end_ns, function, caller FROM calls
    WHERE api = 'occa' AND function != 'occa::kernel::run' AND end_ns >= start_ns + 1000
),
dry AS MATERIALIZED (
    SELECT h.key, h.ns, h.process, h.thread, CASE WHEN o.end_ns >= h.until THEN o.seq WHEN w.end_ns >= h.until THEN w.seq END AS seq, CASE WHEN o.end_ns >= h.until THEN o.function WHEN w.end_ns >= h.until THEN w.function END AS function,
           CASE WHEN o.end_ns >= h.until THEN o.caller WHEN w.end_ns >= h.until THEN w.caller END AS caller
    FROM holes h
    ASOF LEFT JOIN waiting w ON w.thread = h.thread AND w.start_ns <= h.until
    ASOF LEFT JOIN outer_waiting o ON o.thread = h.thread AND o.start_ns <= h.until
    WHERE h.queued_ns >= h.until
),
-- One long time is no loop: data that is read, a pause between two parts of the program.
waits AS (SELECT function, count(*) AS n, sum(ns) AS ns, max(ns) AS longest FROM dry WHERE function IS NOT NULL GROUP BY function),
-- In Python lines are recorded of some calls only: for another one the nearest before it.
wait_lines AS MATERIALIZED (
    SELECT function, main_line(source, ns) AS caller FROM (
        SELECT d.function, coalesce(CASE WHEN y.seq = d.seq THEN y.source ELSE 'after ' || y.source END, line_place(s.file, s.line, s.module, s."offset")) AS source, sum(d.ns) AS ns
        FROM dry d ASOF LEFT JOIN python_places y ON y.thread = d.thread AND y.seq <= d.seq
        LEFT JOIN call_sites s ON s.process = d.process AND s.address = d.caller WHERE d.function IS NOT NULL GROUP BY ALL
    ) GROUP BY function
),
pieces AS (SELECT count(*) AS n FROM work),

copies AS (
    SELECT a.process, coalesce(d.api, '') AS api, a.kind, CASE a.kind WHEN 'HtoD' THEN a.source ELSE a.target END AS side, count(*) AS n, sum(bytes) AS bytes, sum(span(a.start_ns, a.end_ns)) AS ns
    FROM activities a LEFT JOIN devices d USING (device) WHERE a.kind IN ('HtoD', 'DtoH') AND bytes >= 65536 AND status >= 0 GROUP BY ALL
),
-- Where the copy does not tell: memory that is pinned is allocated by the API, so a process that has none, but allocates,
-- copies from and to pageable memory.
pageable AS (
    SELECT kind, sum(n) AS n, sum(bytes) AS bytes, sum(ns) AS ns FROM copies c
    WHERE side = 'pageable' OR side IS NULL AND EXISTS (FROM allocations x WHERE x.process = c.process AND x.api = lower(c.api))
      AND NOT EXISTS (FROM allocations x WHERE x.process = c.process AND x.kind IN ('host', 'mapped', 'svm', 'managed'))
    GROUP BY kind
),
-- The lines of a Python program that made most of them.
pageable_lines AS (
    SELECT kind, '; most by ' || string_agg(format('{} ({})', source, time_text(ns)), ', ' ORDER BY ns DESC, source) AS told FROM (
        SELECT a.kind, p.source, sum(span(a.start_ns, a.end_ns)) AS ns
        FROM activities a JOIN python_lines l USING (thread, seq) JOIN own_lines(python_frames) p ON p.process = l.process AND p.leaf = l.frame
        WHERE a.kind IN ('HtoD', 'DtoH') AND a.bytes >= 65536 AND a.status >= 0 AND coalesce(CASE a.kind WHEN 'HtoD' THEN a.source ELSE a.target END = 'pageable',
              a.process NOT IN (SELECT process FROM allocations WHERE kind IN ('host', 'mapped', 'svm', 'managed')))
        GROUP BY a.kind, p.source QUALIFY row_number() OVER (PARTITION BY a.kind ORDER BY sum(span(a.start_ns, a.end_ns)) DESC, p.source) <= 3
    ) GROUP BY kind
),

copy_lines AS (
    SELECT kind, main_line(source, large_ns) AS large, main_line(source, small) AS small FROM (
        SELECT a.kind, l.source, sum(span(a.start_ns, a.end_ns)) FILTER (a.bytes >= 65536) AS large_ns, nullif(count(*) FILTER (a.bytes BETWEEN 1 AND 4096), 0) AS small
        FROM activities a JOIN call_lines l USING (thread, seq) WHERE a.kind IN ('HtoD', 'DtoH', 'DtoD') AND a.status >= 0 GROUP BY ALL
    ) GROUP BY kind
),

churn AS (
    SELECT CASE api WHEN 'occa' THEN 'mode ' || coalesce(mode, '') ELSE api_title(api) END AS place, kind, bytes, count(*) AS n, count(end_ns) AS frees,
           sum(call_ns) + coalesce(sum(free_call_ns), 0) AS ns, mode(function) AS function, mode(free_function) AS free_function
    FROM allocations WHERE scope_seq IS NULL AND kind != 'slice' GROUP BY place, kind, bytes
),
-- How many such calls there are in all.
allocating AS (SELECT function, count(*) AS n FROM allocations WHERE scope_seq IS NULL AND kind != 'slice' GROUP BY function),
churn_lines AS (
    SELECT place, kind, bytes, main_line(source, ns) AS caller FROM (
        SELECT CASE a.api WHEN 'occa' THEN 'mode ' || coalesce(a.mode, '') ELSE api_title(a.api) END AS place, a.kind, a.bytes, l.source,
               sum(a.call_ns + coalesce(a.free_call_ns, 0)) AS ns
        FROM allocations a JOIN call_lines l USING (thread, seq) WHERE a.scope_seq IS NULL AND a.kind != 'slice' GROUP BY ALL
    ) GROUP BY ALL
),

-- Tests that come back at once are made in a loop where there is nothing else to do: they are only counted, so what they wait for
-- is not in the graph.
tests AS (
    SELECT process, function, sum(calls) AS calls, sum(total_ns) AS ns FROM call_stats
    WHERE api = 'mpi' AND regexp_matches(function, '^MPI_(Test|Iprobe|Improbe|Request_get_status)') GROUP BY ALL
),
polls AS (SELECT function, count(*) AS ranks, avg(calls)::BIGINT AS n, avg(ns) AS ns, max(ns) AS longest FROM tests GROUP BY function),

-- Builds within builds are part of them.
outer_builds AS (
    SELECT *, max(end_ns) OVER (PARTITION BY thread ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until FROM builds
),
jit AS (
    SELECT count(*) AS n, count(*) FILTER (cached) AS hits, count(cached) AS known, sum(span(start_ns, end_ns)) AS ns FROM outer_builds WHERE until IS NULL OR start_ns >= until
),
-- PoCL compiles the whole program for its binaries. Within builds of OCCA such calls are a part of them.
binaries AS (
    SELECT process, sum(calls)::BIGINT AS n, sum(total_ns) AS ns FROM call_stats
    WHERE function = 'clGetProgramInfo' AND process NOT IN (SELECT process FROM builds WHERE api = 'occa') GROUP BY process ORDER BY ns DESC LIMIT 1
),
binary_lines AS (
    SELECT main_line(line_place(s.file, s.line, s.module, s."offset"), span(c.start_ns, c.end_ns)) AS caller
    FROM calls c JOIN call_sites s ON s.process = c.process AND s.address = c.caller
    WHERE c.function = 'clGetProgramInfo' AND c.process IN (SELECT process FROM binaries)
),
build_lines AS (
    SELECT main_line(source, ns) AS caller FROM (
        SELECT l.source, sum(span(b.start_ns, b.end_ns)) AS ns FROM outer_builds b JOIN call_lines l USING (thread, seq)
        WHERE until IS NULL OR start_ns >= until GROUP BY ALL
    )
),

late_firsts AS MATERIALIZED (FROM late_launches),
-- All gaps before the work of these kernels, of which those before the first launches are a part.
late_gaps AS (
    SELECT process, name, sum(ns) AS ns FROM (
        SELECT a.process, coalesce(k.name, a.name) AS name,
               span(greatest(a.queued_ns, coalesce(lag(a.end_ns) OVER (PARTITION BY a.queue ORDER BY a.start_ns), 0)), a.start_ns) AS ns
        FROM activities a LEFT JOIN kernels k ON k.kernel = a.kernel WHERE a.process IN (SELECT process FROM late_firsts)
    ) SEMI JOIN late_firsts USING (process, name) GROUP BY ALL
),
late AS (
    SELECT count(*) AS n, sum(late_ns) AS ns, main_line(source, late_ns) AS caller,
           string_agg(format('{} {}', name, time_text(late_ns)), ', ' ORDER BY late_ns DESC, name) FILTER (WHERE place <= 3) AS longest,
           list(DISTINCT format('launch:{}*{}', name, greatest(1 - of_name / gaps, 0))) AS changes
    FROM (
        SELECT f.*, l.source, g.ns AS gaps, sum(f.late_ns) OVER (PARTITION BY f.process, f.name) AS of_name,
               row_number() OVER (PARTITION BY f.process ORDER BY f.late_ns DESC, f.name) AS place
        FROM late_firsts f JOIN late_gaps g USING (process, name) LEFT JOIN call_lines l USING (thread, seq)
    ) GROUP BY process ORDER BY ns DESC LIMIT 1
),

idle_lines AS MATERIALIZED (
    SELECT key, main_line(source, ns) AS caller FROM (SELECT h.key, l.source, sum(h.ns) AS ns FROM holes h JOIN call_lines l USING (thread, seq) GROUP BY ALL)
    GROUP BY key
),
holes_of AS MATERIALIZED (
    SELECT key, count(*) AS gaps, max(ns) AS longest, sum(ns)::BIGINT AS idle FROM holes GROUP BY key
),
use AS MATERIALIZED (
    SELECT key, busy, (busy + coalesce(idle, 0))::BIGINT AS length FROM busy(work) LEFT JOIN holes_of USING (key)
),

-- What a copy costs the host: its call, without the time in which a blocking one waits for the work before it.
tiny AS MATERIALIZED (
    -- The call that counts on the critical path is the outermost one.
    SELECT a.kind, count(*) AS n, avg(a.bytes) AS each, sum(span(a.start_ns, a.end_ns)) AS device_ns,
           list(DISTINCT CASE WHEN o.end_ns >= c.end_ns THEN o.function ELSE c.function END) AS functions, sum(least(span(c.start_ns, c.end_ns), span(least(a.start_ns, c.end_ns), c.end_ns)
               + CASE WHEN a.start_ns >= c.end_ns THEN span(c.start_ns, c.end_ns) ELSE 0 END)) AS ns
    FROM activities a JOIN enqueuing_calls() c ON c.thread = a.thread AND c.seq = a.seq
    ASOF LEFT JOIN (SELECT thread, start_ns, end_ns, function FROM calls WHERE api = 'occa') o ON o.thread = c.thread AND o.start_ns <= c.start_ns
    WHERE a.kind IN ('HtoD', 'DtoH', 'DtoD') AND a.bytes BETWEEN 1 AND 4096 GROUP BY a.kind
),

copying AS (SELECT kind, count(*) AS copies, greatest(sum(span(start_ns, end_ns)), 1) AS ns FROM activities GROUP BY kind),

-- Of calls that are made again and again; what builds or sets up is slow by nature, and has a rule of its own. The first call of
-- MPI waits for ranks that came late.
timed AS (
    SELECT 'call of ' || function AS name, function, start_ns, span(start_ns, end_ns) AS ns FROM calls
    WHERE function NOT IN (SELECT function FROM builds) AND (function NOT LIKE 'occa::kernel::run') AND api != 'mpi'
    UNION ALL
    SELECT 'call of kernel ' || k.name || ' [' || k.mode || ']', NULL, r.start_ns, span(r.start_ns, r.end_ns) FROM kernel_runs r JOIN kernels k USING (kernel)
),
firsts AS MATERIALIZED (
    SELECT name, any_value(function) AS function, count(*) AS n, min(start_ns) AS begins, arg_min(ns, start_ns) AS first, sum(ns) AS total FROM timed GROUP BY name HAVING count(*) >= 10
),
penalties AS (SELECT name, function, n, first, total, (total - first) / (n - 1) AS others FROM firsts),

lost AS (
    SELECT function, lost, count(*) AS n, string_agg(DISTINCT error, ', ') AS errors FROM failures WHERE lost IS NOT NULL GROUP BY ALL
),
lost_lines AS (
    SELECT function, lost, main_line(source, n) AS caller FROM (
        SELECT f.function, f.lost, coalesce(l.source, line_place(s.file, s.line, s.module, s."offset")) AS source, count(*) AS n
        FROM failures f LEFT JOIN call_lines l USING (thread, seq) LEFT JOIN calls c USING (thread, seq)
        LEFT JOIN call_sites s ON s.process = f.process AND s.address = c.caller WHERE f.lost IS NOT NULL GROUP BY ALL
    ) GROUP BY ALL
),
broken AS (SELECT name, count(*) AS n, min(status) AS status, sum(span(start_ns, end_ns)) AS ns FROM activities WHERE status < 0 GROUP BY name),
-- What the program imports itself; of the process that imports longest.
imported AS (
    SELECT process, name, span(start_ns, end_ns) AS ns, row_number() OVER (PARTITION BY process ORDER BY end_ns - start_ns DESC) AS place
    FROM python_imports WHERE within IS NULL AND NOT starting
),
imports AS (
    SELECT sum(ns) AS ns, string_agg(format('{} {}', name, time_text(ns)), ', ' ORDER BY ns DESC) FILTER (WHERE place <= 3) AS longest
    FROM imported GROUP BY process ORDER BY 1 DESC LIMIT 1
),

signs AS (
    SELECT launches.total AS ns, 'short kernels' AS name,
           format('{:,} launches of {} ran {} on average, {} the {} of their launching call', n, launches.name, time_text(run),
                  CASE WHEN run < api THEN 'less than' ELSE 'little more than' END, time_text(api))
               AS evidence, 'join kernels, or give each more work' AS advice, caller,
           -- Half as many launches: the device has half of the gaps between them, too.
           [format('call:{}*{}', function, 1 - 0.5 * launches.total / launching.total), format('launch:{}*0.5', launches.known)] AS changes
    FROM launches JOIN launching USING (function) LEFT JOIN launch_lines USING (name), run WHERE n >= 100 AND launches.run < least(1.5 * api, 100_000) AND launches.total > 0.01 * run.length_ns
    UNION ALL
    SELECT ns, 'waiting',
           format('{:,} times in {:,} pieces of work the device ran out of work while the host waited in {}, for {} until the next work ({:.0f} % of the run)',
                  waits.n, pieces.n, function, time_text(ns), share(ns, run.length_ns)),
           'enqueue what comes next before waiting, wait once after several pieces of work, or use a second stream', caller,
           [format('wait:{}*0', function)]
    FROM waits LEFT JOIN wait_lines USING (function), pieces, run WHERE waits.n >= 20 AND waits.ns - waits.longest > 0.05 * run.length_ns
    UNION ALL
    SELECT pageable.ns, 'pageable copies',
           format('{:,} {} copies of {} in all took {} ({:.2f} GB/s, {:.0f} % of the run): its memory on the host is not pinned{}',
                  n, kind, size_text(bytes), time_text(pageable.ns), bytes / pageable.ns, share(pageable.ns, run.length_ns), coalesce(told, '')),
           'copy from and to pinned memory (CUDA, HIP: cudaMallocHost, hipHostMalloc; OpenCL: a mapped buffer with CL_MEM_ALLOC_HOST_PTR; OCCA: the property mapped or host)', large,
           [format('copy:{}*{}', kind, 1 - 0.5 * least(pageable.ns / copying.ns, 1))]
    FROM pageable JOIN copying USING (kind) LEFT JOIN pageable_lines USING (kind) LEFT JOIN copy_lines USING (kind), run WHERE n >= 10 AND pageable.ns > 0.05 * run.length_ns
    UNION ALL
    SELECT ns, 'allocation in a loop',
           format('{:,} allocations and {:,} frees of {:,} bytes ({}, {}) took {} ({:.0f} % of the run)', churn.n, frees, bytes, place, kind, time_text(ns),
                  share(ns, run.length_ns)),
           'allocate once before the loop, or use a memory pool', caller,
           list_filter([format('call:{}*{}', function, 1 - churn.n / allocating.n), format('call:{}*{}', free_function, 1 - churn.n / allocating.n)], lambda x: x IS NOT NULL)
    FROM churn JOIN allocating USING (function) LEFT JOIN churn_lines USING (place, kind, bytes), run WHERE churn.n >= 20 AND frees >= 19 AND ns > 0.01 * run.length_ns
    UNION ALL
    SELECT ns, 'polling',
           format('{}{} {:,} times{}, for {} ({:.0f} % of the run){}', CASE WHEN ranks = 1 THEN 'a rank called ' ELSE format('each of {:,} ranks called ', ranks) END,
                  function, n, CASE WHEN ranks = 1 THEN '' ELSE ' on average' END, time_text(ns), share(ns, run.length_ns),
                  CASE WHEN longest > 1.5 * ns THEN format('; one of them for {}', time_text(longest)) ELSE '' END),
           'this is waiting for messages: send or post them earlier, compute between two tests, or wait with a call that blocks', NULL, []
    FROM polls, run WHERE n >= 1000 AND ns > 0.1 * run.length_ns
    UNION ALL
    SELECT ns, 'kernel builds',
           format('{:,} build{} took {}, {:.0f} % of the run', n, CASE WHEN n = 1 THEN '' ELSE 's' END, time_text(ns), share(ns, run.length_ns))
               || CASE WHEN known > 0 THEN format('; {:,} of {:,} by OCCA found their binary in the cache', hits, known) ELSE '' END,
           CASE WHEN known = 0 THEN 'keep the driver''s cache between runs, or load binaries; build before the timed part'
                WHEN hits < known THEN 'keep OCCA_CACHE_DIR between runs; build before the timed part'
                ELSE 'build before the timed part; share kernels instead of building them again' END, caller, ['build*0']
    FROM jit, build_lines, run WHERE n > 0 AND jit.ns > 0.2 * run.length_ns
    UNION ALL
    SELECT binaries.ns, 'kernel builds',
           format('{:,} call{} of clGetProgramInfo took {}, {:.0f} % of the run: the driver compiles whole programs for their binaries', n,
                  CASE WHEN n = 1 THEN '' ELSE 's' END, time_text(binaries.ns), share(binaries.ns, run.length_ns)),
           'keep the program''s and the driver''s caches between runs; build before the timed part', caller, ['call:clGetProgramInfo*0']
    FROM binaries, binary_lines, run WHERE binaries.ns > 0.2 * run.length_ns
    UNION ALL
    SELECT late.ns, 'late first launches',
           format('{:,} kernel{} began {} after {} first launch, while the device had nothing else to do ({:.0f} % of the run): {}', n,
                  CASE WHEN n = 1 THEN '' ELSE 's' END, time_text(late.ns) || CASE WHEN n = 1 THEN '' ELSE ' in all' END,
                  CASE WHEN n = 1 THEN 'its' ELSE 'their' END, share(late.ns, run.length_ns), longest),
           'the driver builds or loads them then: keep its cache between runs, or launch each once before the timed part', caller, changes
    FROM late, run WHERE late.ns > 0.05 * run.length_ns
    UNION ALL
    SELECT length - busy AS ns, 'idle device',
           format('{} had work for {:.0f} % of the {} from its first to its last work: {:,} gaps, the longest {}', coalesce(d.name, 'a device'),
                  share(busy, length), time_text(length), gaps, time_text(longest)),
           'see gpu_gaps and idle_sum for what the host did; enqueue work earlier, or compute on the host while the device works', caller, []
    FROM use JOIN holes_of USING (key) LEFT JOIN idle_lines USING (key) LEFT JOIN devices d ON d.device = use.key, run WHERE length > 0.1 * run.length_ns AND busy < 0.5 * length
    UNION ALL
    SELECT tiny.ns, 'small copies',
           format('{:,} {} copies of {:,.0f} bytes on average took the host {} ({:.0f} % of the run)', n, kind, each, time_text(tiny.ns), share(tiny.ns, run.length_ns)),
           'gather them into fewer, larger copies', small,
           list_concat([format('copy:{}*{}', kind, 1 - least(device_ns / copying.ns, 1)), format('launch:{}*{}', kind, 1 - 0.9 * n / copies)], [format('call:{}*0.1', x) FOR x IN functions], [format('wait:{}*0', x) FOR x IN functions])
    FROM tiny JOIN copying USING (kind) LEFT JOIN copy_lines USING (kind), run WHERE n >= 100 AND tiny.ns > 0.01 * run.length_ns
    UNION ALL
    SELECT first - others AS ns, 'slow first call',
           format('the first {} took {}, the {:,} others {} on average', penalties.name, time_text(first), n - 1, time_text(others)),
           'call it once before the timed part', NULL,
           CASE WHEN function IS NULL THEN [] ELSE [format('call:{}*{}', function, 1 - (first - others) / total)] END FROM penalties, run
    WHERE first > 10 * others AND first - others > 1_000_000 AND first - others > 0.05 * run.length_ns
    UNION ALL
    SELECT ns, 'imports',
           format('Python imported for {} ({:.0f} % of the run): {}', time_text(ns), share(ns, run.length_ns), longest),
           'import what is not always used in the functions that use it; see python_import_sum for each module', NULL, []
    FROM imports, run WHERE ns > 2_000_000_000 AND ns > 0.25 * run.length_ns
    UNION ALL
    SELECT 0, 'lost to a failed call',
           format('{:,} call{} of {} failed ({}): {}', n, CASE WHEN n = 1 THEN '' ELSE 's' END, function, coalesce(errors, 'no reason given'),
                  CASE lost WHEN 'kernel' THEN 'no kernel ran' WHEN 'memory' THEN 'nothing was allocated' WHEN 'build' THEN 'nothing was built'
                            WHEN 'copy' THEN 'nothing was copied' ELSE 'their work (' || lost || ') was never done' END),
           CASE lost WHEN 'memory' THEN 'check the result of this call; without that the program goes on with memory that it does not have'
                     ELSE 'check the result of this call; what follows may compute with old data' END, caller, [] FROM lost LEFT JOIN lost_lines USING (function, lost)
    UNION ALL
    SELECT ns, 'work that failed', format('{} ended with the error {} on the device, {:,} time{}', name, status, n, CASE WHEN n = 1 THEN '' ELSE 's' END), 'its results are not to be used; see gpu_trace', NULL, []
    FROM broken
)
SELECT NULL::DOUBLE AS gain, share(s.ns, run.length_ns) AS share, s.name, evidence, advice, coalesce(caller, '') AS caller, NULL::INTEGER AS rank, changes FROM signs s, run ORDER BY s.ns DESC, s.name, evidence
