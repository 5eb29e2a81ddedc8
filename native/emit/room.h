/* What happens to events for which LTTng's buffers have no room: a call is counted instead of recorded, and for a while all are,
 * until the buffers have been read. The providers say what was not written; room.c keeps the accounts. */
#ifndef OCCATRACE_ROOM_H
#define OCCATRACE_ROOM_H
#include <stdint.h>

struct occatrace_room {
  /* From the probe: nothing was written. What it was follows, by one of the others, in the same thread. */
  void (*failed)(void);
  /* The record of a call was written or not: then the call is counted. `blocking`: its begin may be in the trace. */
  void (*call)(const char *api, const char *function, uint32_t seq, uint64_t start, int failed, int blocking);
  /* The begin of a blocking call. */
  void (*begin)(void);
  /* Another record: 1: try again, after a moment. `must`: what others refer to, so that it is worth waiting for. */
  int (*again)(int must, unsigned tries);
};
#endif
