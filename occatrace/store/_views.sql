-- Views that several reports stand on, and what they know of the run.

-- The moment that all views call zero: the first call, range or work of the run. (Runs of before schema 2 do not have it.)
CREATE OR REPLACE MACRO run_zero() AS (SELECT coalesce(min(coalesce(first_ns, start_ns)), 0) FROM processes);

-- The run time, of which all views take their shares: from the start of the first process, or of what was sampled before it, to the
-- end of the last one.
CREATE OR REPLACE MACRO run_length() AS (SELECT coalesce(max(end_ns)::BIGINT - min(least(start_ns, first_ns))::BIGINT, 0) FROM processes);

-- The line of Python that made a call, where lines were recorded: _python_views.sql.
CREATE OR REPLACE TEMP VIEW python_places AS
    SELECT 0::UINTEGER AS thread, 0::UINTEGER AS seq, '' AS function, '' AS source, '' AS through WHERE false;

-- The line of the program that made a call to which others refer.
CREATE OR REPLACE TEMP VIEW call_lines AS
    SELECT p.thread, p.seq, line_place(s.file, s.line, s.module, s."offset") AS source
    FROM call_places p JOIN call_sites s USING (process, site);

-- Kernels that began long after their first launch on a device, which had nothing else to do: drivers build kernels then, or load
-- them. `late_ns`: from when the launch was submitted and the work before it was over.
CREATE OR REPLACE TEMP VIEW late_launches AS
    WITH firsts AS (
        SELECT a.process, a.device, a.name AS function, coalesce(k.name, a.name) AS name, min(a.start_ns) AS start_ns,
               arg_min(greatest(a.queued_ns, a.submitted_ns), a.start_ns) AS ready_ns, arg_min(a.thread, a.start_ns) AS thread,
               arg_min(a.seq, a.start_ns) AS seq
        FROM activities a LEFT JOIN kernels k ON k.kernel = a.kernel WHERE a.kind = 'kernel' AND a.device IS NOT NULL GROUP BY ALL
    ),
    late AS (SELECT *, row_number() OVER () AS number FROM firsts WHERE ready_ns > 0 AND start_ns >= ready_ns + 5_000_000),
    others AS (
        SELECT number, max(least(a.end_ns, late.start_ns)) AS until
        FROM late JOIN activities a ON a.device = late.device AND a.start_ns < late.start_ns AND a.end_ns > ready_ns GROUP BY number
    )
    SELECT late.* EXCLUDE (number), span(greatest(ready_ns, coalesce(until, 0)), start_ns) AS late_ns
    FROM late LEFT JOIN others USING (number) WHERE late_ns >= 5_000_000;

-- The imports of Python: whether the interpreter made them as it started, and the number of the import around them, if any.
CREATE OR REPLACE TEMP VIEW python_imports AS
    SELECT c.*, coalesce(c.start_ns < r.ready_ns, false) AS starting, p.number AS within
    FROM python_calls c
    LEFT JOIN (SELECT process, max(end_ns) AS ready_ns FROM python_calls WHERE kind = 'start' GROUP BY process) r USING (process)
    LEFT JOIN (SELECT process, number FROM python_calls WHERE kind = 'import') p ON p.process = c.process AND p.number = c.parent
    WHERE c.kind = 'import';

-- The frames of call paths as people know them: from main on, or where a thread has left the C library.
CREATE OR REPLACE TEMP VIEW path_frames AS
    WITH known AS (
        SELECT p.*, s.module, s."offset", regexp_matches(s.module, '/(libc|libpthread|ld-linux)[^/]*$') AS of_libc
        FROM call_paths p JOIN call_sites s USING (process, site)
    ),
    begins AS (
        SELECT process, path, coalesce(max(depth) FILTER (function = 'main'), min(depth) FILTER (NOT of_libc), 0) AS first
        FROM known GROUP BY ALL
    )
    SELECT k.process, k.path, k.depth - b.first AS depth, k.module, k.function, k.file, k.line,
           CASE WHEN k.function != '' THEN k.function ELSE module_place(k.module, k."offset") END
               || CASE WHEN k.file != '' THEN ' (' || regexp_extract(k.file, '[^/]*$') || ':' || k.line || ')' ELSE '' END AS name
    FROM known k JOIN begins b USING (process, path) WHERE k.depth >= b.first;
CREATE OR REPLACE TEMP VIEW path_texts AS
    SELECT p.thread, p.seq, t.text
    FROM path_calls p JOIN (SELECT process, path, string_agg(name, ' → ' ORDER BY depth) AS text FROM path_frames GROUP BY ALL) t USING (process, path);

