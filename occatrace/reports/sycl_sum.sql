-- title: SYCL commands
-- about: commands of SYCL by their kernel or operation and the line that submitted them, with the work on devices that the
--   runtime made of them. Host is the time from the start to the end of handing them to the backend.
-- share: of the device time of all commands
-- of: sycl_calls
-- sums: command
-- column: share percent Time
-- column: device_ns ns Device
-- column: calls count Commands
-- column: avg_ns ns Avg (device time of a command)
-- column: host_ns ns Host (time in which the runtime handed them to the backend)
-- column: waiting_ns ns Delay (mean time from the submission by the program to the start of the work)
-- column: dependencies count Depends (commands that these must wait for)
-- column: name text Command
-- column: source source Source (file and line of the submission)
SELECT share(total, sum(total) OVER ()) AS share, total AS device_ns, calls, mean AS avg_ns, host_ns,
       CASE WHEN waiting > 0 THEN waiting_ns / waiting END AS waiting_ns, dependencies, name, source
FROM command_sums ORDER BY total DESC NULLS LAST, host_ns DESC, name, source
