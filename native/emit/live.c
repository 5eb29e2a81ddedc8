/* The live quantities: device work by kind, kernels by name, memory in use. Kept from the moment at which somebody asks for
 * them, or from the begin with OCCATRACE_LIVE=1. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#define OCCATRACE_IMPLEMENTATION
#include "occatrace.h"

#define ROWS 64u

struct memory {
  struct occatrace_live_memory shown;
  const char *api;
  uint32_t mode;
  int summed;
};
struct block {
  uint64_t handle, bytes, time;
  uint32_t row; /* 1 and up; 0: empty */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t since;
static struct occatrace_live_work work[OCCATRACE_OTHER + 1];
static struct occatrace_live_kernel *kernels;
static uint32_t kernels_used, kernels_room;
static uint32_t *kernel_of; /* by the number of the name; 0: none */
static uint32_t names_room;
static struct memory rows[ROWS];
static uint32_t rows_used;
static struct block *blocks; /* open addressing */
static uint64_t blocks_used, blocks_room;
static uint64_t in_use, high;

static void allocated(const char *api, uint64_t handle, uint64_t bytes, const char *kind, uint32_t mode);
static void freed(const char *api, const uint64_t *handles, uint32_t count, uint64_t start);
static void called(uint32_t kernel, uint64_t start);
struct occatrace_live_sink occatrace_live_sink = {0, allocated, freed, called};

void occatrace_live_lock(void) { pthread_mutex_lock(&lock); }
void occatrace_live_unlock(void) { pthread_mutex_unlock(&lock); }

static void turn_on(uint64_t from) {
  if (occatrace_live_sink.on) return;
  since = from;
  __atomic_store_n(&occatrace_live_sink.on, 1, __ATOMIC_RELEASE);
}

void occatrace_live_start(uint64_t from) {
  const char *wanted = getenv("OCCATRACE_LIVE");
  if (wanted == NULL || *wanted == '\0' || strcmp(wanted, "0") == 0) return;
  pthread_mutex_lock(&lock);
  turn_on(from);
  pthread_mutex_unlock(&lock);
}

/* The child counts its own. Under the lock. */
void occatrace_live_after_fork(void) {
  since = occatrace_now();
  memset(work, 0, sizeof work);
  kernels_used = rows_used = 0;
  if (kernel_of != NULL) memset(kernel_of, 0, names_room * sizeof *kernel_of);
  free(blocks);
  blocks = NULL;
  blocks_used = blocks_room = in_use = high = 0;
}

/* ---- work ---- */

static void add_kernel(uint32_t name, uint64_t ns) {
  if (name >= names_room) {
    const uint32_t room = name < 64 ? 128 : name * 2;
    uint32_t *more = realloc(kernel_of, room * sizeof *more);
    if (more == NULL) return;
    memset(more + names_room, 0, (room - names_room) * sizeof *more);
    kernel_of = more;
    names_room = room;
  }
  uint32_t at = kernel_of[name];
  if (at == 0) {
    if (kernels_used == kernels_room) {
      const uint32_t room = kernels_room ? kernels_room * 2 : 32;
      struct occatrace_live_kernel *more = realloc(kernels, room * sizeof *more);
      if (more == NULL) return;
      kernels = more;
      kernels_room = room;
    }
    const char *text = occatrace_text(name);
    kernels[kernels_used] = (struct occatrace_live_kernel){text != NULL ? text : "", 0, 0};
    kernel_of[name] = at = ++kernels_used;
  }
  kernels[at - 1].count++;
  kernels[at - 1].ns += ns;
}

static void add_work(uint8_t kind, uint64_t ns, uint64_t bytes) {
  struct occatrace_live_work *of = &work[kind <= OCCATRACE_OTHER ? kind : OCCATRACE_OTHER];
  of->count++;
  of->ns += ns;
  of->bytes += bytes;
}

void occatrace_live_activity(const struct occatrace_activity *a) {
  const uint64_t ns = a->end > a->start ? a->end - a->start : 0;
  pthread_mutex_lock(&lock);
  add_work(a->kind, ns, a->bytes);
  if (a->kind == OCCATRACE_KERNEL) add_kernel(a->name, ns);
  pthread_mutex_unlock(&lock);
}

