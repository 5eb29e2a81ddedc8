/* What LTTng's macros make for each event and is the same for many: two thousand events have some five hundred forms. Most of the
 * time that the compiler needs for a provider was for these copies. The trace is the same. */
#ifndef OCCATRACE_ALIKE_H
#define OCCATRACE_ALIKE_H

#include <limits.h>
#include <lttng/ust-endian.h>
#include <lttng/tracepoint.h>
#include <lttng/ust-events.h>

/* As lttng_ust_tracepoint: the part behind its test whether the event is enabled. */
__attribute__((noinline, unused)) static void occatrace_write(const struct lttng_ust_tracepoint *event, const void *a) {
  if (caa_unlikely(!LTTNG_UST_TP_RCU_LINK_TEST())) return;
  lttng_ust_tp_rcu_read_lock();
  const struct lttng_ust_tracepoint_probe *probe = lttng_ust_tp_rcu_dereference(event->probes);
  if (caa_likely(probe != NULL)) {
    do {
      ((void (*)(void *, const void *))probe->func)(probe->data, a);
    } while ((++probe)->func != NULL);
  }
  lttng_ust_tp_rcu_read_unlock();
}
#define OCCATRACE_WRITE(provider, event, a) \
  do { \
    if (lttng_ust_tracepoint_enabled(provider, event)) occatrace_write(&lttng_ust_tracepoint_##provider##___##event, a); \
  } while (0)

/* ---- events that lie in LTTng's buffers as another one does: its probe, and data that say what was written ---- */

#define OCCATRACE_FIELD(title, form) {.struct_size = sizeof(struct lttng_ust_event_field), .name = title, .type = form}
#define OCCATRACE_INTEGER(ctype, title, base) \
  OCCATRACE_FIELD(title, lttng_ust_type_integer_define(ctype, LTTNG_UST_BYTE_ORDER, base))
#define OCCATRACE_FLOAT(ctype, title) OCCATRACE_FIELD(title, lttng_ust_type_float_define(ctype))
#define OCCATRACE_TYPE(kind, ...) \
  ((const struct lttng_ust_type_common *)&(const struct lttng_ust_type_##kind){ \
      .parent = {.type = lttng_ust_type_##kind}, .struct_size = sizeof(struct lttng_ust_type_##kind), __VA_ARGS__})
#define OCCATRACE_STRING(title) OCCATRACE_FIELD(title, OCCATRACE_TYPE(string, .encoding = lttng_ust_string_encoding_UTF8))
#define OCCATRACE_ENUM(values, ctype, title) \
  OCCATRACE_FIELD(title, OCCATRACE_TYPE(enum, .desc = &__enum_##values, \
                                        .container_type = lttng_ust_type_integer_define(ctype, LTTNG_UST_BYTE_ORDER, 10)))
/* The number of elements is a field of its own, in front. */
#define OCCATRACE_LENGTH(title) \
  {.struct_size = sizeof(struct lttng_ust_event_field), \
   .name = "_" title "_length", \
   .type = lttng_ust_type_integer_define(uint16_t, LTTNG_UST_BYTE_ORDER, 10), \
   .nofilter = 1}
#define OCCATRACE_SEQUENCE(ctype, title, base) \
  OCCATRACE_FIELD(title, OCCATRACE_TYPE(sequence, .elem_type = lttng_ust_type_integer_define(ctype, LTTNG_UST_BYTE_ORDER, base), \
                                        .encoding = lttng_ust_string_encoding_none))

/* What LTTng's macros name so for an event; it is declared before they are, because they point to it. */
#define OCCATRACE_CLASS(provider, event) static const struct lttng_ust_tracepoint_class lttng_ust__event_class___##provider##___##event
#define OCCATRACE_ALIKE(provider, event, carrier, other, other_carrier, ...) \
  _Static_assert(sizeof(struct carrier) == sizeof(struct other_carrier), "one probe writes both"); \
  static const struct lttng_ust_event_field *const provider##_##event##_fields[] = {__VA_ARGS__}; \
  OCCATRACE_CLASS(provider, event) = { \
      .struct_size = sizeof(struct lttng_ust_tracepoint_class), \
      .fields = provider##_##event##_fields, \
      .nr_fields = sizeof provider##_##event##_fields / sizeof *provider##_##event##_fields, \
      .probe_callback = (void (*)(void))lttng_ust__event_probe__##provider##___##other, \
      .signature = "const struct " #carrier " *, a", \
      .probe_desc = &lttng_ust__probe_desc___##provider}

#endif
