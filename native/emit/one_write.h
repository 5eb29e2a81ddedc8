/* Fewer, larger writes into LTTng's buffers, for the probes that are made after this header. LTTng-UST hands over each field of
 * an event by a call of its own, of some 65 instructions; here those of a fixed size are laid side by side and handed over at
 * once. What lies in the trace is the same. Only where fields have no gaps between them, and for the versions of LTTng-UST
 * whose macros are known: else it is LTTng's own way. */
#ifndef OCCATRACE_ONE_WRITE_H
#define OCCATRACE_ONE_WRITE_H

#include <errno.h>

#include <lttng/ust-events.h>
#include <lttng/ust-ringbuffer-context.h>
#include <lttng/ust-tracer.h>
#include <lttng/ust-version.h>
#include <string.h>

#if LTTNG_UST_MAJOR_VERSION == 2 && (LTTNG_UST_MINOR_VERSION == 13 || LTTNG_UST_MINOR_VERSION == 14) && \
    !defined(LTTNG_UST_RING_BUFFER_NATURAL_ALIGN)

/* How many bytes are held is known to the compiler after each field, as long as no address of it leaves the probe: it is no
 * member of what event_write is given. */
#define OCCATRACE_LINE 256

static inline __attribute__((always_inline, unused)) void occatrace_hand_over(
    const char *line, size_t *held, const struct lttng_ust_channel_buffer_ops *ops, struct lttng_ust_ring_buffer_ctx *ctx) {
  if (*held != 0) ops->event_write(ctx, line, *held, 1);
  *held = 0;
}

static inline __attribute__((always_inline, unused)) void occatrace_put(
    char *line, size_t *held, const struct lttng_ust_channel_buffer_ops *ops, struct lttng_ust_ring_buffer_ctx *ctx,
    const void *field, size_t length) {
  const int fixed = __builtin_constant_p(length) && length <= sizeof(uint64_t);
  if (!fixed || *held + length > OCCATRACE_LINE) occatrace_hand_over(line, held, ops, ctx);
  if (!fixed) {
    ops->event_write(ctx, field, length, 1);
    return;
  }
  memcpy(line + *held, field, length);
  *held += length;
}

/* In LTTng's probes these names stand behind `__chan->ops->`; the first word of each makes an expression of that. */
#pragma GCC diagnostic ignored "-Wunused-value"
#define lttng_ust_ring_buffer_ctx_init(...) \
  char __line[OCCATRACE_LINE]; \
  size_t __held = 0; \
  lttng_ust_ring_buffer_ctx_init(__VA_ARGS__)
#define event_write(ctx, field, length, alignment) \
  event_reserve, occatrace_put(__line, &__held, __chan->ops, ctx, field, length)
#define event_strcpy(ctx, text, length) \
  event_reserve, occatrace_hand_over(__line, &__held, __chan->ops, ctx), __chan->ops->event_strcpy(ctx, text, length)
#define event_pstrcpy_pad(ctx, text, length) \
  event_reserve, occatrace_hand_over(__line, &__held, __chan->ops, ctx), __chan->ops->event_pstrcpy_pad(ctx, text, length)
#define event_commit(ctx) \
  event_reserve, occatrace_hand_over(__line, &__held, __chan->ops, ctx), __chan->ops->event_commit(ctx)

#endif

/* The buffers have no room. `__ret` is what LTTng's probes look at next. */
#if LTTNG_UST_MAJOR_VERSION == 2 && (LTTNG_UST_MINOR_VERSION == 13 || LTTNG_UST_MINOR_VERSION == 14)
static void occatrace_no_room(void);
#define event_reserve(ctx) \
  event_reserve(ctx); \
  if (__builtin_expect(__ret == -ENOBUFS, 0)) occatrace_no_room()
#endif
#endif