-- Stacks of calls and samples with the frames of Python in place of the interpreter's: what called the interpreter, Python, what
-- that has called; and again, where that called Python. By `place`, the number of
-- evaluations of the interpreter (functions of C to which frames of Python belong) that are further in, negative; where Python and C
-- do not tell the same number of them, all Python is in one place. Frames with their numbers `path` and `frame`; `depth` counts from the outermost.
CREATE OR REPLACE TEMP VIEW joined_frames AS
    WITH RECURSIVE stacks AS (
        SELECT DISTINCT process, path, frame FROM stack_samples WHERE frame != 0
        UNION
        SELECT DISTINCT c.process, c.path, l.frame FROM path_calls c JOIN python_lines l USING (thread, seq)
    ),
    lines AS (
        SELECT process, id AS frame, id, parent, function, source, line, entered FROM python_frames
        WHERE (process, id) IN (SELECT process, frame FROM stacks)
        UNION ALL
        SELECT l.process, l.frame, f.id, f.parent, f.function, f.source, f.line, f.entered
        FROM lines l JOIN python_frames f ON f.process = l.process AND f.id = l.parent
    ),
    groups AS (
        SELECT *, (coalesce(sum(entered) OVER (PARTITION BY process, frame ORDER BY id), 0)
                   - sum(entered) OVER (PARTITION BY process, frame))::INTEGER AS place,
               sum(entered) OVER (PARTITION BY process, frame) AS evaluations
        FROM lines
    ),
    known AS (
        SELECT *, regexp_matches(module, '/(libpython|python)[0-9.]*[^/]*$') AS interpreter,
               starts_with(function, '_PyEval_EvalFrameDefault') AS evaluates
        FROM path_frames
    ),
    placed AS (
        SELECT *, (sum(evaluates::INTEGER) OVER (PARTITION BY process, path ORDER BY depth)
                   - sum(evaluates::INTEGER) OVER (PARTITION BY process, path))::INTEGER AS place
        FROM known
    ),
    within AS (
        SELECT process, path, min(depth) FILTER (interpreter) AS first, max(depth) FILTER (interpreter) AS last,
               count(*) FILTER (evaluates) AS evaluations
        FROM known GROUP BY ALL
    ),
    alike AS (
        SELECT s.process, s.path, s.frame, w.first, w.last, w.evaluations = g.evaluations AS alike
        FROM stacks s JOIN within w USING (process, path)
        LEFT JOIN (SELECT DISTINCT process, frame, evaluations FROM groups) g USING (process, frame)
    ),
    frames AS (
        SELECT process, path, 0 AS frame, 0 AS part, false AS python, depth AS number, module, function, file, line, name FROM known
        UNION ALL
        SELECT a.process, a.path, a.frame, CASE WHEN a.alike THEN k.place WHEN k.depth < a.first THEN -1 ELSE 1 END, false, k.depth,
               k.module, k.function, k.file, k.line, k.name
        FROM alike a JOIN placed k USING (process, path)
        WHERE CASE WHEN a.alike THEN NOT k.interpreter ELSE coalesce(k.depth NOT BETWEEN a.first AND a.last, true) END
        UNION ALL
        SELECT s.process, s.path, s.frame, CASE WHEN a.alike THEN l.place ELSE 0 END, true, l.id, '', l.function, l.source, l.line,
               l.function || ' (' || regexp_extract(l.source, '[^/]*$') || ':' || l.line || ')'
        FROM stacks s JOIN groups l USING (process, frame) LEFT JOIN alike a USING (process, path, frame)
    )
    SELECT process, path, frame, row_number() OVER (PARTITION BY process, path, frame ORDER BY part, NOT python, number) - 1 AS depth,
           python, module, function, file, line, name
    FROM frames;

-- Memory operations by kind and mode, with a number for each pair.
CREATE OR REPLACE TEMP VIEW memory_groups AS
    SELECT name, mode, row_number() OVER (ORDER BY name, mode) AS key
    FROM (
        SELECT DISTINCT memory_operation(a.kind, a.source, a.target, d.api) AS name, coalesce(api_title(d.api), '') AS mode FROM activities a LEFT JOIN devices d USING (device)
        WHERE a.kind IN ('HtoD', 'DtoH', 'DtoD', 'HtoH', 'fill', 'map', 'unmap', 'migrate')
        UNION
        SELECT DISTINCT kind, mode FROM occa_copies WHERE host_mode(mode)
    );

-- All work that moves or sets memory. OCCA's copies on devices are there as activities; on the host the call is the work.
CREATE OR REPLACE TEMP VIEW memory_operations AS
    SELECT g.key, a.process, a.thread, a.seq, a.start_ns, a.end_ns, a.bytes, a.status < 0 AS failed
    FROM activities a LEFT JOIN devices d USING (device)
    JOIN memory_groups g ON g.name = memory_operation(a.kind, a.source, a.target, d.api) AND g.mode = coalesce(api_title(d.api), '')
    UNION ALL
    SELECT g.key, process, thread, seq, start_ns, end_ns, bytes, error IS NOT NULL
    FROM occa_copies c JOIN memory_groups g ON g.name = c.kind AND g.mode = c.mode WHERE host_mode(c.mode);

-- The lines of the program that made them, by kind and mode.
CREATE OR REPLACE TEMP VIEW memory_lines AS
    SELECT o.key, o.process, c.source, sum(span(o.start_ns, o.end_ns)) AS ns, coalesce(sum(o.bytes) FILTER (NOT o.failed), 0) AS bytes
    FROM memory_operations o JOIN call_lines c USING (thread, seq) GROUP BY ALL;

