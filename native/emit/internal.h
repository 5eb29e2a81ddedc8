/* What the files of the core share among themselves. */
#ifndef OCCATRACE_INTERNAL_H
#define OCCATRACE_INTERNAL_H
#include <pthread.h>

#include "device_events.h"
#include "live.h"
#include "occatrace_core.h"
#include "process_events.h"

#define OCCATRACE_HIDDEN __attribute__((visibility("hidden")))

enum occatrace_exit_reason {
  OCCATRACE_EXIT = 0,
  OCCATRACE__EXIT = 1,
  OCCATRACE_EXEC = 2,
  OCCATRACE_UNLOAD = 3,
  OCCATRACE_ABORT = 4,
};

OCCATRACE_HIDDEN extern const struct occatrace_process_events *occatrace_process;
OCCATRACE_HIDDEN extern const struct occatrace_device_events *occatrace_devices;
OCCATRACE_HIDDEN extern uint32_t occatrace_pid;

/* Writes everything that is still in the process, then the `exit` record. */
OCCATRACE_HIDDEN void occatrace_finish(enum occatrace_exit_reason reason);
/* Repeats all announcements (after fork). */
OCCATRACE_HIDDEN void occatrace_announce_again(struct occatrace_thread *self);
OCCATRACE_HIDDEN void occatrace_forget_modules(void);
/* Whether an address is in a file of the process; if so its module has been announced. */
OCCATRACE_HIDDEN int occatrace_in_module(struct occatrace_thread *self, uintptr_t address);
/* FNV-1a, goes on from `hash`. */
#define OCCATRACE_HASH UINT64_C(14695981039346656037)
static inline uint64_t occatrace_hash(uint64_t hash, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
  return hash;
}
/* The build id in the notes of a file or module, in hexadecimal; stays as it is where there is none. */
#define OCCATRACE_BUILD_ID (2 * 32 + 1)
OCCATRACE_HIDDEN void occatrace_read_build_id(char *build_id, uintptr_t note, size_t size);
/* Functions that only pass calls on, in a module that is the program's otherwise (between.c): ranges of return addresses in order. */
struct occatrace_code {
  uintptr_t begin, end;
};
struct occatrace_between {
  size_t count;
  struct occatrace_code of[];
};
/* Never NULL, and never given back. `build_id`: of the module in memory; a file with another one is left alone. */
OCCATRACE_HIDDEN const struct occatrace_between *occatrace_find_between(const char *path, const char *build_id, uintptr_t base);
/* What events say of an address whose module has been announced (occatrace_site_at). */
OCCATRACE_HIDDEN uint64_t occatrace_place(uintptr_t address);
/* Call paths. */
OCCATRACE_HIDDEN void occatrace_paths_start(void);
OCCATRACE_HIDDEN int occatrace_paths_wanted(void);
/* Stacks of samples are numbered as those of calls are. */
OCCATRACE_HIDDEN void occatrace_paths_for_samples(void);
/* The number of a stack, return addresses with the innermost first; 0: it has none. `end` is a path_end. Not for handlers. */
OCCATRACE_HIDDEN uint32_t occatrace_path_of(struct occatrace_thread *self, const uintptr_t *at, uint32_t count, uint32_t end);
OCCATRACE_HIDDEN void occatrace_forget_paths(void);
OCCATRACE_HIDDEN void occatrace_paths_free(struct occatrace_thread *ended);
OCCATRACE_HIDDEN void occatrace_announcements_lock(void);
OCCATRACE_HIDDEN void occatrace_announcements_unlock(void);
OCCATRACE_HIDDEN void occatrace_unloading(void);

/* From now on the program cannot close LTTng's descriptors. */
OCCATRACE_HIDDEN void occatrace_protect_descriptors(void *provider);
/* In a child of fork: its copies of LTTng's sockets no longer lead to the daemon, which is to see when the parent ends. */
OCCATRACE_HIDDEN void occatrace_park_lttng_sockets(void);
/* Whether LTTng's threads are there; a child of fork has none until it registers. */
OCCATRACE_HIDDEN void occatrace_lttng_has_threads(int present);