static void called(uint32_t kernel, uint64_t start) {
  const uint64_t ns = occatrace_now() - start;
  const uint32_t name = occatrace_kernel_name(kernel);
  pthread_mutex_lock(&lock);
  add_work(OCCATRACE_KERNEL, ns, 0);
  add_kernel(name, ns);
  pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

static uint64_t place_of(const char *api, uint64_t handle) {
  const uint64_t mixed = (handle ^ (uint64_t)(uintptr_t)api) * UINT64_C(0x9e3779b97f4a7c15);
  return (mixed >> 32) & (blocks_room - 1);
}

static uint64_t find(const char *api, uint64_t handle) {
  uint64_t at = place_of(api, handle);
  while (blocks[at].row && (blocks[at].handle != handle || rows[blocks[at].row - 1].api != api)) at = (at + 1) & (blocks_room - 1);
  return at;
}

static int make_room(void) {
  if (blocks_used * 2 < blocks_room) return 1;
  struct block *const old = blocks;
  const uint64_t before = blocks_room;
  struct block *const fresh = calloc(before ? before * 2 : 256, sizeof *fresh);
  if (fresh == NULL) return 0;
  blocks = fresh;
  blocks_room = before ? before * 2 : 256;
  for (uint64_t i = 0; i < before; i++)
    if (old[i].row) blocks[find(rows[old[i].row - 1].api, old[i].handle)] = old[i];
  free(old);
  return 1;
}

static void forget(uint64_t at) {
  struct memory *const row = &rows[blocks[at].row - 1];
  row->shown.in_use -= blocks[at].bytes;
  row->shown.count--;
  if (row->summed) in_use -= blocks[at].bytes;
  blocks_used--;
  blocks[at].row = 0;
  /* What was put behind it because it stood there moves up. */
  for (uint64_t next = (at + 1) & (blocks_room - 1); blocks[next].row; next = (next + 1) & (blocks_room - 1)) {
    const uint64_t home = place_of(rows[blocks[next].row - 1].api, blocks[next].handle);
    if (((next - home) & (blocks_room - 1)) < ((next - at) & (blocks_room - 1))) continue;
    blocks[at] = blocks[next];
    blocks[next].row = 0;
    at = next;
  }
}

static uint32_t row_of(const char *api, const char *kind, uint32_t mode) {
  for (uint32_t i = 0; i < rows_used; i++)
    if (rows[i].api == api && rows[i].mode == mode && strcmp(rows[i].shown.kind, kind) == 0) return i + 1;
  if (rows_used == ROWS) return 0;
  const char *const text = occatrace_text(mode);
  /* Pinned memory is the host's. Objects of OCCA lie in memory of the API below, but for the two modes that have none. */
  const int is_host = strcmp(kind, "host") == 0 || strcmp(kind, "mapped") == 0;
  const int summed = !is_host && (text == NULL || strcmp(text, "Serial") == 0 || strcmp(text, "OpenMP") == 0);
  rows[rows_used] = (struct memory){{api, kind, text != NULL ? text : "", 0, 0, 0}, api, mode, summed};
  return ++rows_used;
}

static void allocated(const char *api, uint64_t handle, uint64_t bytes, const char *kind, uint32_t mode) {
  /* Parts count no bytes of their own, and the program's own memory is not the device's. */
  if (handle == 0 || strcmp(kind, "slice") == 0 || strcmp(kind, "wrapped") == 0) return;
  pthread_mutex_lock(&lock);
  const uint32_t row = row_of(api, kind, mode);
  if (row != 0 && make_room()) {
    uint64_t at = find(api, handle);
    if (blocks[at].row) { /* its end was not seen */
      forget(at);
      at = find(api, handle);
    }
    blocks[at] = (struct block){handle, bytes, occatrace_now(), row};
    blocks_used++;
    struct occatrace_live_memory *const shown = &rows[row - 1].shown;
    shown->count++;
    shown->in_use += bytes;
    if (shown->in_use > shown->high) shown->high = shown->in_use;
    if (rows[row - 1].summed) in_use += bytes;
    if (in_use > high) high = in_use;
  }
  pthread_mutex_unlock(&lock);
}

static void freed(const char *api, const uint64_t *handles, uint32_t count, uint64_t start) {
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < count && blocks_room != 0; i++) {
    const uint64_t at = find(api, handles[i]);
    /* What was allocated since the call began is another one at the same address: the event is written after the call. */
    if (blocks[at].row && blocks[at].time <= start) forget(at);
  }
  pthread_mutex_unlock(&lock);
}

/* ---- what is asked ---- */

int occatrace_v1_live(struct occatrace_live *out, struct occatrace_live_kernel *to_kernels, uint32_t room_for_kernels,
                      struct occatrace_live_memory *to_memory, uint32_t room_for_memory) {
  static const char *const names[] = OCCATRACE_DEVICE_ACTIVITY_KIND_NAMES;
  if (!occatrace_capture_wanted()) return 0;
  if (occatrace_live_sink.on) occatrace_harvest_now();
  pthread_mutex_lock(&lock);
  turn_on(occatrace_now());
  *out = (struct occatrace_live){.since = since, .now = occatrace_now(), .memory_in_use = in_use, .memory_high = high};
  for (uint32_t kind = 0; kind <= OCCATRACE_OTHER; kind++)
    if (work[kind].count) {
      out->work[out->kinds] = work[kind];
      out->work[out->kinds++].kind = names[kind];
    }
  out->kernels = kernels_used;
  out->memories = rows_used;
  for (uint32_t i = 0; i < kernels_used && i < room_for_kernels; i++) to_kernels[i] = kernels[i];
  for (uint32_t i = 0; i < rows_used && i < room_for_memory; i++) to_memory[i] = rows[i].shown;
  pthread_mutex_unlock(&lock);
  return 1;
}
