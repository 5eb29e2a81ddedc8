-- title: Memory operations by size
-- about: bytes of copies, fills and maps by kind, on devices and by OCCA in Serial and OpenMP mode; failed ones moved nothing
-- share: of the bytes of all memory operations
-- of: activities occa_copies
-- sums: size memory_callers
-- column: share percent Bytes
-- column: bytes bytes Total
-- column: calls count Count
-- column: avg_bytes bytes Avg
-- column: med_bytes bytes Med
-- column: min_bytes bytes Min
-- column: max_bytes bytes Max
-- column: stddev_bytes bytes StdDev
-- column: mode text Mode (API of the device, or OCCA mode)
-- column: name text Operation
-- column: caller source Line (of the program, that moves most of its bytes; and how many others move some)
SELECT share(total, sum(total) OVER ()) AS share, total AS bytes, calls, mean AS avg_bytes, median AS med_bytes,
       lowest AS min_bytes, highest AS max_bytes, deviation AS stddev_bytes, mode, name, coalesce(by_bytes, '') AS caller
FROM size_sums LEFT JOIN memory_callers USING (name, mode) ORDER BY total DESC, name, mode
