/* The events of THAPI that tell when work ran. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER lttng_ust_ze_profiling

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./thapi_times.h"

#if !defined(TEST_THAPI_TIMES_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TEST_THAPI_TIMES_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze_profiling, event_profiling, LTTNG_UST_TP_ARGS(uintptr_t, hEvent),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_hex(uintptr_t, hEvent, hEvent)))
LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze_profiling, event_profiling_results, LTTNG_UST_TP_ARGS(uintptr_t, hEvent, uint64_t, start, uint64_t, end),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uintptr_t, hEvent, hEvent)
        lttng_ust_field_integer(int, status, 0)
        lttng_ust_field_integer(int, timestampStatus, 0)
        lttng_ust_field_integer(uint64_t, globalStart, start)
        lttng_ust_field_integer(uint64_t, globalEnd, end)
        lttng_ust_field_integer(uint64_t, contextStart, start)
        lttng_ust_field_integer(uint64_t, contextEnd, end)))
#endif

#include <lttng/tracepoint-event.h>
