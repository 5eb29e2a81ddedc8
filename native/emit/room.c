/* Full buffers. A program that makes events faster than they can be read would lose some of them, and with them the counts. Here
 * the call that finds no room is counted, as in mode tally, and so are all calls of the process until the buffers have had time
 * to be read; when and for how long is recorded. Records that others refer to wait for room, but not for ever. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "room.h"

#define SECOND UINT64_C(1000000000)
#define SHORTEST_PAUSE (SECOND / 5)
#define LONGEST_PAUSE (SECOND * 2)
#define TRIES 500u /* of a ms each */
#define LONGEST_HOPELESS (SECOND * 64)
#define LAST_WAIT (SECOND * 2)
#define EVENTS_BIT (OCCATRACE_SWITCH_EVENTS & ~OCCATRACE_SWITCH_RUNNING)

static uint32_t full;         /* calls are counted now */
static uint64_t full_since;
static uint64_t room_since;   /* when recording went on */
static uint64_t pause_ns = SHORTEST_PAUSE;
/* A record has waited in vain: nobody reads the buffers. None waits until then, and then for longer each time. */
static uint64_t hopeless_until, hopeless_ns;
static uint64_t last_until; /* the process ends: its last records wait so long in all */

int occatrace_was_full(void) { return __atomic_load_n(&full_since, __ATOMIC_ACQUIRE) != 0; }

uint32_t occatrace_room_mask(void) { return __atomic_load_n(&full, __ATOMIC_SEQ_CST) ? ~EVENTS_BIT : UINT32_MAX; }

static void failed(void) {
  struct occatrace_thread *self = occatrace_tls;
  if (self == NULL) return;
  self->no_room = 1;
  if (__atomic_exchange_n(&full, 1, __ATOMIC_SEQ_CST)) return;
  const uint64_t now = occatrace_now();
  pause_ns = now - room_since < SECOND && pause_ns < LONGEST_PAUSE ? pause_ns * 2 : SHORTEST_PAUSE;
  __atomic_store_n(&full_since, now, __ATOMIC_RELEASE);
  __atomic_fetch_and(&occatrace_own_switch, ~EVENTS_BIT, __ATOMIC_SEQ_CST);
}

/* Whether it was this thread's event that was not written. */
static struct occatrace_thread *not_written(void) {
  struct occatrace_thread *self = occatrace_tls;
  if (self == NULL || !self->no_room) return NULL;
  self->no_room = 0;
  return self;
}

static void call(const char *api, const char *function, uint32_t seq, uint64_t start, int failed_call, int blocking) {
  struct occatrace_thread *self = not_written();
  if (self == NULL) return;
  const uint64_t ns = occatrace_now() - start;
  const uint32_t slot = occatrace_slot_of(api, function);
  if (slot == OCCATRACE_MAX_FUNCTIONS) return;
  const int before = errno;
  occatrace_tally_add(self, slot, (uint64_t)((double)ns * (double)occatrace_ticks_hz() / 1e9), failed_call);
  errno = before;
  self->counted++;
  if (blocking) self->returned[self->returned_count++ % OCCATRACE_RETURNED] = seq;
}

static void begin(void) {
  struct occatrace_thread *self = not_written();
  if (self != NULL) self->counted++;
}

static int again(int must, unsigned tries) {
  if (not_written() == NULL || !must) {
    if (tries > 0) __atomic_store_n(&hopeless_ns, 0, __ATOMIC_RELAXED); /* it waited, and was written */
    return 0;
  }
  const uint64_t now = occatrace_now(), last = __atomic_load_n(&last_until, __ATOMIC_RELAXED);
  if (now >= last && (last != 0 || now < __atomic_load_n(&hopeless_until, __ATOMIC_RELAXED))) return 0;
  if (last == 0 && tries >= TRIES) {
    const uint64_t before = __atomic_load_n(&hopeless_ns, __ATOMIC_RELAXED);
    const uint64_t next = before == 0 ? SECOND : before < LONGEST_HOPELESS ? before * 2
                                                                           : before;
    __atomic_store_n(&hopeless_ns, next, __ATOMIC_RELAXED);
    __atomic_store_n(&hopeless_until, now + next, __ATOMIC_RELAXED);
    return 0;
  }
  const int before = errno;
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  errno = before;
  return 1;
}

const struct occatrace_room occatrace_room = {failed, call, begin, again};

static void write_full(struct occatrace_thread *self, uint64_t begin_ns, uint64_t end_ns) {
  const struct occatrace_process_full r = {self->tid, occatrace_next_seq(self), occatrace_pid, begin_ns, end_ns};
  occatrace_process->full(&r);
}

void occatrace_room_turn(int final) {
  if (final) __atomic_store_n(&last_until, occatrace_now() + LAST_WAIT, __ATOMIC_RELAXED);
  if (!__atomic_load_n(&full, __ATOMIC_ACQUIRE)) return;
  const uint64_t since = __atomic_load_n(&full_since, __ATOMIC_ACQUIRE), now = occatrace_now();
  if (!final && (since <= room_since || now - since < pause_ns)) return; /* the one that found it is about to say since when */
  write_full(occatrace_self(), since, now);
  room_since = now;
  __atomic_store_n(&full, 0, __ATOMIC_SEQ_CST);
  occatrace_room_returns();
}

void occatrace_flush_counted(struct occatrace_thread *self, struct occatrace_thread *owner) {
  const uint64_t counted = owner->counted;
  if (counted == owner->counted_flushed) return;
  const uint32_t taken = __atomic_load_n(&owner->returned_count, __ATOMIC_ACQUIRE);
  const uint32_t length = taken < OCCATRACE_RETURNED ? taken : OCCATRACE_RETURNED;
  uint32_t returned[OCCATRACE_RETURNED];
  memcpy(returned, owner->returned, sizeof returned);
  const struct occatrace_process_counted r = {
      .tid = self->tid, .seq = occatrace_next_seq(self), .pid = occatrace_pid, .owner = owner->tid, .numbers = counted, .returned = returned, .returned_length = length};
  occatrace_process->counted(&r);
  owner->counted_flushed = counted;
}

void occatrace_room_after_fork(void) {
  full = 0;
  full_since = room_since = hopeless_until = hopeless_ns = last_until = 0;
  pause_ns = SHORTEST_PAUSE;
}
