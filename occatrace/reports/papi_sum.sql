-- title: Counters of PAPI by kernel and range
-- about: what --papi counted in calls of OCCA kernels (modes Serial and OpenMP) and in ranges, with the OpenMP teams that worked for them.
--   A range has in it what the ranges and kernels inside counted. Rate: by the time of those calls and ranges that were counted
-- empty: nothing was counted (occa_prof --papi EVENTS)
-- of: papi_counts
-- group: counter
-- sums: counted
-- column: total count Total
-- column: calls count Count (calls of the kernel, or times that the range was open)
-- column: avg number Avg
-- column: min count Min
-- column: max count Max
-- column: rate number Per second
-- column: counter text Event
-- column: kind text Kind
-- column: name text Kernel or range
-- column: source source Source
SELECT total::BIGINT AS total, calls, mean AS avg, lowest AS min, highest AS max,
       CASE WHEN ns > 0 THEN total * 1e9 / ns END AS rate, counter, kind, name, source
FROM counted_sums
ORDER BY counter, kind, total DESC, name, source
