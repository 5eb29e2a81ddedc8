/* Drives the emit core directly: known numbers of texts, activities and tallies, from threads and a forked child.
 * usage: emit WAY  (exit | close-all | _exit | abort | kill | fork | exec | threads | long-name) */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "occatrace_core.h"

static uint32_t slot;

static void work(unsigned n) {
  struct occatrace_thread *self = occatrace_self();
  for (unsigned i = 0; i < n; i++) {
    occatrace_tally_add(self, slot, 100 + i, i % 10 == 0);
    struct occatrace_activity a = {.kind = OCCATRACE_KERNEL, .corr_tid = self->tid, .run_seq = OCCATRACE_NO_RUN,
                                   .start = occatrace_now(), .end = occatrace_now() + 1000, .name = occatrace_intern("work")};
    occatrace_activity(&a);
  }
}

static void *thread(void *n) {
  work(*(unsigned *)n);
  return NULL;
}

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "exit";
  static const char *const names[] = {"work"};
  if (!occatrace_start()) return 2;
  slot = occatrace_register_functions("test", names, 1);
  work(100);
  if (strcmp(way, "close-all") == 0) {
    for (int fd = 3; fd < 1024; fd++) close(fd);
    closefrom(3);
    work(100);
  }
  if (strcmp(way, "_exit") == 0) _exit(3);
  if (strcmp(way, "abort") == 0) abort();
  if (strcmp(way, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(way, "exec") == 0) execl("/bin/true", "true", (char *)NULL);
  if (strcmp(way, "long-name") == 0) {
    char *text = malloc(512 * 1024 + 1);
    memset(text, 'x', 512 * 1024);
    text[512 * 1024] = '\0';
    occatrace_intern(text);
    occatrace_intern("quotes \" ' , ; \n \t \x01 \xc3\xa9");
  }
  if (strcmp(way, "threads") == 0) {
    unsigned n = 50;
    pthread_t t[64];
    for (int i = 0; i < 64; i++) pthread_create(&t[i], NULL, thread, &n);
    for (int i = 0; i < 64; i++) pthread_join(t[i], NULL);
  }
  if (strcmp(way, "fork") == 0) {
    const pid_t child = fork();
    work(10);
    if (child == 0) return 0;
    waitpid(child, NULL, 0);
  }
  return 0;
}
