/* Samples of stacks by processor time (--sample-stacks): what its files share. */
#ifndef OCCATRACE_SAMPLES_H
#define OCCATRACE_SAMPLES_H
#include <signal.h>

#include "internal.h"
#include "sample_preload.h"
#include "unwinder.h"

enum {
  OCCATRACE_SAMPLE_DEPTH = 128,
  OCCATRACE_SAMPLE_RULES = 1024,
};

/* ---- sample_walk.c ---- */

/* Rules found before; of one thread. */
struct occatrace_rules {
  uint32_t version;
  struct occatrace_rule rules[OCCATRACE_SAMPLE_RULES];
};
/* The stack of what a signal has interrupted, the innermost first; returns how many. Of places that were interrupted the next
 * address, so that the one before an address is always in the line. Only for the signal's handler. */
OCCATRACE_HIDDEN uint32_t occatrace_walk_interrupted(void *context, struct occatrace_rules *rules, uintptr_t *at, uint32_t *end);
/* Looks which files of code the process has now. Not for handlers. */
OCCATRACE_HIDDEN void occatrace_sample_modules(void);
OCCATRACE_HIDDEN void occatrace_sample_modules_forked(void);

/* ---- sample_signals.c ---- */

/* Takes a signal for us (occatrace_sample_signal); what the program wants with it is kept and done besides. 0: there is none left. */
OCCATRACE_HIDDEN int occatrace_take_signal(void (*handler)(int, siginfo_t *, void *));
/* A signal that is none of ours. */
OCCATRACE_HIDDEN void occatrace_pass_signal(int number, siginfo_t *info, void *context);
/* A call of the system that our signal ended, and that would not go on by itself, begins again. */
OCCATRACE_HIDDEN void occatrace_repeat_call(void *context);

/* ---- samples.c ---- */

OCCATRACE_HIDDEN extern int occatrace_sampling;
/* This thread makes threads of tracing, which are not sampled. */
OCCATRACE_HIDDEN extern __thread int occatrace_makes_own_threads __attribute__((tls_model("initial-exec")));
/* Around the program's dlclose. */
OCCATRACE_HIDDEN void occatrace_sample_closing(void);
OCCATRACE_HIDDEN void occatrace_sample_closed(void);
/* Tracing has started, or is refused. */
OCCATRACE_HIDDEN void occatrace_samples_begin(void);
OCCATRACE_HIDDEN void occatrace_samples_refused(void);
/* Whether this process, which is not recorded yet, has used so much processor time that its samples are to be written. */
OCCATRACE_HIDDEN int occatrace_samples_are_worth_it(void);
/* At the end of a process that was never recorded. */
OCCATRACE_HIDDEN void occatrace_finish_unstarted(void);
/* Writes what was sampled. */
OCCATRACE_HIDDEN void occatrace_samples_drain(int final);
OCCATRACE_HIDDEN void occatrace_samples_after_fork(void);
#endif
