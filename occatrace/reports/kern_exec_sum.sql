-- title: Kernel launches: call, queue, kernel
-- about: how long the launching call took, how long the kernel waited in its queue, and how long it ran
-- needs: calls
-- counts: activities
-- share: of the time of all of these calls, waits and kernels
-- column: share percent Time
-- column: calls count Calls
-- column: api_avg_ns ns Call
-- column: queue_avg_ns ns Queue
-- column: kernel_avg_ns ns Kernel
-- column: api_ns ns Calls total
-- column: queue_ns ns Queue total
-- column: kernel_ns ns Kernels total
-- column: function text Launched by
-- column: name text Name
WITH launches AS (
    SELECT a.name, c.function, span(c.start_ns, c.end_ns) AS api, span(a.queued_ns, a.start_ns) AS queue, span(a.start_ns, a.end_ns) AS run
    FROM activities a JOIN enqueuing_calls() c ON c.thread = a.thread AND c.seq = a.seq WHERE a.kind = 'kernel'
),
sums AS (
    SELECT name, function, count(*) AS calls, sum(api) AS api, sum(queue) AS queue, sum(run) AS run FROM launches GROUP BY name, function
)
SELECT share(api + queue + run, sum(api + queue + run) OVER ()) AS share, calls, api / calls AS api_avg_ns, queue / calls AS queue_avg_ns,
       run / calls AS kernel_avg_ns, api AS api_ns, queue AS queue_ns, run AS kernel_ns, function, name
FROM sums ORDER BY api + queue + run DESC, name
