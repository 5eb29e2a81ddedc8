/* The events of THAPI that tell of devices. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER lttng_ust_ze_properties

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./thapi_devices.h"

#if !defined(TEST_THAPI_DEVICES_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TEST_THAPI_DEVICES_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze_properties, device, LTTNG_UST_TP_ARGS(uintptr_t, hDevice, const uint8_t *, properties, size_t, size),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uintptr_t, hDevice, hDevice)
        lttng_ust_field_sequence_text(uint8_t, pDeviceProperties_val, properties, size_t, size)))
LTTNG_UST_TRACEPOINT_EVENT(
    lttng_ust_ze_properties, device_timer, LTTNG_UST_TP_ARGS(uintptr_t, hDevice, uint64_t, host, uint64_t, device),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uintptr_t, hDevice, hDevice)
        lttng_ust_field_integer(uint64_t, hostTimestamp, host)
        lttng_ust_field_integer(uint64_t, deviceTimestamp, device)))
#endif

#include <lttng/tracepoint-event.h>
