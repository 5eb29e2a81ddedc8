/* What is announced once and then named by a small number: texts, OCCA kernels, devices, queues. Kept, so that a child
 * after fork can announce all of it again. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PIECE 8192u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct text {
  uint64_t hash;
  uint32_t id, length;
  char bytes[];
};
static const struct text **texts; /* id - 1 */
static uint32_t texts_used, texts_room;
/* Open addressing. Known texts are found without the lock, which fork would have to wait for in a program whose threads record
 * all the time: entries are only added, and a table that was outgrown stays, as somebody may be looking into it. */
struct table {
  uint32_t size;
  const struct text *entries[];
};
static struct table *table;

static struct occatrace_process_kernel *kernels;
static struct occatrace_device_device *devices;
static struct occatrace_device_queue *queues;
static uint32_t kernels_used, devices_used, queues_used, kernels_room, devices_room, queues_room;

void occatrace_announcements_lock(void) { pthread_mutex_lock(&lock); }
void occatrace_announcements_unlock(void) { pthread_mutex_unlock(&lock); }

static int grow(void *array, uint32_t used, uint32_t *room, size_t size) {
  if (used < *room) return 1;
  const uint32_t wanted = *room ? *room * 2 : 64;
  void *more = realloc(*(void **)array, wanted * size);
  if (more == NULL) return 0;
  *(void **)array = more;
  *room = wanted;
  return 1;
}

static void write_text(struct occatrace_thread *self, uint32_t id) {
  const struct text *t = texts[id - 1];
  char piece[PIECE + 1];
  uint32_t offset = 0;
  do {
    const uint32_t n = t->length - offset < PIECE ? t->length - offset : PIECE;
    memcpy(piece, t->bytes + offset, n);
    piece[n] = '\0';
    const struct occatrace_process_name r = {self->tid, occatrace_next_seq(self), occatrace_pid, id, offset, t->length, piece};
    occatrace_process->name(&r);
    offset += n;
  } while (offset < t->length);
}

const char *occatrace_text(uint32_t id) {
  pthread_mutex_lock(&lock);
  const char *text = id > 0 && id <= texts_used ? texts[id - 1]->bytes : NULL;
  pthread_mutex_unlock(&lock);
  return text;
}

/* Where a text is, or would be. */
static const struct text **place_of(struct table *in, uint64_t hash, const char *bytes, size_t length) {
  for (uint32_t at = (uint32_t)hash & (in->size - 1);; at = (at + 1) & (in->size - 1)) {
    const struct text *t = __atomic_load_n(&in->entries[at], __ATOMIC_ACQUIRE);
    if (t == NULL || (t->hash == hash && t->length == length && memcmp(t->bytes, bytes, length) == 0)) return &in->entries[at];
  }
}

static int make_room(void) {
  if (table != NULL && texts_used * 2 < table->size) return 1;
  const uint32_t size = table != NULL ? table->size * 2 : 256;
  struct table *fresh = calloc(1, sizeof *fresh + size * sizeof *fresh->entries);
  if (fresh == NULL) return 0;
  fresh->size = size;
  for (uint32_t i = 0; i < texts_used; i++) *place_of(fresh, texts[i]->hash, texts[i]->bytes, texts[i]->length) = texts[i];
  __atomic_store_n(&table, fresh, __ATOMIC_RELEASE);
  return 1;
}

uint32_t occatrace_intern_n(const char *bytes, size_t length) {
  if (bytes == NULL || occatrace_process == NULL) return 0;
  if (length > UINT32_MAX / 2) length = UINT32_MAX / 2;
  struct occatrace_thread *self = occatrace_self();
  uint64_t hash = occatrace_hash(OCCATRACE_HASH, bytes, length);
  hash ^= hash >> 32;
  struct table *now = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
  const struct text *known = now == NULL ? NULL : *place_of(now, hash, bytes, length);
  if (known != NULL) return known->id;
  pthread_mutex_lock(&lock);
  uint32_t id = 0;
  if (make_room() && grow(&texts, texts_used, &texts_room, sizeof *texts)) {
    const struct text **place = place_of(table, hash, bytes, length);
    struct text *fresh = *place != NULL ? NULL : malloc(sizeof *fresh + length + 1);
    if (*place != NULL) id = (*place)->id;
    if (fresh != NULL) {
      id = texts_used + 1;
      *fresh = (struct text){.hash = hash, .id = id, .length = (uint32_t)length};
      memcpy(fresh->bytes, bytes, length);
      fresh->bytes[length] = '\0';
      texts[texts_used++] = fresh;
      write_text(self, id); /* before it is found: nobody uses the id before it is announced */
      __atomic_store_n(place, fresh, __ATOMIC_RELEASE);
    }
  }
  pthread_mutex_unlock(&lock);
  return id;
}

uint32_t occatrace_intern(const char *text) { return text == NULL ? 0 : occatrace_intern_n(text, strlen(text)); }

