/* The tracepoints of the column tests: every field type that LTTng-UST can write, and one event shaped like a traced call. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER columns_test

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"

#if !defined(COLUMNS_TEST_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define COLUMNS_TEST_PROVIDER_H

#include <lttng/tracepoint.h>
#include <arpa/inet.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(columns_test, empty, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

LTTNG_UST_TRACEPOINT_EVENT(
    columns_test, scalars, LTTNG_UST_TP_ARGS(uint32_t, thread, uint64_t, n),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, thread, thread)
        lttng_ust_field_integer(uint64_t, n, n)
        lttng_ust_field_integer(uint8_t, u8, (uint8_t)n)
        lttng_ust_field_integer(int8_t, i8, (int8_t)-n)
        lttng_ust_field_integer(uint16_t, u16, (uint16_t)(n * 257))
        lttng_ust_field_integer(int16_t, i16, (int16_t)(n * -257))
        lttng_ust_field_integer(uint32_t, u32, (uint32_t)(n * 65537))
        lttng_ust_field_integer(int32_t, i32, (int32_t)(n * -65537))
        lttng_ust_field_integer_hex(uint64_t, u64, n * 0x100000001ull)
        lttng_ust_field_integer(int64_t, i64, -(int64_t)(n * 0x100000001ull))
        lttng_ust_field_integer_network(uint32_t, big_endian_on_the_wire, htonl((uint32_t)n))
        lttng_ust_field_float(float, f32, (float)n / 4)
        lttng_ust_field_float(double, f64, (double)n / 3)))

/* No field in network byte order: the layout that the generator of occatrace emits. */
LTTNG_UST_TRACEPOINT_EVENT(
    columns_test, native, LTTNG_UST_TP_ARGS(uint32_t, thread, uint64_t, n),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, thread, thread)
        lttng_ust_field_integer(uint64_t, n, n)
        lttng_ust_field_integer(uint8_t, u8, (uint8_t)n)
        lttng_ust_field_integer(int8_t, i8, (int8_t)-n)
        lttng_ust_field_integer(uint16_t, u16, (uint16_t)(n * 257))
        lttng_ust_field_integer(int16_t, i16, (int16_t)(n * -257))
        lttng_ust_field_integer(uint32_t, u32, (uint32_t)(n * 65537))
        lttng_ust_field_integer(int32_t, i32, (int32_t)(n * -65537))
        lttng_ust_field_integer_hex(uint64_t, u64, n * 0x100000001ull)
        lttng_ust_field_integer(int64_t, i64, -(int64_t)(n * 0x100000001ull))
        lttng_ust_field_float(float, f32, (float)n / 4)
        lttng_ust_field_float(double, f64, (double)n / 3)))

LTTNG_UST_TRACEPOINT_EVENT(
    columns_test, text,
    LTTNG_UST_TP_ARGS(uint32_t, thread, uint64_t, n, const char *, text, unsigned, length, const char *, padded),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, thread, thread)
        lttng_ust_field_integer(uint64_t, n, n)
        lttng_ust_field_string(name, text)
        lttng_ust_field_array_text(char, fixed, padded, 12)
        lttng_ust_field_sequence_text(char, piece, text, uint32_t, length)
        lttng_ust_field_string(last, "end")))

LTTNG_UST_TRACEPOINT_EVENT(
    columns_test, lists,
    LTTNG_UST_TP_ARGS(uint32_t, thread, uint64_t, n, const uint16_t *, shorts, const int32_t *, ints, unsigned, count,
                      const uint64_t *, longs),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, thread, thread)
        lttng_ust_field_integer(uint64_t, n, n)
        lttng_ust_field_array(uint16_t, fixed, shorts, 4)
        lttng_ust_field_sequence(int32_t, some, ints, uint32_t, count)
        lttng_ust_field_sequence_hex(uint64_t, longs, longs, uint8_t, (uint8_t)(count / 2))
        lttng_ust_field_integer(uint8_t, after, (uint8_t)count)))

LTTNG_UST_TRACEPOINT_ENUM(
    columns_test, colour,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("red", 0)
        lttng_ust_field_enum_value("green", 1)
        lttng_ust_field_enum_range("blue", 2, 200)
        lttng_ust_field_enum_value("none", -1)))

LTTNG_UST_TRACEPOINT_EVENT(
    columns_test, kinds, LTTNG_UST_TP_ARGS(uint32_t, thread, uint64_t, n),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, thread, thread)
        lttng_ust_field_integer(uint64_t, n, n)
        lttng_ust_field_enum(columns_test, colour, int16_t, colour, (int16_t)(n % 5) - 1)
        lttng_ust_field_enum(columns_test, colour, uint8_t, small, (uint8_t)(n % 4))))

LTTNG_UST_TRACEPOINT_EVENT(
    columns_test, call,
    LTTNG_UST_TP_ARGS(uint32_t, tid, uint32_t, seq, uint64_t, start, const void *, handle, uint64_t, bytes, int32_t, ret),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, tid, tid)
        lttng_ust_field_integer(uint32_t, seq, seq)
        lttng_ust_field_integer(uint64_t, start, start)
        lttng_ust_field_integer_hex(uintptr_t, handle, (uintptr_t)handle)
        lttng_ust_field_integer(uint64_t, bytes, bytes)
        lttng_ust_field_integer(int32_t, ret, ret)))

#endif

#include <lttng/tracepoint-event.h>
