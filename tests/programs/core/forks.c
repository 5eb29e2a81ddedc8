/* Children of a traced process, by the emit core. Each child checks itself and ends with 0. Prints how many pieces of work
 * there were in all, and in how many processes.
 * usage: forks WAY  (idle | tracing | nested | threads | closed | late-threads | beside | starting | handler) */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "occatrace_core.h"

static uint32_t slot;
static const char *self_path;
static unsigned pieces, processes;

static void work(unsigned n) {
  struct occatrace_thread *self = occatrace_self();
  for (unsigned i = 0; i < n; i++) {
    occatrace_tally_add(self, slot, 100, 0);
    struct occatrace_activity a = {.kind = OCCATRACE_KERNEL, .corr_tid = self->tid, .run_seq = OCCATRACE_NO_RUN,
                                   .start = occatrace_now(), .end = occatrace_now() + 1000, .name = occatrace_intern("work")};
    occatrace_activity(&a);
  }
}

static void begin(void) {
  static const char *const names[] = {"work"};
  if (!occatrace_start()) exit(2);
  slot = occatrace_register_functions("test", names, 1);
}

static void *works(void *n) {
  work(*(unsigned *)n);
  return NULL;
}

static int tasks(void) {
  DIR *folder = opendir("/proc/self/task");
  int count = 0;
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
  if (folder != NULL) closedir(folder);
  return count;
}

/* Sockets that lead somewhere, of the 64 lowest descriptors. */
static int connections(void) {
  int count = 0;
  for (int fd = 3; fd < 64; fd++) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    count += getpeername(fd, (struct sockaddr *)&peer, &length) == 0;
  }
  return count;
}

static int blocked(void) {
  sigset_t now;
  int count = 0;
  sigprocmask(SIG_SETMASK, NULL, &now);
  for (int s = 1; s < 32; s++) count += sigismember(&now, s);
  return count;
}

static void end(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (status != 0) {
    fprintf(stderr, "a child ended with 0x%x\n", (unsigned)status);
    exit(3);
  }
}

/* A child that does what is told and waits for nothing else. */
#define CHILD(...)              \
  do {                          \
    const pid_t child = fork(); \
    if (child == 0) {           \
      __VA_ARGS__;              \
    }                           \
    end(child);                 \
  } while (0)

static void expect(unsigned of_them, unsigned each) {
  processes += of_them;
  pieces += of_them * each;
}

/* A child that records nothing has no part of tracing, whatever it does. */
static void idle(void) {
  CHILD(_exit(tasks() != 1 || connections() != 0));
  CHILD(_exit(blocked() != 0));
  if (blocked() != 0) exit(5);
  CHILD(exit(0));
  CHILD(execl(self_path, "forks", "nothing", (char *)NULL));
  CHILD(CHILD(exit(0)); exit(0));
}

static void tracing(void) {
  for (int i = 0; i < 5; i++) CHILD(work(10); exit(connections() == 0 || blocked() != 0 ? 4 : 0));
  expect(5, 10);
}

static void nested(void) {
  CHILD(CHILD(work(10); exit(0)); exit(0));           /* only the grandchild */
  CHILD(work(10); CHILD(work(10); exit(0)); exit(0)); /* both */
  expect(3, 10);
}

static void in_threads(void) {
  CHILD(pthread_t t[8]; unsigned n = 10; for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, works, &n);
        for (int i = 0; i < 8; i++) pthread_join(t[i], NULL); exit(0));
  expect(1, 80);
}

static void after_closing(void) {
  CHILD(for (int fd = 3; fd < 1024; fd++) close(fd); closefrom(3); work(10); exit(0));
  expect(1, 10);
}

static void cancelled(void *unused) {
  (void)unused;
  abort();
}

static void *must_not_be_cancelled(void *unused) {
  pthread_cleanup_push(cancelled, NULL);
  for (;;) pause();
  pthread_cleanup_pop(0);
  return unused;
}

/* Their stacks may be those of LTTng's threads, which the child does not have. LTTng cancels its own at the end. */
static void with_threads_at_the_end(void) {
  for (int i = 0; i < 10; i++)
    CHILD(pthread_t t; for (int n = 0; n < 8; n++) pthread_create(&t, NULL, must_not_be_cancelled, NULL); exit(0));
}

/* At it in the moment of each fork, and within what the buffers hold. */
static atomic_int stop, running;
static atomic_uint done, allowed;
static void *keeps_working(void *unused) {
  for (running++; !stop;) {
    if (done < allowed) work(1), done += 1;
    else sched_yield();
  }
  return unused;
}

/* Forks while others are writing. */
static void beside_busy_threads(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, keeps_working, NULL);
  while (running < 4) sched_yield();
  for (int i = 0; i < 25; i++) {
    allowed += 800;
    CHILD(if (i % 5 == 0) work(10); exit(0));
  }
  stop = 1;
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  pieces += done;
  expect(5, 10);
}

static void *starts(void *unused) {
  begin();
  work(10);
  return unused;
}

/* Forks while another thread registers the process. */
static void while_starting(void) {
  pthread_t t;
  pthread_create(&t, NULL, starts, NULL);
  for (int i = 0; i < 2; i++) {
    CHILD(begin(); work(1); exit(0));
    expect(1, 1);
  }
  pthread_join(t, NULL);
  expect(1, 10);
}

static atomic_int shot_at, handled;
static void handler(int signal) {
  (void)signal;
  if (!shot_at || handled == 100) return;
  work(1);
  handled++;
}

static void *shoots(void *at) {
  while (handled < 100) {
    pthread_kill(*(pthread_t *)at, SIGUSR1);
    sched_yield();
  }
  return NULL;
}

/* A handler that records, also in the middle of registering. */
static void register_under_fire(void) {
  static const char *const names[] = {"work"};
  pthread_t t, me = pthread_self();
  shot_at = handled = 0;
  slot = occatrace_register_functions("test", names, 1);
  signal(SIGUSR1, handler);
  pthread_create(&t, NULL, shoots, &me);
  shot_at = 1;
  if (!occatrace_start()) exit(2);
  occatrace_self();
  while (handled < 100) sched_yield();
  pthread_join(t, NULL);
  signal(SIGUSR1, SIG_IGN);
  work(10);
}

static void under_fire(void) {
  register_under_fire();
  CHILD(register_under_fire(); exit(0));
  expect(2, 110);
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(void); int starts; } ways[] = {
      {"idle", idle, 0}, {"tracing", tracing, 0}, {"nested", nested, 0}, {"threads", in_threads, 0},
      {"closed", after_closing, 0}, {"late-threads", with_threads_at_the_end, 0}, {"beside", beside_busy_threads, 0},
      {"starting", while_starting, 1}, {"handler", under_fire, 1}};
  const char *way = argc > 1 ? argv[1] : "";
  self_path = argv[0];
  if (strcmp(way, "nothing") == 0) return 0;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (strcmp(ways[i].name, way) == 0) {
      if (!ways[i].starts) {
        begin();
        work(100);
        expect(1, 100);
      }
      ways[i].run();
      printf("%u %u\n", pieces, processes);
      return 0;
    }
  return 1;
}
