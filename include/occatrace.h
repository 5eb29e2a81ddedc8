/* occatrace.h: mark ranges, moments and counters of a program for occatrace. One header, C and C++, nothing to link.
 *
 *   occatrace_push("assemble"); ... occatrace_pop();            ranges of a thread, nested
 *   uint64_t id = occatrace_begin("request"); ... occatrace_end(id);   ranges that overlap, or end in another thread
 *   occatrace_mark("converged");                                a moment
 *   occatrace_counter("residual", r, "");                       a value over time
 *   occatrace_capture_stop(); occatrace_capture_start();        record only what matters
 *   { occatrace::scope s("solve"); ... }                        C++
 *
 * Where the program does not run under occa_prof every one of them is one test of a pointer. The functions below are found
 * by the dynamic linker in the preloaded library; a program that is linked statically has none, and runs the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef OCCATRACE_H
#define OCCATRACE_H

#include <stdint.h>
#ifndef __cplusplus
#include <stddef.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The interface between this header and the library; versioned, so that old programs find what they know. Weak: absent
 * without occatrace. Through the global offset table (noplt), or a position-dependent program would settle it when it is linked. */
#if defined(OCCATRACE_IMPLEMENTATION)
#define OCCATRACE_FUNCTION_ __attribute__((visibility("default")))
#elif defined(__has_attribute)
#if __has_attribute(noplt)
#define OCCATRACE_FUNCTION_ __attribute__((weak, visibility("default"), noplt))
#endif
#endif
#ifndef OCCATRACE_FUNCTION_
#define OCCATRACE_FUNCTION_ __attribute__((weak, visibility("default")))
#endif
extern OCCATRACE_FUNCTION_ int occatrace_v1_push(const char *name, uint32_t argb, const char *values);
extern OCCATRACE_FUNCTION_ int occatrace_v1_pop(void);
extern OCCATRACE_FUNCTION_ uint64_t occatrace_v1_begin(const char *name, uint32_t argb, const char *values);
extern OCCATRACE_FUNCTION_ void occatrace_v1_end(uint64_t id);
extern OCCATRACE_FUNCTION_ void occatrace_v1_mark(const char *name, uint32_t argb, const char *values);
extern OCCATRACE_FUNCTION_ void occatrace_v1_counter(const char *name, double value, const char *unit);
extern OCCATRACE_FUNCTION_ void occatrace_v1_capture(int on);

/* What has been done since `since`; times in ns of CLOCK_MONOTONIC. Texts stay where they are as long as the process. */
struct occatrace_live_work { const char *kind; uint64_t count, ns, bytes; };  /* finished device work of a kind */
struct occatrace_live_kernel { const char *name; uint64_t count, ns; };
struct occatrace_live_memory { const char *api, *kind, *mode; uint64_t in_use, high, count; }; /* count: objects in use */
struct occatrace_live {
  uint64_t since, now;
  uint64_t memory_in_use, memory_high; /* bytes of the devices */
  uint32_t kinds, kernels, memories;   /* how many of each there are */
  struct occatrace_live_work work[16];
};
/* 1: done, with as many kernels and kinds of memory as there is room for; 0: nothing is recorded in this process. The first
 * call begins to count, unless OCCATRACE_LIVE=1 has done it from the begin of the process. */
extern OCCATRACE_FUNCTION_ int occatrace_v1_live(struct occatrace_live *out, struct occatrace_live_kernel *kernels, uint32_t room_for_kernels,
                                                 struct occatrace_live_memory *memory, uint32_t room_for_memory);

#if !defined(OCCATRACE_IMPLEMENTATION)
#define OCCATRACE_INLINE_ static inline __attribute__((unused))

/* Whether the program runs under occatrace. */
OCCATRACE_INLINE_ int occatrace_present(void) { return occatrace_v1_push != 0; }

/* A range of this thread begins. The text is copied. `argb` is its colour (0xff00ff00 is green), 0 = none; `values` is any
 * text to be shown with it, or NULL. */
OCCATRACE_INLINE_ void occatrace_push_with(const char *name, uint32_t argb, const char *values) {
  if (occatrace_v1_push) (void)occatrace_v1_push(name, argb, values);
}
OCCATRACE_INLINE_ void occatrace_push(const char *name) { occatrace_push_with(name, 0, 0); }
/* The innermost range of this thread ends. */
OCCATRACE_INLINE_ void occatrace_pop(void) {
  if (occatrace_v1_pop) (void)occatrace_v1_pop();
}

/* A range that may overlap others and end in another thread; 0 where nothing is recorded. */
OCCATRACE_INLINE_ uint64_t occatrace_begin_with(const char *name, uint32_t argb, const char *values) {
  return occatrace_v1_begin ? occatrace_v1_begin(name, argb, values) : 0;
}
OCCATRACE_INLINE_ uint64_t occatrace_begin(const char *name) { return occatrace_begin_with(name, 0, 0); }
OCCATRACE_INLINE_ void occatrace_end(uint64_t id) {
  if (occatrace_v1_end) occatrace_v1_end(id);
}

/* A moment. */
OCCATRACE_INLINE_ void occatrace_mark_with(const char *name, uint32_t argb, const char *values) {
  if (occatrace_v1_mark) occatrace_v1_mark(name, argb, values);
}
OCCATRACE_INLINE_ void occatrace_mark(const char *name) { occatrace_mark_with(name, 0, 0); }

/* The value of something from now on; `unit` may be "" or NULL. */
OCCATRACE_INLINE_ void occatrace_counter(const char *name, double value, const char *unit) {
  if (occatrace_v1_counter) occatrace_v1_counter(name, value, unit);
}

/* Nothing is recorded between stop and start, in the whole process. Recording is on when a program begins. */
OCCATRACE_INLINE_ void occatrace_capture_stop(void) {
  if (occatrace_v1_capture) occatrace_v1_capture(0);
}
OCCATRACE_INLINE_ void occatrace_capture_start(void) {
  if (occatrace_v1_capture) occatrace_v1_capture(1);
}

/* Sums of the device work that has finished and of the memory in use, without stopping anything. */
OCCATRACE_INLINE_ int occatrace_live_with(struct occatrace_live *out, struct occatrace_live_kernel *kernels, uint32_t room_for_kernels,
                                          struct occatrace_live_memory *memory, uint32_t room_for_memory) {
  return occatrace_v1_live ? occatrace_v1_live(out, kernels, room_for_kernels, memory, room_for_memory) : 0;
}
#endif

#ifdef __cplusplus
}

#if !defined(OCCATRACE_IMPLEMENTATION)
namespace occatrace {

/* A range for as long as the object lives. It ends in the thread in which it began. */
class scope {
 public:
  explicit scope(const char *name, uint32_t argb = 0, const char *values = nullptr) {
    occatrace_push_with(name, argb, values);
  }
  ~scope() { occatrace_pop(); }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;
};

}  // namespace occatrace
#endif
#endif
#endif
