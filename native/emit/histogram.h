/* Log-linear histogram of durations: so many buckets per octave (bounds.h: 64) that a bucket's middle is within 0.8 % of any of
 * its values. Values below that have a bucket each. Buckets of several threads, chunks and ranks add up. */
#ifndef OCCATRACE_HISTOGRAM_H
#define OCCATRACE_HISTOGRAM_H

#include <stdint.h>

#include "bounds.h"

static inline uint32_t occatrace_histogram_bucket(uint64_t value) {
  enum {
    BITS = OCCATRACE_HISTOGRAM_SUB_BITS,
    EACH = 1 << BITS,
  };
  if (value < EACH) return (uint32_t)value;
  const uint32_t octave = 63u - (uint32_t)__builtin_clzll(value); /* BITS … 63 */
  return (octave - (BITS - 1)) * EACH + (uint32_t)((value >> (octave - BITS)) & (EACH - 1));
}

#endif
