/* What is recorded: the switch of the run, the capture range of the process, and the choice among threads, functions,
 * kernels, devices and queues. A decision is made once for each of them; what is left out is counted. */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define CHUNK 1024u

static const uint32_t always_on = OCCATRACE_SWITCH_ON;
const uint32_t *occatrace_run_switch = &always_on;
uint32_t occatrace_own_switch;
uint8_t occatrace_choosing;

struct numbers {
  uint32_t count;
  struct {
    uint64_t first, last;
  } ranges[OCCATRACE_MOST_RANGES];
};

static struct {
  int kernels, exclude_kernels;
  regex_t kernel, exclude_kernel;
  struct numbers iterations, streams;
  const char *functions, *exclude_functions, *threads, *devices, *labels, *levels;
  int only_tagged;
} choice;

/* A kernel by its name, as far as it has been asked for. */
struct kernel {
  uint32_t name;
  uint8_t wanted;
  uint64_t launches, excluded, flushed;
};
static struct kernel *kernels[CHUNK]; /* chunks of CHUNK by name id, made when needed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t gone[OCCATRACE_EXCLUDED_REASON_COUNT], reported[OCCATRACE_EXCLUDED_REASON_COUNT]; /* counts of threads that have ended; of the last flush */

static const char *option(const char *name) {
  const char *text = getenv(name);
  return text != NULL && *text != '\0' ? text : NULL;
}

static int numbers(struct numbers *out, const char *name) {
  const char *at = option(name);
  while (at != NULL && isdigit((unsigned char)*at) && out->count < OCCATRACE_MOST_RANGES) {
    char *end;
    const uint64_t first = strtoull(at, &end, 10);
    uint64_t last = first;
    if (*end == '-') last = isdigit((unsigned char)end[1]) ? strtoull(end + 1, &end, 10) : (end++, UINT64_MAX);
    out->ranges[out->count].first = first;
    out->ranges[out->count++].last = last;
    at = *end == ',' ? end + 1 : end;
  }
  return out->count != 0;
}

static int within(const struct numbers *n, uint64_t value) {
  for (uint32_t i = 0; i < n->count; i++)
    if (value >= n->ranges[i].first && value <= n->ranges[i].last) return 1;
  return 0;
}

static int expression(regex_t *out, const char *name) {
  const char *text = option(name);
  if (text == NULL) return 0;
  if (regcomp(out, text, REG_EXTENDED | REG_NOSUB) == 0) return 1;
  occatrace_say("%s=%s is no regular expression; it is not heeded", name, text);
  return 0;
}

/* Whether one of the patterns, separated by commas, stands for the text. */
static int fits(const char *patterns, const char *text) {
  char pattern[OCCATRACE_LONGEST_PATTERN + 1];
  while (*patterns != '\0') {
    const size_t n = strcspn(patterns, ",");
    if (n > 0 && n < sizeof pattern) {
      memcpy(pattern, patterns, n);
      pattern[n] = '\0';
      if (fnmatch(pattern, text, FNM_CASEFOLD) == 0) return 1;
    }
    patterns += n + (patterns[n] == ',');
  }
  return 0;
}

