/* Starts a Python, by whatever way it is linked with, calls it, and says when: before and after each call, by its own clock. */
#include <stdio.h>

#include "caller.h"

int main(void) {
  if (begin_python() != 0) return 2;
  for (int i = 0; i < 12; i++) {
    const long begin = monotonic_ns();
    const long inside = spin_in_python(i % 3 * 400000 + 200000);
    printf("python %ld %ld %ld\n", begin, monotonic_ns(), inside);
  }
  const long begin = monotonic_ns();
  while (monotonic_ns() < begin + 2000000) {
  }
  printf("alone %ld %ld 0\n", begin, monotonic_ns());
  end_python();
  return 0;
}
