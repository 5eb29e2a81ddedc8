/* One tracepoint of the test program. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER occatrace_probe
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./probe_tp.h"
#if !defined(PROBE_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PROBE_TP_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(occatrace_probe, tick, LTTNG_UST_TP_ARGS(int, pid, int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, pid, pid)
                                                   lttng_ust_field_integer(int, number, number)))
#endif
#include <lttng/tracepoint-event.h>
