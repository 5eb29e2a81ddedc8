/* Log-linear histogram of durations: 64 buckets per octave, so a bucket's middle is within 0.8 % of any of its values.
 * Values below 64 have a bucket each. Buckets of several threads, chunks and ranks add up. */
#ifndef OCCATRACE_HISTOGRAM_H
#define OCCATRACE_HISTOGRAM_H

#include <stdint.h>

#define OCCATRACE_HISTOGRAM_BUCKETS 3776 /* 64 for the values below 64, then 58 octaves of 64 */

static inline uint32_t occatrace_histogram_bucket(uint64_t value) {
  if (value < 64) return (uint32_t)value;
  const uint32_t octave = 63u - (uint32_t)__builtin_clzll(value); /* 6 … 63 */
  return (octave - 5) * 64 + (uint32_t)((value >> (octave - 6)) & 63);
}

#endif