#define ANNOUNCE(array, count, room, record, emit) \
  if (occatrace_process == NULL) return 0; \
  struct occatrace_thread *self = occatrace_self(); \
  uint32_t id = 0; \
  pthread_mutex_lock(&lock); \
  if (grow(&array, count, &room, sizeof *array)) { \
    id = count + 1; \
    array[count] = record; \
    array[count].pid = occatrace_pid; \
    array[count].id = id; \
    array[count].tid = self->tid; \
    array[count].seq = occatrace_next_seq(self); \
    emit(&array[count]); \
    count++; \
  } \
  pthread_mutex_unlock(&lock); \
  return id;

uint32_t occatrace_kernel(uint32_t name, uint32_t mode, uint32_t source, uint32_t line, uint32_t binary) {
  const struct occatrace_process_kernel r = {.name = name, .mode = mode, .source = source, .line = line, .binary = binary};
  ANNOUNCE(kernels, kernels_used, kernels_room, r, occatrace_process->kernel)
}

uint32_t occatrace_kernel_name(uint32_t kernel) {
  pthread_mutex_lock(&lock);
  const uint32_t name = kernel > 0 && kernel <= kernels_used ? kernels[kernel - 1].name : 0;
  pthread_mutex_unlock(&lock);
  return name;
}

uint32_t occatrace_device(uint32_t api, uint32_t platform, uint32_t name, uint32_t vendor, uint64_t handle) {
  const struct occatrace_device_device r = {.api = api, .platform = platform, .name = name, .vendor = vendor, .handle = handle};
  ANNOUNCE(devices, devices_used, devices_room, r, occatrace_devices->device)
}

uint32_t occatrace_queue(uint32_t device, uint64_t handle, uint32_t flags, uint64_t context) {
  const struct occatrace_device_queue r = {.device = device, .handle = handle, .flags = flags, .context = context};
  ANNOUNCE(queues, queues_used, queues_room, r, occatrace_devices->queue)
}

void occatrace_announce_again(struct occatrace_thread *self) {
  pthread_mutex_lock(&lock);
  occatrace_forget_modules();
  occatrace_forget_paths();
  for (uint32_t i = 1; i <= texts_used; i++) write_text(self, i);
#define AGAIN(array, count, emit) \
  for (uint32_t i = 0; i < count; i++) { \
    array[i].pid = occatrace_pid; \
    array[i].tid = self->tid; \
    array[i].seq = occatrace_next_seq(self); \
    emit(&array[i]); \
  }
  AGAIN(kernels, kernels_used, occatrace_process->kernel)
  AGAIN(devices, devices_used, occatrace_devices->device)
  AGAIN(queues, queues_used, occatrace_devices->queue)
  pthread_mutex_unlock(&lock);
}

void occatrace_activity(const struct occatrace_activity *a) {
  if (occatrace_process == NULL) return;
  struct occatrace_thread *self = occatrace_self();
  const struct occatrace_device_activity r = {
      .tid = self->tid,
      .seq = occatrace_next_seq(self),
      .kind = a->kind,
      .status = a->status,
      .corr_tid = a->corr_tid,
      .corr_seq = a->corr_seq,
      .run_seq = a->run_seq,
      .queue = a->queue,
      .queued = a->queued,
      .submitted = a->submitted,
      .start = a->start,
      .end = a->end,
      .bytes = a->bytes,
      .name = a->name,
      .gx = a->grid[0],
      .gy = a->grid[1],
      .gz = a->grid[2],
      .lx = a->block[0],
      .ly = a->block[1],
      .lz = a->block[2],
  };
  occatrace_devices->activity(&r);
  if (__builtin_expect(occatrace_live_sink.on, 0)) occatrace_live_activity(a);
}

void occatrace_write_managed(const struct occatrace_managed *m) {
  if (occatrace_process == NULL) return;
  struct occatrace_thread *self = occatrace_self();
  const struct occatrace_device_managed r = {
      .tid = self->tid,
      .seq = occatrace_next_seq(self),
      .device = m->device,
      .kind = m->kind,
      .start = m->start,
      .end = m->end,
      .value = m->value,
      .address = m->address,
  };
  occatrace_devices->managed(&r);
}

void occatrace_write_wait(const struct occatrace_wait *w) {
  if (occatrace_process == NULL) return;
  struct occatrace_thread *self = occatrace_self();
  const struct occatrace_device_wait r = {
      .tid = self->tid,
      .seq = occatrace_next_seq(self),
      .kind = w->kind,
      .corr_tid = w->corr_tid,
      .corr_seq = w->corr_seq,
      .queue = w->queue,
      .waiting = w->waiting,
      .start = w->start,
      .end = w->end,
  };
  occatrace_devices->wait(&r);
}

void occatrace_clock(uint32_t device, uint64_t host, uint64_t device_time, uint64_t uncertainty) {
  if (occatrace_process == NULL) return;
  struct occatrace_thread *self = occatrace_self();
  const struct occatrace_device_clock r = {self->tid, occatrace_next_seq(self), device, host, device_time, uncertainty};
  occatrace_devices->clock(&r);
}

void occatrace_clock_warning(uint32_t device, uint64_t clamped, uint64_t worst) {
  if (occatrace_process == NULL) return;
  struct occatrace_thread *self = occatrace_self();
  const struct occatrace_device_clock_warning r = {self->tid, occatrace_next_seq(self), device, clamped, worst};
  occatrace_devices->clock_warning(&r);
}
