/* Some events of THAPI (https://github.com/argonne-lcf/THAPI), declared by their published names and fields. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER lttng_ust_ze

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./thapi.h"

#if !defined(TEST_THAPI_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TEST_THAPI_H

#include <lttng/tracepoint.h>
#include <stdint.h>

#define GET(type, name) lttng_ust_field_integer_hex(type, name, name)
#define RAW(name, size) lttng_ust_field_sequence_text(uint8_t, name, name, size_t, size)

LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze, zeCommandListCreateImmediate_entry, LTTNG_UST_TP_ARGS(uintptr_t, hDevice),
    LTTNG_UST_TP_FIELDS(GET(uintptr_t, hDevice)))
LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze, zeCommandListCreateImmediate_exit, LTTNG_UST_TP_ARGS(int, zeResult, uintptr_t, phCommandList_val),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, zeResult, zeResult) GET(uintptr_t, phCommandList_val)))
LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze, zeKernelCreate_entry, LTTNG_UST_TP_ARGS(const char *, name),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(desc__pKernelName_val, name)))
LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze, zeKernelCreate_exit, LTTNG_UST_TP_ARGS(int, zeResult, uintptr_t, phKernel_val),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, zeResult, zeResult) GET(uintptr_t, phKernel_val)))
LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze, zeCommandListAppendLaunchKernel_entry,
    LTTNG_UST_TP_ARGS(uintptr_t, hCommandList, uintptr_t, hKernel, const uint8_t *, pLaunchFuncArgs_val, uintptr_t, hSignalEvent),
    LTTNG_UST_TP_FIELDS(GET(uintptr_t, hCommandList) GET(uintptr_t, hKernel) RAW(pLaunchFuncArgs_val, 12) GET(uintptr_t, hSignalEvent)))
LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze, zeCommandListAppendLaunchKernel_exit, LTTNG_UST_TP_ARGS(int, zeResult),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, zeResult, zeResult)))

#endif

#include <lttng/tracepoint-event.h>
