-- title: Balance of ranks
-- about: what each rank spends on kernels, memory and calls: the rank with least, the one with most, and the mean of all
--   ranks (of those, too, that have none); first what costs most by its imbalance. What differs by less than 1 µs is
--   left out
-- share: of the mean of all ranks
-- group: what
-- sums: balance_sums
-- column: imbalance percent Imbalance (by how much the slowest rank is above the mean)
-- column: excess_ns ns Slowest above mean
-- column: total_ns ns Total
-- column: avg_ns ns Mean of ranks
-- column: min_ns ns Min
-- column: min_rank number Of rank
-- column: max_ns ns Max
-- column: max_rank number Of rank
-- column: ranks count Ranks (that have any)
-- column: what text Kind
-- column: name text Name
WITH rows AS (SELECT *, CASE WHEN size > 0 THEN total / size ELSE 0 END AS mean FROM balance_sums)
SELECT CASE WHEN mean > 0 THEN 100.0 * (high / mean - 1) ELSE 0.0 END AS imbalance, high - mean AS excess_ns, total AS total_ns,
       mean AS avg_ns, low AS min_ns, low_rank AS min_rank, high AS max_ns, high_rank AS max_rank, ranks, what, name
FROM rows WHERE is_imbalance(high - mean)
ORDER BY max(high - mean) OVER (PARTITION BY what) DESC, what, excess_ns DESC, total DESC, name