-- What each rank spends, by what it is spent on: for the balance of ranks, from tables and from partial summaries alike.
CREATE OR REPLACE TEMP VIEW rank_work AS
    WITH work AS (
        SELECT a.process, 'Kernels' AS what, coalesce(k.name, a.name, '(unknown kernel)') AS name, span(a.start_ns, a.end_ns) AS ns
        FROM activities a LEFT JOIN kernels k ON k.kernel = a.kernel WHERE a.kind = 'kernel'
        UNION ALL
        SELECT r.process, 'Kernels', k.name, span(r.start_ns, r.end_ns)
        FROM kernel_runs r JOIN kernels k USING (kernel) WHERE host_mode(k.mode)
        UNION ALL
        SELECT a.process, 'Memory', memory_operation(a.kind, a.source, a.target, d.api), span(a.start_ns, a.end_ns)
        FROM activities a LEFT JOIN devices d USING (device)
        WHERE a.kind IN ('HtoD', 'DtoH', 'DtoD', 'HtoH', 'fill', 'map', 'unmap', 'migrate')
        UNION ALL
        SELECT process, 'Memory', kind, span(start_ns, end_ns) FROM occa_copies WHERE host_mode(mode)
        UNION ALL
        SELECT process, 'Calls', function, total_ns FROM call_stats WHERE calls > 0
    )
    SELECT rank, what, name, sum(ns) AS ns FROM work JOIN processes USING (process) WHERE rank IS NOT NULL GROUP BY ALL;

-- What the efficiencies of a run are made of, per process between MPI_Init and MPI_Finalize (without MPI: its whole time), and per
-- device of it: time; outside (not in MPI); useful (neither in MPI nor in calls that start device work or wait for it); kernel (a kernel
-- runs on the device); device (a kernel or a copy runs there).
CREATE OR REPLACE TEMP VIEW rank_efficiency AS
    WITH hosts AS (
        SELECT p.process, coalesce(m.rank, p.rank) AS rank, coalesce(m.start_ns, p.start_ns) AS s, coalesce(m.end_ns, p.end_ns) AS e
        FROM processes p LEFT JOIN mpi_ranks m USING (process)
        WHERE p.end_ns > p.start_ns AND (m.process IS NOT NULL OR NOT EXISTS (FROM mpi_ranks))
          AND (p.process IN (SELECT process FROM call_stats) OR p.process IN (SELECT process FROM kernel_runs)
               OR p.process IN (SELECT process FROM activities))
    ),
    threads_of AS (
        SELECT process, thread, CASE api WHEN 'mpi' THEN 'mpi' ELSE 'offload' END AS what, api, sum(total_ns)::DOUBLE AS ns
        FROM call_stats
        WHERE api = 'mpi' AND function NOT IN ('MPI_Init', 'MPI_Init_thread', 'MPI_Finalize', 'MPI_Session_init', 'MPI_Session_finalize')
           OR api IN ('opencl', 'cuda', 'cudart', 'hip')
              AND regexp_matches(function, 'Finish|Wait|Synchronize|Enqueue|[Mm]emcpy|[Mm]emset|[Ll]aunch')
        GROUP BY ALL
    ),
    -- Of several threads the one with most; CUDA's runtime calls its driver.
    most AS (SELECT process, what, max(ns) AS ns FROM threads_of GROUP BY ALL),
    parts AS (
        SELECT process, rank, span(s, e)::DOUBLE AS time, least(coalesce(m.ns, 0), span(s, e)) AS mpi, coalesce(o.ns, 0) AS offload
        FROM hosts LEFT JOIN (FROM most WHERE what = 'mpi') m USING (process) LEFT JOIN (FROM most WHERE what = 'offload') o USING (process)
    ),
    work AS (
        SELECT device, rank, kind IN ('kernel', 'native') AS kernel, greatest(a.start_ns, h.s) AS s, least(a.end_ns, h.e) AS e
        FROM activities a JOIN hosts h USING (process)
        WHERE kind != 'marker' AND device IS NOT NULL AND a.start_ns < h.e AND a.end_ns > h.s
    ),
    kernels_of AS (SELECT device AS key, s, e FROM work WHERE kernel),
    all_of AS (SELECT device AS key, s, e FROM work),
    devices_of AS (SELECT DISTINCT device AS key, rank FROM work)
    SELECT rank, 'time' AS name, time AS ns FROM parts
    UNION ALL SELECT rank, 'outside', time - mpi FROM parts
    UNION ALL SELECT rank, 'useful', greatest(time - mpi - offload, 0) FROM parts
    UNION ALL SELECT rank, 'kernel', coalesce(busy, 0)::DOUBLE FROM devices_of LEFT JOIN busy(kernels_of) USING (key)
    UNION ALL SELECT rank, 'device', coalesce(busy, 0)::DOUBLE FROM devices_of LEFT JOIN busy(all_of) USING (key);
