-- In place of the sums by call site in runs with lines of Python (--python lines): a call with such a line is counted there, and not
-- at the place in the extension module.

-- Single calls and their places in Python (python_frames.id). A call without one has that of the outermost call around it, as call
-- sites do.
CREATE OR REPLACE VIEW lined_calls AS
    WITH lined AS (SELECT c.thread, c.seq, c.end_ns, l.frame FROM calls c JOIN python_lines l USING (thread, seq)),
    outer_calls AS (
        SELECT thread, seq, end_ns, frame FROM lined
        QUALIFY coalesce(end_ns > max(end_ns) OVER (PARTITION BY thread ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true)
    ),
    others AS (SELECT c.process, c.thread, c.seq, c.end_ns FROM calls c ANTI JOIN python_lines l ON l.thread = c.thread AND l.seq = c.seq)
    SELECT process, thread, seq, frame FROM python_lines
    UNION ALL
    SELECT c.process, c.thread, c.seq, o.frame
    FROM others c ASOF JOIN outer_calls o ON o.thread = c.thread AND o.seq <= c.seq WHERE c.end_ns <= o.end_ns;

CREATE OR REPLACE VIEW call_site_stats AS
    WITH lined AS (
        SELECT c.process, c.thread, c.api, c.function, s.site AS taken, python_site(l.frame) AS site, count(*) AS calls,
               count(*) FILTER (c.failed) AS failed, sum(span(c.start_ns, c.end_ns)) AS total_ns,
               coalesce(sum(c.bytes) FILTER (c.failed IS NOT true), 0) AS bytes
        FROM calls c JOIN lined_calls l USING (thread, seq)
        LEFT JOIN native_call_sites s ON s.process = c.process AND s.address = c.caller GROUP BY ALL
    ),
    parts AS (
        SELECT process, thread, api, function, site, calls::HUGEINT AS calls, failed::HUGEINT AS failed, total_ns::HUGEINT AS total_ns,
               coalesce(bytes, 0)::HUGEINT AS bytes
        FROM native_call_site_stats
        UNION ALL
        SELECT process, thread, api, function, taken, -calls, -failed, -total_ns, -bytes FROM lined WHERE taken IS NOT NULL
        UNION ALL
        SELECT process, thread, api, function, site, calls, failed, total_ns, bytes FROM lined
    )
    SELECT process, thread, api, function, site, sum(calls)::UBIGINT AS calls, sum(failed)::UBIGINT AS failed,
           sum(total_ns)::UBIGINT AS total_ns, sum(bytes)::UBIGINT AS bytes
    FROM parts GROUP BY ALL HAVING sum(calls) > 0;
