-- title: Device work by range
-- about: device work launched inside each range, by calls of its thread, OCCA's included (of a range that may overlap others,
--   by any thread of its process while it was open); in the modes Serial and OpenMP the OCCA kernel call is the work. Nested
--   ranges count in each of them.
-- share: of all device work of the run
-- group: domain
-- sums: projected work
-- column: share percent Work
-- column: work_ns ns Work (sum of the durations)
-- column: busy_ns ns Busy (time in which at least one piece of it ran)
-- column: projected_ns ns Projected (from the start of the first activity to the end of the last, summed over the ranges)
-- column: range_ns ns Range (the ranges themselves, on the host)
-- column: calls count Ranges
-- column: kernels count Kernels
-- column: copies count Copies (and fills)
-- column: bytes bytes Bytes (moved)
-- column: domain text Domain (API, and its domain where it is not the default one)
-- column: name text Range
SELECT share(total, (SELECT sum(total) FROM work_sums)) AS share, total AS work_ns, busy AS busy_ns, projected_ns, range_ns,
       ranges AS calls, kernels, copies, bytes,
       api_title(api) || CASE WHEN p.domain != '' THEN ' ' || p.domain ELSE '' END AS domain, name
FROM projected_sums p
ORDER BY sum(total) OVER (PARTITION BY api, p.domain) DESC, api, p.domain, total DESC, name
