/* Asks, as some programs do, whether ROCTX is there, without linking it. */
#include <dlfcn.h>
#include <stdio.h>
extern int roctxRangePushA(const char *) __attribute__((weak));
int main(void) {
  printf("%d %d\n", roctxRangePushA != NULL, dlsym(RTLD_DEFAULT, "roctxRangePushA") != NULL);
  return 0;
}
