/* Threads: who they are, and what process this is. A part of core.c, whose state it uses. */

static void thread_ended(void *data) {
  struct occatrace_thread *self = data;
  occatrace_tls = NULL;
  __atomic_store_n(&self->finished, 1, __ATOMIC_RELEASE);
}

/* Written by a thread for itself: who it is, and first of all what process this is. */
static void announce_thread(struct occatrace_thread *self) {
  char name[17] = "";
  prctl(PR_GET_NAME, name);
  const struct occatrace_process_thread r = {self->tid, occatrace_next_seq(self), occatrace_pid, name};
  occatrace_process->thread(&r);
  if (occatrace_choosing) occatrace_choose_thread(self, name);
}

static void announce_process(struct occatrace_thread *self) {
  char host[256] = "", exe[PATH_MAX] = "", cmdline[4097] = "";
  gethostname(host, sizeof host - 1);
  const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n > 0) exe[n] = '\0';
  FILE *file = fopen("/proc/self/cmdline", "re");
  if (file != NULL) {
    const size_t length = fread(cmdline, 1, sizeof cmdline - 1, file);
    fclose(file);
    for (size_t i = 0; i + 1 < length; i++)
      if (cmdline[i] == '\0') cmdline[i] = ' ';
  }
  const char *node_name = getenv("OCCATRACE_HOST");
  if (node_name != NULL && *node_name != '\0') snprintf(host, sizeof host, "%s", node_name);
  struct occatrace_place place;
  occatrace_find_place(&place);
  char cpus[256];
  name_processors(cpus, sizeof cpus);
  const char *run = getenv("OCCATRACE_RUN");
  struct timespec real;
  const uint64_t before = occatrace_now();
  clock_gettime(CLOCK_REALTIME, &real);
  const uint64_t ticks = occatrace_ticks(), after = occatrace_now();
  const struct occatrace_process_process r = {
      .tid = self->tid,
      .seq = occatrace_next_seq(self),
      .pid = occatrace_pid,
      .ppid = (uint32_t)getppid(),
      .host = host,
      .exe = exe,
      .cmdline = cmdline,
      .run = run,
      .start = born_mono,
      .mono = before + (after - before) / 2,
      .realtime = (uint64_t)real.tv_sec * UINT64_C(1000000000) + (uint64_t)real.tv_nsec,
      .ticks = ticks,
      .ticks_hz = occatrace_ticks_hz(),
      .version = OCCATRACE_VERSION,
      .mode = modes[occatrace_mode()],
      .rank = place.rank,
      .size = place.size,
      .local_rank = place.local_rank,
      .job = place.job,
      .cpus = cpus,
  };
  occatrace_process->process(&r);
}

static unsigned announcing; /* threads that are among the others, but have not yet been written of */

static struct occatrace_thread *new_thread(int ready) {
  /* mmap: the table of tallies is large and mostly untouched. */
  struct occatrace_thread *self =
      mmap(NULL, sizeof *self, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (self == MAP_FAILED) {
    static struct occatrace_thread emergency; /* out of memory: nothing is right any more, but nothing crashes */
    occatrace_own_switch = 0;
    return &emergency;
  }
  self->tid = (uint32_t)syscall(SYS_gettid);
  self->run_seq = self->scope_seq = OCCATRACE_NO_RUN;
  occatrace_tls = self;
  if (!ready) return self;
  pthread_setspecific(thread_end_key, self);
  __atomic_fetch_add(&announcing, 1, __ATOMIC_ACQ_REL);
  pthread_mutex_lock(&threads_lock);
  self->next = threads;
  threads = self;
  const int owed = process_owed;
  process_owed = 0;
  pthread_mutex_unlock(&threads_lock);
  announce_thread(self);
  __atomic_fetch_sub(&announcing, 1, __ATOMIC_ACQ_REL);
  if (owed) {
    announce_process(self);
    if (!own_on()) write_capture(self, 2);
    occatrace_announce_again(self);
  }
  return self;
}

struct occatrace_thread *occatrace_thread_start(void) {
  if (occatrace_tls != NULL) return occatrace_tls;
  const int before = errno; /* the program's */
  const int ready = occatrace_start();
  /* A handler that comes here meanwhile would make a second one. */
  sigset_t all, signals;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &signals);
  struct occatrace_thread *self = occatrace_tls != NULL ? occatrace_tls : new_thread(ready);
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
  errno = before;
  return self;
}
