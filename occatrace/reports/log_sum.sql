-- title: Log
-- about: what the program logged (--python logging), by level, logger and line, as often as it did; the text is that of the first
-- empty: nothing was logged (occa_prof --python logging)
-- column: calls count Messages
-- column: first_ns ns First (since the first call, range or work of the run)
-- column: last_ns ns Last
-- column: level text Level
-- column: logger text Logger
-- column: name text Message
-- column: source source Source
SELECT count(*) AS calls, min(time_ns)::BIGINT - run_zero()::BIGINT AS first_ns, max(time_ns)::BIGINT - run_zero()::BIGINT AS last_ns,
       level_name AS level, logger, arg_min(text, time_ns) AS name, source || ':' || line AS source
FROM messages GROUP BY level, level_name, logger, source, line
ORDER BY level DESC, calls DESC, logger, source
