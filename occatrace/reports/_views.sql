-- Views that several reports stand on.

-- All work that moves or sets memory. OCCA's copies on devices are there as activities; on the host the call is the work.
CREATE OR REPLACE TEMP VIEW memory_operations AS
    SELECT a.kind AS name, coalesce(api_title(d.api), '') AS mode, a.start_ns, a.end_ns, a.bytes, a.status < 0 AS failed
    FROM activities a LEFT JOIN devices d USING (device)
    WHERE a.kind IN ('HtoD', 'DtoH', 'DtoD', 'HtoH', 'fill', 'map', 'unmap', 'migrate')
    UNION ALL
    SELECT kind, mode, start_ns, end_ns, bytes, error IS NOT NULL FROM occa_copies WHERE host_mode(mode);

-- Calls per function of the whole run, from events and tallies alike.
CREATE OR REPLACE TEMP VIEW api_rows AS
    WITH hist AS (
        SELECT {'api': api, 'name': function} AS key, value_ns AS value, sum(calls) AS n FROM call_hist GROUP BY ALL
    ),
    sums AS (
        SELECT {'api': api, 'name': function} AS key, sum(calls) AS n, sum(failed) AS failed, sum(total_ns) AS total,
               sum(total_ns) / sum(calls) AS mean, sum(m2) AS within, sum(bytes) AS bytes,
               min(min_ns) AS lowest, max(max_ns) AS highest
        FROM call_stats WHERE calls > 0 GROUP BY ALL
    ),
    between_threads AS (
        SELECT {'api': c.api, 'name': c.function} AS key, sum(c.calls * (c.mean_ns - s.mean) ** 2) AS spread
        FROM call_stats c JOIN sums s ON s.key.api = c.api AND s.key.name = c.function WHERE c.calls > 0 GROUP BY ALL
    )
    SELECT share(total, sum(total) OVER (PARTITION BY key.api)) AS share, total AS total_ns, n AS calls, mean AS avg_ns,
           least(greatest(median, lowest), highest) AS med_ns, lowest AS min_ns, highest AS max_ns,
           CASE WHEN n > 1 THEN sqrt((within + spread) / (n - 1)) ELSE 0 END AS stddev_ns, bytes, failed,
           key.api AS api, key.name AS name
    FROM sums LEFT JOIN medians(hist) USING (key) LEFT JOIN between_threads USING (key)
    ORDER BY sum(total) OVER (PARTITION BY key.api) DESC, key.api, total DESC, key.name;
