/* ITT: what Intel's linked part does (load the tool that INTEL_LIBITTNOTIFY64 names, hand it the list of functions), reduced
 * to what a tool sees of it; then frames, tasks, regions, markers, events, counters and a pause through that list. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct domain { volatile int flags; const char *name; void *wide; int extra1; void *extra2; struct domain *next; } domain;
typedef struct string { const char *text; void *wide; int extra1; void *extra2; struct string *next; } string;
typedef struct { const char *name; void *wide; const char *domain; void *wide_domain; int type; long index; int extra1; void *extra2; void *next; } counter;
typedef struct { unsigned long long a, b, c; } id;
typedef struct { const char *name; void **pointer; void *first, *none; int group; } function;

static domain *(*domain_create)(const char *);
static void (*task_begin)(const domain *, id, id, string *);
static void (*task_end)(const domain *);
static void (*task_begin_overlapped)(const domain *, id, id, string *);
static void (*task_end_overlapped)(const domain *, id);
static void (*frame_begin)(const domain *, id *);
static void (*frame_end)(const domain *, id *);
static void (*region_begin)(const domain *, id, id, string *);
static void (*region_end)(const domain *, id);
static void (*marker)(const domain *, id, string *, int);
static int (*event_create)(const char *, int);
static int (*event_start)(int);
static int (*event_end)(int);
static void (*counter_set)(counter *, void *);
static void (*counter_add)(counter *, unsigned long long);
static void (*tool_pause)(void);
static void (*tool_resume)(void);
static void (*unknown)(void);
static void first(void) { abort(); }
#define ENTRY(name, pointer) {"__itt_" name, (void **)&pointer, (void *)first, NULL, 1}
static function functions[] = {
    ENTRY("domain_create", domain_create), ENTRY("task_begin", task_begin), ENTRY("task_end", task_end), ENTRY("task_begin_overlapped", task_begin_overlapped),
    ENTRY("task_end_overlapped", task_end_overlapped), ENTRY("frame_begin_v3", frame_begin), ENTRY("frame_end_v3", frame_end),
    ENTRY("region_begin", region_begin), ENTRY("region_end", region_end), ENTRY("marker", marker),
    ENTRY("event_create", event_create), ENTRY("event_start", event_start), ENTRY("event_end", event_end),
    ENTRY("counter_set_value", counter_set), ENTRY("counter_inc_delta", counter_add), ENTRY("pause", tool_pause),
    ENTRY("resume", tool_resume), ENTRY("heap_record", unknown), {NULL, NULL, NULL, NULL, 0}};
static struct {
  unsigned char magic[8];
  unsigned long major, minor, build;
  volatile long initialized, mutex_initialized, atomic;
  pthread_mutex_t mutex;
  void *library, *error_handler;
  const char **paths;
  function *functions;
} global = {{0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30}, 3, 22, 20180723, 0, 0, 0, PTHREAD_MUTEX_INITIALIZER, NULL, NULL, NULL, functions};

int main(void) {
  const char *tool = getenv("INTEL_LIBITTNOTIFY64");
  void *library = tool ? dlopen(tool, RTLD_LAZY) : NULL;
  void (*init)(void *, int) = library ? (void (*)(void *, int))dlsym(library, "__itt_api_init") : NULL;
  if (init == NULL) {
    puts("no tool");
    return 0;
  }
  unknown = (void (*)(void))first;
  init(&global, -1);
  static domain d = {1, "engine", NULL, 0, NULL, NULL};
  static string names[] = {{"work", NULL, 0, NULL, NULL}, {"split", NULL, 0, NULL, NULL}, {"phase", NULL, 0, NULL, NULL}, {"here", NULL, 0, NULL, NULL}};
  const id none = {0, 0, 0};
  for (int i = 0; i < 6; i++) {
    frame_begin(&d, NULL);
    task_begin(&d, none, none, &names[0]);
    task_end(&d);
    frame_end(&d, NULL);
  }
  const id a = {1, 0, 0}, b = {2, 0, 0};
  task_begin_overlapped(&d, a, none, &names[1]);
  task_begin_overlapped(&d, b, none, &names[1]);
  task_end_overlapped(&d, a);
  task_end_overlapped(&d, b);
  region_begin(&d, a, none, &names[2]);
  region_end(&d, a);
  marker(&d, none, &names[3], 1);
  const int event = event_create("old event", 9);
  event_start(event);
  event_end(event);
  static counter bytes = {"bytes", NULL, "engine", NULL, 1, 0, 0, NULL, NULL}, level = {"level", NULL, "engine", NULL, 8, 0, 0, NULL, NULL};
  for (int i = 0; i < 3; i++) counter_add(&bytes, 100);
  double value = -2.5;
  counter_set(&level, &value);
  tool_pause();
  marker(&d, none, &names[3], 1);
  tool_resume();
  marker(&d, none, &names[3], 1);
  /* As oneTBB and a program do, by way of Intel's macros, which look at the flags. */
  const char *const made[] = {"tbb", "tbb.flow", "tbby"};
  for (int i = 0; i < 3; i++) {
    const domain *own = domain_create(made[i]);
    if (!own->flags) continue;
    task_begin(own, none, none, &names[0]);
    task_end(own);
  }
  puts(unknown == NULL ? "right" : "wrong");
  return unknown == NULL ? 0 : 1;
}
