/* Threads, one after another, that touch new pages in a range; says how many descriptors are open after the first and after
 * the last. Then a range that begins in one thread and ends in another. Built with OpenMP also a range in which a team of
 * three touches them; built with PAPI, the program counts by itself first.
 * usage: touch THREADS PAGES */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "occatrace.h"
#ifdef WITH_PAPI
#include <papi.h>
#endif

static long pages;
static uint64_t handed;

static void touch(long count) {
    char *memory = mmap(NULL, (size_t)count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(3);
    madvise(memory, (size_t)count * 4096, MADV_NOHUGEPAGE);
    for (long i = 0; i < count; i++) memory[i * 4096] = 1;
    munmap(memory, (size_t)count * 4096);
}

static void *work(void *unused) {
    (void)unused;
    occatrace_push("outer");
    occatrace_push("inner");
    touch(pages);
    occatrace_pop();
    touch(1);
    occatrace_pop();
    return NULL;
}

#ifdef _OPENMP
static void team(const char *range) {
    char *memory = mmap(NULL, (size_t)pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(3);
    madvise(memory, (size_t)pages * 4096, MADV_NOHUGEPAGE);
    occatrace_push(range);
#pragma omp parallel for num_threads(3)
    for (long i = 0; i < pages; i++) memory[i * 4096] = 1;
    occatrace_pop();
}
#endif

static void *hand_over(void *unused) {
    (void)unused;
    handed = occatrace_begin("handed over");
    return NULL;
}

static void run(void *(*function)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, NULL) != 0) exit(3);
    pthread_join(thread, NULL);
}

static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) exit(3);
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    const int threads = atoi(words[1]);
    pages = atol(words[2]);
#ifdef WITH_PAPI
    int set = PAPI_NULL;
    long long own = 0;
    if (PAPI_library_init(PAPI_VER_CURRENT) != PAPI_VER_CURRENT || PAPI_create_eventset(&set) != PAPI_OK ||
        PAPI_add_named_event(set, "perf::PAGE-FAULTS") != PAPI_OK || PAPI_start(set) != PAPI_OK)
        return 4;
    occatrace_push("counted by the program");
    touch(pages);
    occatrace_pop();
    if (PAPI_stop(set, &own) != PAPI_OK) return 5;
    printf("own %lld\n", own);
#endif
#ifdef _OPENMP
    team("first team"); /* made there */
    team("team");
#endif
    run(work);
    const int first = descriptors();
    for (int i = 1; i < threads; i++) run(work);
    printf("descriptors %d %d\n", first, descriptors());
    run(hand_over);
    occatrace_end(handed);
    return 0;
}
