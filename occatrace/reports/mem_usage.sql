-- title: OCCA memory
-- about: memory that OCCA allocated, by mode: how much was in use at most, when, and at the end
-- needs: calls
-- column: high_water_bytes bytes High water
-- column: high_water_at_ns ns At (since the first call or work of the run)
-- column: in_use_bytes bytes At the end
-- column: allocations count Allocations
-- column: bytes bytes Allocated
-- column: frees count Frees
-- column: freed_bytes bytes Freed
-- column: largest_bytes bytes Largest
-- column: name text Mode
WITH changes AS (
    SELECT mode, end_ns AS moment, bytes::HUGEINT AS change FROM occa_allocations
    UNION ALL
    SELECT mode, start_ns, -bytes::HUGEINT FROM occa_frees
),
curve AS (
    SELECT mode, moment, sum(change) OVER (PARTITION BY mode ORDER BY moment, change DESC ROWS UNBOUNDED PRECEDING) AS in_use FROM changes
)
SELECT max(c.in_use) AS high_water_bytes, arg_max(c.moment, c.in_use) - run_zero() AS high_water_at_ns,
       (SELECT sum(change) FROM changes x WHERE x.mode = c.mode) AS in_use_bytes,
       (SELECT count(*) FROM occa_allocations a WHERE a.mode = c.mode) AS allocations,
       (SELECT sum(bytes) FROM occa_allocations a WHERE a.mode = c.mode) AS bytes,
       (SELECT count(*) FROM occa_frees f WHERE f.mode = c.mode) AS frees,
       coalesce((SELECT sum(bytes) FROM occa_frees f WHERE f.mode = c.mode), 0) AS freed_bytes,
       (SELECT max(bytes) FROM occa_allocations a WHERE a.mode = c.mode) AS largest_bytes, c.mode AS name
FROM curve c GROUP BY c.mode ORDER BY high_water_bytes DESC, name
