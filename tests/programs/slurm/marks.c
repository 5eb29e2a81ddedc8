/* marks SECONDS: a range, "ready" as it begins, and its end after some time. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <occatrace.h>

int main(int count, char **words) {
  occatrace_push("work");
  puts("ready");
  fflush(stdout);
  if (count > 1) sleep((unsigned)atoi(words[1]));
  occatrace_pop();
  return 3;
}
