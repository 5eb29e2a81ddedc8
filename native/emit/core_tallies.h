/* Tallies: slots of functions, what is counted per thread, and how it is written. A part of core.c, whose state it uses. */

uint32_t occatrace_slot_of(const char *api, const char *function) {
  char name[72];
  snprintf(name, sizeof name, "%s:%s", api, function);
  const uint32_t used = __atomic_load_n(&functions_used, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < used; i++)
    if (strcmp(function_names[i], name) == 0) return i;
  return OCCATRACE_MAX_FUNCTIONS;
}

uint32_t occatrace_register_functions(const char *api, const char *const *names, uint32_t count) {
  pthread_mutex_lock(&threads_lock);
  uint32_t first = functions_used;
  /* An API that is bound again keeps its slots. */
  const uint32_t known = occatrace_slot_of(api, count ? names[0] : "");
  if (known != OCCATRACE_MAX_FUNCTIONS) {
    pthread_mutex_unlock(&threads_lock);
    return known;
  }
  if (first + count > OCCATRACE_MAX_FUNCTIONS) {
    occatrace_say("too many traced functions; tallies of %s are not kept", api);
    first = OCCATRACE_MAX_FUNCTIONS; /* occatrace_tally_new refuses such slots */
  } else {
    for (uint32_t i = 0; i < count; i++)
      snprintf(function_names[first + i], sizeof function_names[0], "%s:%s", api, names[i]);
    functions_used += count;
  }
  pthread_mutex_unlock(&threads_lock);
  return first;
}

struct occatrace_tally *occatrace_tally_new(struct occatrace_thread *self, uint32_t slot) {
  if (slot >= OCCATRACE_MAX_FUNCTIONS) return NULL;
  struct occatrace_tally *t =
      mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (t == MAP_FAILED) return NULL;
  t->min = UINT64_MAX;
  __atomic_store_n(&self->tallies[slot], t, __ATOMIC_RELEASE);
  occatrace_background_start(); /* long runs and kill -9: tallies are written out now and then */
  return t;
}

static uint32_t function_id(uint32_t slot) {
  uint32_t id = __atomic_load_n(&function_ids[slot], __ATOMIC_RELAXED);
  if (id == 0) __atomic_store_n(&function_ids[slot], id = occatrace_intern(function_names[slot]), __ATOMIC_RELAXED);
  return id;
}

void occatrace_failure(uint32_t slot, uint32_t call_seq, int64_t code, uint32_t text) {
  static uint32_t noted[OCCATRACE_MAX_FUNCTIONS];
  if (state != READY || slot >= OCCATRACE_MAX_FUNCTIONS) return;
  if (__atomic_fetch_add(&noted[slot], 1, __ATOMIC_RELAXED) >= 1000) {
    __atomic_fetch_sub(&noted[slot], 1, __ATOMIC_RELAXED);
    return;
  }
  struct occatrace_thread *self = occatrace_self();
  const uint32_t function = function_id(slot); /* may announce, and so take a number */
  const struct occatrace_process_failure r = {self->tid, occatrace_next_seq(self), occatrace_pid, function, call_seq, code, text};
  occatrace_process->failure(&r);
}

static void write_tally(struct occatrace_thread *self, struct occatrace_thread *owner, uint32_t slot, uint64_t hz) {
  struct occatrace_tally *t = owner->tallies[slot];
  static uint16_t buckets[OCCATRACE_HISTOGRAM_BUCKETS]; /* under flush_lock */
  static uint32_t counts[OCCATRACE_HISTOGRAM_BUCKETS];
  uint32_t n = 0;
  const uint64_t count = t->count;
  /* The owner may be counting: read only as far as min and max, which bound what is in use. */
  if (count > 0)
    for (uint32_t b = occatrace_histogram_bucket(t->min), last = occatrace_histogram_bucket(t->max); b <= last; b++)
      if (t->buckets[b]) {
        buckets[n] = (uint16_t)b;
        counts[n++] = t->buckets[b];
      }
  const uint32_t function = function_id(slot);
  const struct occatrace_process_tally r = {
      .tid = self->tid,
      .seq = occatrace_next_seq(self),
      .pid = occatrace_pid,
      .owner = owner->tid,
      .function = function,
      .count = count,
      .failed = t->failed,
      .total = t->total,
      .min = t->min,
      .max = t->max,
      .ticks_hz = hz,
      .buckets = buckets,
      .buckets_length = n,
      .counts = counts,
      .counts_length = n,
  };
  occatrace_process->tally(&r);
  t->flushed = count;
}

static void free_thread(struct occatrace_thread *t) {
  occatrace_excluded_of(t);
  for (uint32_t i = 0; i < functions_used; i++)
    if (t->tallies[i] != NULL) munmap(t->tallies[i], sizeof *t->tallies[i]);
  free(t->occa);
  free(t->annotation);
  free(t->mpi);
  occatrace_paths_free(t);
  munmap(t, sizeof *t);
}

void occatrace_flush(void) {
  if (state != READY) return;
  struct occatrace_thread *self = occatrace_self();
  const uint64_t hz = occatrace_ticks_hz();
  pthread_mutex_lock(&flush_lock);
  pthread_mutex_lock(&threads_lock);
  struct occatrace_thread *first = threads;
  pthread_mutex_unlock(&threads_lock);
  /* New threads are put before `first`; only this function, under flush_lock, takes any out. */
  struct occatrace_thread *previous = NULL;
  for (struct occatrace_thread *t = first; t != NULL;) {
    struct occatrace_thread *next = t->next;
    const uint32_t ended = __atomic_load_n(&t->finished, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < functions_used; i++)
      if (t->tallies[i] != NULL && t->tallies[i]->count != t->tallies[i]->flushed) write_tally(self, t, i, hz);
    occatrace_flush_counted(self, t);
    if (t != self) {
      const struct occatrace_process_progress r = {self->tid, occatrace_next_seq(self), occatrace_pid, t->tid, t->next_seq};
      occatrace_process->progress(&r);
    }
    if (ended && t != self) {
      pthread_mutex_lock(&threads_lock);
      if (previous != NULL) {
        previous->next = next;
      } else {
        struct occatrace_thread **link = &threads;
        while (*link != t) link = &(*link)->next;
        *link = next;
      }
      pthread_mutex_unlock(&threads_lock);
      free_thread(t);
    } else {
      previous = t;
    }
    t = next;
  }
  if (occatrace_choosing) {
    pthread_mutex_lock(&threads_lock);
    first = threads; /* the one before may have ended */
    pthread_mutex_unlock(&threads_lock);
    occatrace_flush_excluded(self, first);
  }
  /* Last: its own progress counts the records above. */
  const uint32_t seq = occatrace_next_seq(self);
  const struct occatrace_process_progress r = {self->tid, seq, occatrace_pid, self->tid, seq + 1};
  occatrace_process->progress(&r);
  pthread_mutex_unlock(&flush_lock);
}