void occatrace_choice_start(void) {
  static int once;
  if (once++) return;
  choice.kernels = expression(&choice.kernel, "OCCATRACE_KERNELS");
  choice.exclude_kernels = expression(&choice.exclude_kernel, "OCCATRACE_EXCLUDE_KERNELS");
  const int iterations = numbers(&choice.iterations, "OCCATRACE_KERNEL_ITERATIONS");
  const int streams = numbers(&choice.streams, "OCCATRACE_STREAMS");
  choice.functions = option("OCCATRACE_FUNCTIONS");
  choice.exclude_functions = option("OCCATRACE_EXCLUDE_FUNCTIONS");
  choice.threads = option("OCCATRACE_THREADS");
  choice.devices = option("OCCATRACE_DEVICES");
  choice.labels = option("OCCATRACE_LABELS");
  choice.levels = option("OCCATRACE_LEVEL");
  choice.only_tagged = option("OCCATRACE_ONLY_TAGGED") != NULL || choice.labels != NULL;
  occatrace_choosing = choice.kernels || choice.exclude_kernels || iterations || streams || choice.functions ||
                       choice.exclude_functions || choice.threads || choice.devices || choice.only_tagged;
  const char *path = option("OCCATRACE_CONTROL");
  const int fd = path == NULL ? -1 : open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  /* Of a run that has ended another user may have taken the path; a file that is cut short would end the program. */
  struct stat info;
  const int ours = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size >= OCCATRACE_SWITCH_SIZE && occatrace_trusts_user(info.st_uid);
  const void *page = ours ? mmap(NULL, OCCATRACE_SWITCH_SIZE, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  if (page != MAP_FAILED) __atomic_store_n(&occatrace_run_switch, (const uint32_t *)page, __ATOMIC_RELEASE);
}

/* The thread that ends the process. LTTng takes the events of a library apart one by one: what others call meanwhile would count
 * as lost. */
static const struct occatrace_thread *leaving;

/* Without its highest byte every call is looked at: there is a choice, or the process ends. */
#define LOOK_AT_EACH (OCCATRACE_SWITCH_ON & 0x00ffffffu)
uint32_t occatrace_own_mask(void) {
  const int all = !occatrace_choosing && __atomic_load_n(&leaving, __ATOMIC_ACQUIRE) == NULL;
  return all ? UINT32_MAX : LOOK_AT_EACH;
}

/* ---- levels ---- */

enum occatrace_mode occatrace_mode_of(const char *api) {
  const size_t length = strlen(api);
  for (const char *at = choice.levels; at != NULL && *at != '\0';) {
    const size_t n = strcspn(at, ",");
    if (n > length && at[length] == '=' && strncmp(at, api, length) == 0)
      return occatrace_mode_named(at + length + 1, n - length - 1);
    at += n + (at[n] == ',');
  }
  return occatrace_mode();
}

/* As reports show it: occa::memory::copyTo for memory_copyTo. */
static int function_fits(const char *patterns, const char *api, const char *name) {
  char shown[160];
  if (fits(patterns, name)) return 1;
  if (strcmp(api, "occa") != 0) return 0;
  const char *split = strchr(name, '_');
  if (split == NULL) snprintf(shown, sizeof shown, "occa::%s", name);
  else snprintf(shown, sizeof shown, "occa::%.*s::%s", (int)(split - name), name, split + 1);
  return fits(patterns, shown);
}

void occatrace_levels(const char *api, uint8_t *levels, const uint8_t (*table)[4], const char *const *names, uint32_t count) {
  const enum occatrace_mode mode = occatrace_mode_of(api);
  for (uint32_t i = 0; i < count; i++) {
    levels[i] = table[i][mode];
    if (levels[i] == OCCATRACE_OFF) continue;
    if ((choice.functions != NULL && !function_fits(choice.functions, api, names[i])) ||
        (choice.exclude_functions != NULL && function_fits(choice.exclude_functions, api, names[i])))
      levels[i] = OCCATRACE_EXCLUDED;
  }
}

void occatrace_leave_alone(void) {
  if (leaving == NULL) __atomic_store_n(&leaving, occatrace_self(), __ATOMIC_RELEASE);
  __atomic_fetch_and(&occatrace_own_switch, LOOK_AT_EACH, __ATOMIC_RELEASE);
}

static int is_left(void) {
  const struct occatrace_thread *who = __atomic_load_n(&leaving, __ATOMIC_ACQUIRE);
  return who != NULL && who != occatrace_tls;
}

uint8_t occatrace_level_slow(uint32_t now, uint8_t wanted) {
  if (is_left()) return OCCATRACE_OFF;
  struct occatrace_thread *self = occatrace_self();
  if (self->silent) {
    if (wanted != OCCATRACE_OFF) self->excluded[self->silent_for]++;
    return OCCATRACE_OFF;
  }
  if (wanted == OCCATRACE_EXCLUDED) {
    self->excluded[OCCATRACE_BY_FUNCTION]++;
    return OCCATRACE_OFF;
  }
  return (now & OCCATRACE_SWITCH_EVENTS) == OCCATRACE_SWITCH_EVENTS || wanted < OCCATRACE_TALLY ? wanted : (uint8_t)OCCATRACE_TALLY;
}

int occatrace_capturing_slow(uint32_t now) {
  return (now & OCCATRACE_SWITCH_EVENTS) == OCCATRACE_SWITCH_EVENTS && !is_left() && !occatrace_self()->silent;
}

/* ---- threads, devices, queues ---- */

void occatrace_choose_thread(struct occatrace_thread *self, const char *name) {
  if (choice.threads != NULL && !fits(choice.threads, name) && !(self->tid == occatrace_pid && fits(choice.threads, "main"))) {
    self->silent = 1;
    self->silent_for = OCCATRACE_BY_THREAD;
  } else if (choice.only_tagged) {
    self->silent = 1;
    self->silent_for = OCCATRACE_BY_TAG;
  }
}

int occatrace_choose_queue(uint32_t device, const char *device_name, uint32_t queue) {
  if (choice.streams.count != 0 && !within(&choice.streams, queue - 1)) return 0;
  if (choice.devices == NULL) return 1;
  char number[16];
  snprintf(number, sizeof number, "%u", device - 1);
  return fits(choice.devices, number) || (device_name != NULL && fits(choice.devices, device_name));
}

/* ---- kernels ---- */

static int any(const regex_t *e, const char *name) {
  char other[512];
  if (regexec(e, name, 0, NULL, 0) == 0) return 1;
  if (strncmp(name, "_occa_", 6) == 0) {
    /* What OCCA made of somebody's kernel: _occa_NAME_0. */
    snprintf(other, sizeof other, "%s", name + 6);
    char *end = other + strlen(other);
    while (end > other && isdigit((unsigned char)end[-1])) end--;
    if (*end != '\0' && end > other && end[-1] == '_') end[-1] = '\0';
    return regexec(e, other, 0, NULL, 0) == 0;
  }
  for (int i = -1; i < 8; i++) {
    snprintf(other, sizeof other, i < 0 ? "_occa_%s" : "_occa_%s_%d", name, i);
    if (regexec(e, other, 0, NULL, 0) == 0) return 1;
  }
  return 0;
}

static struct kernel *kernel_of(uint32_t name) {
  const uint32_t chunk = name / CHUNK;
  if (name == 0 || chunk >= CHUNK) return NULL;
  struct kernel *entries = __atomic_load_n(&kernels[chunk], __ATOMIC_ACQUIRE);
  if (entries != NULL && __atomic_load_n(&entries[name % CHUNK].name, __ATOMIC_ACQUIRE) != 0) return &entries[name % CHUNK];
  const char *text = occatrace_text(name);
  if (text == NULL) return NULL;
  pthread_mutex_lock(&lock);
  if (kernels[chunk] == NULL) __atomic_store_n(&kernels[chunk], calloc(CHUNK, sizeof *entries), __ATOMIC_RELEASE);
  struct kernel *k = kernels[chunk] == NULL ? NULL : &kernels[chunk][name % CHUNK];
  if (k != NULL && k->name == 0) {
    k->wanted = (!choice.kernels || any(&choice.kernel, text)) && !(choice.exclude_kernels && any(&choice.exclude_kernel, text));
    __atomic_store_n(&k->name, name, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
  return k;
}

int occatrace_choose_kernel(uint32_t name) {
  struct kernel *k = kernel_of(name);
  if (k == NULL) return 1;
  if (k->wanted &&
      (choice.iterations.count == 0 || within(&choice.iterations, __atomic_add_fetch(&k->launches, 1, __ATOMIC_RELAXED))))
    return 1;
  __atomic_add_fetch(&k->excluded, 1, __ATOMIC_RELAXED);
  return 0;
}

void occatrace_exclude_kernel(uint32_t name) {
  struct kernel *k = kernel_of(name);
  if (k != NULL) __atomic_add_fetch(&k->excluded, 1, __ATOMIC_RELAXED);
}

int occatrace_only_tagged(void) { return choice.only_tagged; }
int occatrace_label_wanted(const char *label) { return choice.labels == NULL || (label != NULL && fits(choice.labels, label)); }

/* ---- what was left out ---- */

void occatrace_excluded_of(struct occatrace_thread *ended) {
  for (int i = 0; i < OCCATRACE_EXCLUDED_REASON_COUNT; i++) gone[i] += ended->excluded[i];
}

static void write_excluded(struct occatrace_thread *self, uint8_t reason, uint32_t name, uint64_t count) {
  const struct occatrace_process_excluded r = {self->tid, occatrace_next_seq(self), occatrace_pid, reason, name, count};
  occatrace_process->excluded(&r);
}

void occatrace_flush_excluded(struct occatrace_thread *self, struct occatrace_thread *threads) {
  uint64_t sums[OCCATRACE_EXCLUDED_REASON_COUNT];
  memcpy(sums, gone, sizeof sums);
  for (struct occatrace_thread *t = threads; t != NULL; t = t->next)
    for (int i = 0; i < OCCATRACE_EXCLUDED_REASON_COUNT; i++) sums[i] += t->excluded[i];
  for (int i = 0; i < OCCATRACE_EXCLUDED_REASON_COUNT; i++) {
    if (sums[i] == reported[i]) continue;
    write_excluded(self, (uint8_t)i, 0, reported[i] = sums[i]);
  }
  for (uint32_t c = 0; c < CHUNK; c++)
    for (uint32_t i = 0; kernels[c] != NULL && i < CHUNK; i++) {
      struct kernel *k = &kernels[c][i];
      const uint64_t count = __atomic_load_n(&k->excluded, __ATOMIC_RELAXED);
      if (count != k->flushed) write_excluded(self, OCCATRACE_BY_KERNEL, k->name, k->flushed = count);
    }
}

void occatrace_choice_after_fork(void) {
  leaving = NULL;
  pthread_mutex_init(&lock, NULL);
  memset(gone, 0, sizeof gone);
  memset(reported, 0, sizeof reported);
  for (uint32_t c = 0; c < CHUNK; c++)
    for (uint32_t i = 0; kernels[c] != NULL && i < CHUNK; i++) {
      struct kernel *k = &kernels[c][i];
      k->launches = k->excluded = k->flushed = 0;
    }
}

/* ---- device time ---- */

enum occatrace_device_time occatrace_device_time(void) {
  const char *how = getenv("OCCATRACE_DEVICE_TIME");
  if (how == NULL) return OCCATRACE_TIME_AUTO;
  if (strcmp(how, "off") == 0) return OCCATRACE_TIME_OFF;
  if (strcmp(how, "events") == 0) return OCCATRACE_TIME_EVENTS;
  if (strcmp(how, "cupti") == 0) return OCCATRACE_TIME_CUPTI;
  if (strcmp(how, "roctracer") == 0) return OCCATRACE_TIME_ROCTRACER;
  if (strcmp(how, "rocprofiler") == 0) return OCCATRACE_TIME_ROCPROFILER;
  return OCCATRACE_TIME_AUTO;
}
