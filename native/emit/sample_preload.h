/* What sample_preload.c, a library of its own, needs of the core. */
#ifndef OCCATRACE_SAMPLE_PRELOAD_H
#define OCCATRACE_SAMPLE_PRELOAD_H
#include <signal.h>

#include "occatrace_core.h"

/* The signal that samples stacks; 0: none. */
extern OCCATRACE_EXPORT int occatrace_sample_signal;
/* sigaction for this signal: what the program wants with it is kept, and done besides. */
OCCATRACE_EXPORT int occatrace_sample_wanted(const struct sigaction *action, struct sigaction *old);
/* Whether the threads that this thread makes are sampled. */
OCCATRACE_EXPORT int occatrace_samples_new_threads(void);
/* In a new thread, before its function. */
OCCATRACE_EXPORT void occatrace_sample_thread_begins(void);
#endif
