-- What the reports share: the buckets of the histograms (as in occatrace/core/histogram.py) and durations that cannot be negative.

-- Highest set bit. log2 of a double may round up to the next power of two: then one less.
CREATE OR REPLACE MACRO _msb(v) AS floor(log2(v))::INTEGER - ((1::UBIGINT << floor(log2(v))::INTEGER) > v)::INTEGER;
CREATE OR REPLACE MACRO bucket(v) AS
    CASE WHEN v < 128 THEN v::INTEGER ELSE 64 * (_msb(v) - 5) + ((v::UBIGINT >> (_msb(v) - 6)) & 63)::INTEGER END;
CREATE OR REPLACE MACRO bucket_middle(b) AS
    CASE WHEN b < 128 THEN b::DOUBLE ELSE (64 + b % 64) * 2.0 ** (b // 64 - 1) + (2.0 ** (b // 64 - 1) - 1) / 2 END;
CREATE OR REPLACE MACRO span(start_ns, end_ns) AS
    CASE WHEN end_ns > start_ns THEN end_ns - start_ns ELSE 0::UBIGINT END;
-- A place in the code: its line, or where it is in its file.
CREATE OR REPLACE MACRO module_place(path, address) AS
    CASE WHEN path != '' THEN regexp_extract(path, '[^/]*$') || printf('+0x%x', address) ELSE printf('0x%x', address) END;
CREATE OR REPLACE MACRO line_place(file, line, path, address) AS
    CASE WHEN file != '' THEN file || ':' || line ELSE module_place(path, address) END;
-- Of lines, one row each: the one with the largest weight, and how many others there are; without a weight one does not count.
CREATE OR REPLACE MACRO main_line(source, weight) AS
    arg_max(source, (weight, source)) FILTER (weight IS NOT NULL)
        || CASE WHEN count(weight) > 1 THEN ' (+' || count(weight) - 1 || ')' ELSE '' END;
CREATE OR REPLACE MACRO share(part, whole) AS
    CASE WHEN whole > 0 THEN 100.0 * part / whole ELSE 0.0 END;
-- Whether ranks differ by so many ns that it says something of them: clocks and the recording itself vary by less.
CREATE OR REPLACE MACRO is_imbalance(ns) AS ns >= 1000;
-- Times and sizes within sentences: Python writes them as in tables (occatrace/reports/sentences.py).
CREATE OR REPLACE MACRO time_text(v) AS chr(31) || 'ns ' || v::DOUBLE || chr(31);
CREATE OR REPLACE MACRO size_text(v) AS chr(31) || 'B ' || v::DOUBLE || chr(31);
CREATE OR REPLACE MACRO api_title(api) AS CASE api WHEN 'occa' THEN 'OCCA' WHEN 'opencl' THEN 'OpenCL' WHEN 'mpi' THEN 'MPI' WHEN 'cuda' THEN 'CUDA' WHEN 'cudart' THEN 'CUDA runtime' WHEN 'hip' THEN 'HIP'
    WHEN 'nvtx' THEN 'NVTX' WHEN 'roctx' THEN 'ROCTX' WHEN 'itt' THEN 'ITT' WHEN 'openmp' THEN 'OpenMP target' ELSE api END;
-- What a memory operation is called: its direction and, where it is known and not the usual, the memory on its host side, or
-- of two devices' memory what is special. OpenCL's copies are from and to pageable memory where nothing else is said.
CREATE OR REPLACE MACRO _unusual(side, api) AS nullif(side, CASE api WHEN 'OpenCL' THEN 'pageable' END);
CREATE OR REPLACE MACRO memory_operation(kind, source, target, api) AS kind || coalesce(CASE
    WHEN kind = 'HtoD' THEN ' (' || _unusual(source, api) || ')' WHEN kind = 'DtoH' THEN ' (' || _unusual(target, api) || ')'
    WHEN kind = 'DtoD' AND source != 'device' THEN ' (' || source || ')' WHEN kind = 'DtoD' AND target != 'device' THEN ' (' || target || ')' END, '');
CREATE OR REPLACE MACRO host_mode(mode) AS mode IN ('Serial', 'OpenMP');

-- Median per key of a histogram (key, value, n): the mean of the two middle ones, as of a sorted list.
CREATE OR REPLACE MACRO medians(hist) AS TABLE (
    WITH cumulated AS (
        SELECT key, value, sum(n) OVER (PARTITION BY key ORDER BY value) AS upto, sum(n) OVER (PARTITION BY key) AS total
        FROM query_table(hist)
    )
    SELECT key, (min(value) FILTER (upto >= (total + 1) // 2) + min(value) FILTER (upto >= total // 2 + 1)) / 2 AS median
    FROM cumulated GROUP BY key
);

-- Time per key in which at least one of its intervals (key, s, e) runs: their union.
CREATE OR REPLACE MACRO busy(intervals) AS TABLE (
    WITH ordered AS (
        SELECT key, s, e, max(e) OVER (PARTITION BY key ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until
        FROM query_table(intervals)
    )
    SELECT key, sum(CASE WHEN until IS NULL THEN span(s, e) WHEN e > until THEN span(greatest(s, until), e) ELSE 0 END) AS busy
    FROM ordered GROUP BY key
);

-- Statistics per key of single values (key, v); the median through the histogram, so that memory stays bounded.
CREATE OR REPLACE MACRO statistics(samples) AS TABLE (
    WITH source AS (SELECT key, v FROM query_table(samples)),
    hist AS (SELECT key, bucket_middle(bucket(v)) AS value, count(*) AS n FROM source WHERE v IS NOT NULL GROUP BY key, bucket(v)),
    sums AS (
        SELECT key, count(*) AS calls, sum(v) AS total, avg(v) AS mean, min(v) AS lowest, max(v) AS highest,
               CASE WHEN count(v) > 1 THEN stddev_samp(v) ELSE 0 END AS deviation
        FROM source GROUP BY key
    )
    SELECT key, calls, total, mean, least(greatest(median, lowest), highest) AS median, lowest, highest, deviation
    FROM sums LEFT JOIN medians(hist) USING (key)
);

-- The number of a place in Python code among the call sites: above all others.
CREATE OR REPLACE MACRO python_site(frame) AS (2147483648 + frame)::UINTEGER;

-- Whose code a place in Python is; of runs that did not record it, by its file.
CREATE OR REPLACE MACRO python_part(part, source) AS CASE
    WHEN part != '' THEN part
    WHEN source LIKE '%/site-packages/%' OR source LIKE '%/dist-packages/%' OR source LIKE '<%' OR regexp_matches(source, '/lib/python3[^/]*/[^/]+$') THEN 'library'
    ELSE 'program' END;

-- For each place in Python code (leaf) of a process the innermost line on its stack that is the program's own; where there is none, that
-- of the installed package that the program is, or the outermost of any package, or of all; and what in a package was called through.
CREATE OR REPLACE MACRO own_lines(frames) AS TABLE (
    WITH RECURSIVE walked AS (
        SELECT process, id AS leaf, id, parent, function, source, line, python_part(part, source) AS part FROM query_table(frames)
        UNION ALL
        SELECT w.process, w.leaf, f.id, f.parent, f.function, f.source, f.line, python_part(f.part, f.source)
        FROM walked w JOIN query_table(frames) f ON f.process = w.process AND f.id = w.parent
        WHERE w.part != 'program'
    ),
    -- A caller has the lower number. The walk ends at the program's own.
    own AS (
        SELECT process, leaf, arg_max(struct_pack(function, source, line, id), (CASE WHEN part = 'program' THEN 3 WHEN part = 'package' THEN 2 WHEN source LIKE '%-packages/%' THEN 1 ELSE 0 END,
                                                                               CASE part WHEN 'package' THEN id::BIGINT ELSE -id::BIGINT END)) AS found
        FROM walked GROUP BY ALL
    )
    SELECT o.process, o.leaf, o.found.function AS function, o.found.source AS file, o.found.line AS line, o.found.source || ':' || o.found.line AS source,
           CASE WHEN o.found.id != o.leaf THEN CASE WHEN f.source LIKE '%/%' THEN regexp_extract(f.source, '[^/]*/[^/]*$') ELSE f.source END || ':' || f.line || ' ' || f.function ELSE '' END AS through
    FROM own o JOIN query_table(frames) f ON f.process = o.process AND f.id = o.leaf
);
