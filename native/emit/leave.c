/* The calls by which a program ends without its destructors or becomes another one: what is in it has to be written first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "internal.h"

static void call_real_exit(const char *name, int status) __attribute__((noreturn));
static void call_real_exit(const char *name, int status) {
  occatrace_finish(OCCATRACE__EXIT);
  occatrace_tell_unseen_at_exit();
  void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, name);
  if (real != NULL) real(status);
  for (;;) syscall(SYS_exit_group, status);
}

OCCATRACE_EXPORT void _exit(int status) { call_real_exit("_exit", status); }
OCCATRACE_EXPORT void _Exit(int status) { call_real_exit("_Exit", status); }
OCCATRACE_EXPORT void quick_exit(int status) { call_real_exit("quick_exit", status); }

/* The C library's own ends the parent by an _exit that nobody else sees. This does the same steps (daemon(3)). */
OCCATRACE_EXPORT int daemon(int nochdir, int noclose) {
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child > 0) _exit(0);
  if (setsid() < 0) return -1;
  if (!nochdir) (void)!chdir("/");
  if (noclose) return 0;
  const int fd = open("/dev/null", O_RDWR);
  struct stat about;
  if (fd < 0) return -1;
  if (fstat(fd, &about) != 0 || !S_ISCHR(about.st_mode) || about.st_rdev != makedev(1, 3)) {
    close(fd);
    errno = ENODEV;
    return -1;
  }
  for (int standard = 0; standard < 3; standard++) dup2(fd, standard);
  if (fd > 2) close(fd);
  return 0;
}

/* Most aborts (std::terminate, assertions of libraries) come through here; what kills without a call loses at most the
 * tallies since the last flush. */
OCCATRACE_EXPORT void abort(void) {
  occatrace_finish(OCCATRACE_ABORT);
  void (*real)(void) = (void (*)(void))dlsym(RTLD_NEXT, "abort");
  if (real != NULL) real();
  for (;;) syscall(SYS_exit_group, 134);
}

/* exec replaces the process: what is still in it has to be written first. */
OCCATRACE_EXPORT int execve(const char *path, char *const argv[], char *const envp[]) {
  occatrace_finish(OCCATRACE_EXEC);
  return (int)syscall(SYS_execve, path, argv, envp);
}
#define FORWARD(name, parameters, arguments) \
  OCCATRACE_EXPORT int name parameters { \
    occatrace_finish(OCCATRACE_EXEC); \
    int(*real) parameters = (int(*) parameters)dlsym(RTLD_NEXT, #name); \
    if (real == NULL) { \
      errno = ENOSYS; \
      return -1; \
    } \
    return real arguments; \
  }
FORWARD(execv, (const char *path, char *const argv[]), (path, argv))
FORWARD(execvp, (const char *file, char *const argv[]), (file, argv))
FORWARD(execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
FORWARD(fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))

#define COLLECT(first) \
  size_t count = 1; \
  va_list args; \
  va_start(args, first); \
  while (va_arg(args, char *) != NULL) count++; \
  va_end(args); \
  char *argv[count + 1]; \
  argv[0] = (char *)first; \
  va_start(args, first); \
  for (size_t i = 1; i <= count; i++) argv[i] = va_arg(args, char *);

OCCATRACE_EXPORT int execl(const char *path, const char *arg, ...) {
  COLLECT(arg)
  va_end(args);
  return execv(path, argv);
}
OCCATRACE_EXPORT int execlp(const char *file, const char *arg, ...) {
  COLLECT(arg)
  va_end(args);
  return execvp(file, argv);
}
OCCATRACE_EXPORT int execle(const char *path, const char *arg, ...) {
  COLLECT(arg)
  char *const *envp = va_arg(args, char *const *);
  va_end(args);
  return execve(path, argv, envp);
}
