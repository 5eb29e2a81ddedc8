/* A stand-in for libroctx64.so.4: counts its calls and says so at the end, gives levels and numbers as AMD's documents say. */
#include <stdint.h>
#include <stdio.h>

static int calls, depth;
static uint64_t ids = 1000;
void roctxMarkA(const char *message) { calls++; }
int roctxRangePushA(const char *message) {
  calls++;
  return depth++;
}
int roctxRangePop(void) {
  calls++;
  return --depth;
}
uint64_t roctxRangeStartA(const char *message) {
  calls++;
  return ids += 7;
}
void roctxRangeStop(uint64_t id) { calls++; }
int roctxProfilerPause(uint64_t thread) { return ++calls, 0; }
int roctxProfilerResume(uint64_t thread) { return ++calls, 0; }
__attribute__((destructor)) static void said(void) { fprintf(stderr, "library saw %d calls\n", calls); }
