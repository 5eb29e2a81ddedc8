// Four threads that mark ranges as fast as they can, with a pause now and then: THREADS times ROUNDS times RANGES ranges.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <occatrace.h>

enum { THREADS = 4 };
static int rounds, ranges;

static void *work(void *unused) {
  for (int i = 0; i < rounds; i++) {
    for (int k = 0; k < ranges; k++) {
      occatrace_push("range");
      occatrace_pop();
    }
    usleep(1000);
  }
  return unused;
}

int main(int count, char **words) {
  if (count != 3) return 2;
  rounds = atoi(words[1]), ranges = atoi(words[2]);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  printf("%d\n", THREADS * rounds * ranges);
  return 0;
}
