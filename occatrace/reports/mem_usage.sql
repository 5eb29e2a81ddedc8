-- title: Memory
-- about: allocated memory per device (or OCCA mode) and kind: the most that was in use at once, when, and what was left at the
--   end. OCCA's objects lie in memory of the API below, so the tables of two APIs do not add up. Slices and sub-buffers
--   count no bytes, and memory of the program that was only made known (wrapped) is not in the sums.
-- empty: no allocations recorded (at the level tally, and at minimal for all but OCCA, calls leave no events)
-- group: api
-- column: high_water_bytes bytes High water (most in use at once)
-- column: high_water_at_ns ns At (when it was reached first, since the first call, range or work of the run)
-- column: in_use_bytes bytes At the end (never freed)
-- column: allocations count Allocations
-- column: frees count Frees
-- column: bytes bytes Allocated (sum of all)
-- column: largest_bytes bytes Largest
-- column: occa_bytes bytes For OCCA (of the sum of all: what lies under objects of OCCA)
-- column: api text API
-- column: kind text Kind (all: the sum of the kinds, whose own high waters need not be at the same time)
-- column: name text Device or mode
WITH placed AS (
    SELECT a.*, CASE a.api WHEN 'occa' THEN coalesce(nullif(a.mode, ''), 'unknown mode') ELSE coalesce(d.name, 'unknown device') END AS name
    FROM allocations a LEFT JOIN devices d USING (device)
),
several AS (SELECT api, name FROM placed WHERE kind NOT IN ('slice', 'wrapped') GROUP BY ALL HAVING count(DISTINCT kind) > 1),
counted AS (
    SELECT api, name, kind, start_ns, end_ns, bytes, scope_seq FROM placed
    UNION ALL
    SELECT api, name, 'all', start_ns, end_ns, bytes, scope_seq FROM placed JOIN several USING (api, name) WHERE kind NOT IN ('slice', 'wrapped')
),
changes AS (
    SELECT api, name, kind, start_ns AS moment, bytes::HUGEINT AS change FROM counted
    UNION ALL
    SELECT api, name, kind, end_ns, -bytes::HUGEINT FROM counted WHERE end_ns IS NOT NULL
),
curve AS (
    SELECT api, name, kind, moment, sum(change) OVER (PARTITION BY api, name, kind ORDER BY moment, change DESC ROWS UNBOUNDED PRECEDING) AS in_use
    FROM changes
),
-- The highest, and of those alike the earliest, in one go.
tops AS (SELECT api, name, kind, max({'high': in_use, 'before': -moment::HUGEINT}) AS top FROM curve GROUP BY ALL),
highs AS (SELECT api, name, kind, top.high AS high, -top.before AS reached FROM tops),
sums AS (
    SELECT api, name, kind, count(*) AS allocations, count(end_ns) AS frees, sum(bytes) AS bytes, max(bytes) AS largest,
           coalesce(sum(bytes) FILTER (end_ns IS NULL), 0) AS left_over, coalesce(sum(bytes) FILTER (scope_seq IS NOT NULL), 0) AS for_occa
    FROM counted GROUP BY ALL
)
SELECT CASE WHEN kind != 'slice' THEN high END AS high_water_bytes,
       CASE WHEN kind != 'slice' THEN reached - run_zero() END AS high_water_at_ns,
       CASE WHEN kind != 'slice' THEN left_over END AS in_use_bytes, allocations, frees,
       CASE WHEN kind != 'slice' THEN bytes END AS bytes, largest AS largest_bytes,
       CASE WHEN api != 'occa' AND kind != 'slice' THEN for_occa END AS occa_bytes, api, kind, name
FROM sums JOIN highs USING (api, name, kind)
ORDER BY api != 'occa', api, max(CASE WHEN kind NOT IN ('slice', 'wrapped') THEN high END) OVER (PARTITION BY api, name) DESC NULLS LAST, name,
         kind != 'all', kind = 'slice', kind = 'wrapped', high DESC, kind
