/* ROCTX as HIP programs use it: linked with its library. */
#include <stdint.h>
#include <stdio.h>

void roctxMarkA(const char *message);
int roctxRangePushA(const char *message);
int roctxRangePop(void);
uint64_t roctxRangeStartA(const char *message);
void roctxRangeStop(uint64_t id);
int roctxProfilerPause(uint64_t thread);
int roctxProfilerResume(uint64_t thread);

int main(void) {
  int levels = 0;
  levels = levels * 10 + roctxRangePushA("outer");
  for (int i = 0; i < 4; i++) {
    levels = levels * 10 + roctxRangePushA("inner");
    roctxMarkA("tick");
    roctxRangePop();
  }
  roctxRangePop();
  uint64_t a = roctxRangeStartA("a"), b = roctxRangeStartA("b");
  roctxRangeStop(a);
  roctxRangeStop(b);
  roctxProfilerPause(0);
  roctxMarkA("paused");
  roctxProfilerResume(0);
  roctxMarkA("resumed");
  printf("%d %d\n", levels, a != b);
  return 0;
}
