/* Holds memory, gives it back, computes, in two processes; each step waits for a file. Says what CPU time each process used in
 * its computation and in all, by its own clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "occatrace.h"

static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void wait_for(const char *gate, int step) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", gate, step);
    while (access(path, F_OK) != 0) usleep(2000);
}

static void work(const char *who, const char *gate, size_t bytes, double busy) {
    occatrace_mark(who);
    printf("%s %d\n", who, (int)getpid());
    fflush(stdout);
    wait_for(gate, 1);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(3);
    memset(memory, 1, bytes);
    wait_for(gate, 2);
    munmap(memory, bytes);
    wait_for(gate, 3);
    const double begin = used();
    while (used() < begin + busy) {
    }
    printf("%s %.9f\n", who, used() - begin);
    fflush(stdout);
    wait_for(gate, 4);
    printf("%s %.9f\n", who, used());
    fflush(stdout);
}

int main(int count, char **words) {
    if (count != 4) return 2;
    const size_t bytes = strtoull(words[2], NULL, 10);
    const double busy = atof(words[3]);
    const pid_t child = fork();
    if (child == 0) {
        work("child", words[1], bytes / 4, busy / 2);
        return 0;
    }
    work("parent", words[1], bytes, busy);
    int status = 1;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
