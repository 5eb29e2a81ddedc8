/* Where a process stands in a parallel job, as its launcher's variables say. */
#ifndef OCCATRACE_RANK_H
#define OCCATRACE_RANK_H
#include <stdint.h>

/* -1: not known. */
struct occatrace_place {
  int32_t rank, size, local_rank;
  char job[256];
};
void occatrace_find_place(struct occatrace_place *place);
#endif
