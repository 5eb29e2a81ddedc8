/* What include/occatrace.h calls: leads to liboccatrace_annotation.so, which the first call loads. */
#include <dlfcn.h>
#include <pthread.h>

#include "internal.h"
#define OCCATRACE_IMPLEMENTATION
#include "annotation.h"
#include "occatrace.h"

static const struct occatrace_annotations none;
static const struct occatrace_annotations *functions; /* of the library, or none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct occatrace_annotations *load(void) {
  pthread_mutex_lock(&lock);
  if (functions == NULL) {
    void *library = occatrace_capture_wanted() && occatrace_chosen("annotation") ? occatrace_load_library("liboccatrace_annotation.so") : NULL;
    const struct occatrace_annotations *(*get)(void) =
        library == NULL ? NULL : (const struct occatrace_annotations *(*)(void))dlsym(library, "occatrace_annotations");
    const struct occatrace_annotations *found = get == NULL ? NULL : get();
    __atomic_store_n(&functions, found != NULL ? found : &none, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
  return functions;
}

const struct occatrace_annotations *occatrace_annotation(void) {
  const struct occatrace_annotations *f = __atomic_load_n(&functions, __ATOMIC_ACQUIRE);
  return __builtin_expect(f != NULL, 1) ? f : load();
}

int occatrace_v1_push(const char *name, uint32_t argb, const char *values) {
  const struct occatrace_annotations *f = occatrace_annotation();
  return f->push ? f->push(OCCATRACE_API_OCCATRACE, name, argb, values) : -1;
}

int occatrace_v1_pop(void) {
  const struct occatrace_annotations *f = occatrace_annotation();
  return f->pop ? f->pop(OCCATRACE_API_OCCATRACE) : -1;
}

uint64_t occatrace_v1_begin(const char *name, uint32_t argb, const char *values) {
  const struct occatrace_annotations *f = occatrace_annotation();
  return f->begin ? f->begin(OCCATRACE_API_OCCATRACE, name, argb, values) : 0;
}

void occatrace_v1_end(uint64_t id) {
  const struct occatrace_annotations *f = occatrace_annotation();
  if (f->end) f->end(id);
}

void occatrace_v1_mark(const char *name, uint32_t argb, const char *values) {
  const struct occatrace_annotations *f = occatrace_annotation();
  if (f->mark) f->mark(OCCATRACE_API_OCCATRACE, name, argb, values);
}

void occatrace_v1_counter(const char *name, double value, const char *unit) {
  const struct occatrace_annotations *f = occatrace_annotation();
  if (f->counter) f->counter(name, value, unit);
}

void occatrace_v1_capture(int on) { occatrace_set_capture(on); }