/* From now on only this thread is recorded; in a child of fork, all are. */
OCCATRACE_HIDDEN void occatrace_leave_alone(void);
/* Asks occa_prof whether this process is traced, and waits until the session records. 1 = yes. */
OCCATRACE_HIDDEN int occatrace_register_process(void);
/* Whether what belongs to this user may be of our run. */
OCCATRACE_HIDDEN int occatrace_trusts_user(unsigned uid);

/* Whether who listens at the other end of OCCATRACE_SOCKET may be occa_prof. */
OCCATRACE_HIDDEN int occatrace_is_of_our_run(int fd);
/* A call of an API has reached us, whether it is recorded or not. */
OCCATRACE_HIDDEN void occatrace_served(const char *api);
OCCATRACE_HIDDEN void occatrace_tell_unseen_at_exit(void);
OCCATRACE_HIDDEN int occatrace_is_recorded(void);

/* Reads what was chosen and maps the switch of the run, once. */
OCCATRACE_HIDDEN void occatrace_choice_start(void);
OCCATRACE_HIDDEN void occatrace_choice_after_fork(void);
/* What the process's own switch is while it records. */
OCCATRACE_HIDDEN uint32_t occatrace_own_mask(void);
OCCATRACE_HIDDEN void occatrace_choose_thread(struct occatrace_thread *self, const char *name);
OCCATRACE_HIDDEN void occatrace_excluded_of(struct occatrace_thread *ended);
/* Under the lock of the flush. */
OCCATRACE_HIDDEN void occatrace_flush_excluded(struct occatrace_thread *self, struct occatrace_thread *threads);
OCCATRACE_HIDDEN enum occatrace_mode occatrace_mode_named(const char *name, size_t length);
/* An interned text; NULL where there is none of that number. */
OCCATRACE_HIDDEN const char *occatrace_text(uint32_t id);

/* The author's name of an OCCA kernel, interned; 0 where there is none of that number. */
OCCATRACE_HIDDEN uint32_t occatrace_kernel_name(uint32_t kernel);

/* The live quantities. */
OCCATRACE_HIDDEN extern struct occatrace_live_sink occatrace_live_sink;
OCCATRACE_HIDDEN void occatrace_live_activity(const struct occatrace_activity *a);
/* Where the environment wants them from the begin, which was at `from`. */
OCCATRACE_HIDDEN void occatrace_live_start(uint64_t from);
OCCATRACE_HIDDEN void occatrace_live_after_fork(void);
OCCATRACE_HIDDEN void occatrace_live_lock(void);
OCCATRACE_HIDDEN void occatrace_live_unlock(void);

/* The table of an API's provider, whether or not the API was chosen; tracing has started. */
OCCATRACE_HIDDEN const void *occatrace_provider(const char *api);
/* Where the environment names counters, once. */
OCCATRACE_HIDDEN void occatrace_counting_start(void);

/* Full buffers (room.c): what the providers call; bits of the own switch that may be on; each tenth of a second, and at the end;
 * what was counted of a thread, under the lock of the flush. */
struct occatrace_room;
OCCATRACE_HIDDEN extern const struct occatrace_room occatrace_room;
OCCATRACE_HIDDEN uint32_t occatrace_room_mask(void);
OCCATRACE_HIDDEN void occatrace_room_turn(int final);
OCCATRACE_HIDDEN void occatrace_flush_counted(struct occatrace_thread *self, struct occatrace_thread *owner);
OCCATRACE_HIDDEN void occatrace_room_after_fork(void);
/* Events may be recorded again, if nothing else is against it. */
OCCATRACE_HIDDEN void occatrace_room_returns(void);
/* The slot of a function's tallies; OCCATRACE_MAX_FUNCTIONS: it has none. */
OCCATRACE_HIDDEN uint32_t occatrace_slot_of(const char *api, const char *function);

/* A thread of ours, without the program's signals, which is not traced; 0: there are no more threads. */
OCCATRACE_HIDDEN int occatrace_own_thread(pthread_t *thread, void *(*what)(void *));
OCCATRACE_HIDDEN void occatrace_background_start(void);
OCCATRACE_HIDDEN void occatrace_background_forget(void);
OCCATRACE_HIDDEN void occatrace_background_stop(void);
OCCATRACE_HIDDEN void occatrace_harvest(int final);
/* One thread at a time; what another one is at is complete afterwards. */
OCCATRACE_HIDDEN void occatrace_harvest_now(void);
OCCATRACE_HIDDEN void occatrace_backends_after_fork(void);
#endif
