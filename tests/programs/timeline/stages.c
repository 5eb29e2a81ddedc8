/* One process id, two programs: marks a range, forks a child that marks one, becomes itself with another argument. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "occatrace.h"

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "second") == 0) {
    occatrace_push("second program");
    occatrace_pop();
    return 0;
  }
  occatrace_push("first program");
  occatrace_pop();
  pid_t child = fork();
  if (child == 0) {
    occatrace_push("child");
    occatrace_pop();
    _exit(0);
  }
  waitpid(child, NULL, 0);
  execl("/proc/self/exe", "stages", "second", (char *)0);
  return 1;
}
