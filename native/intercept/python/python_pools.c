/* Memory pools and builds of pyopencl and pycuda, as the Python part of ours tells of them (occatrace/inprocess/python_pools.py): numbers,
 * the records, and the end of a block, which is seen because what was hung onto it ends with it. */
#include <stdlib.h>
#include <string.h>

#include "python.h"

static uint32_t pools, blocks;
static uint32_t generation; /* of forks: what hangs on blocks of the parent says nothing in the child */

static uint32_t name_at(PyObject *const *args, ptrdiff_t count, ptrdiff_t at) {
  const char *text = text_at(args, count, at);
  return *text != '\0' ? occatrace_intern(text) : 0;
}

static uint64_t number_at(PyObject *const *args, ptrdiff_t count, ptrdiff_t at) {
  const unsigned long long value = at < count ? py.PyLong_AsUnsignedLongLong(args[at]) : 0;
  if (py.PyErr_Occurred() != NULL) {
    py.PyErr_Clear();
    return 0;
  }
  return value;
}

/* () -> ns */
static PyObject *now(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  return py.PyLong_FromLong((long)occatrace_now());
}

/* class, class of its allocator -> number */
static PyObject *pool(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  if (!python_start_events()) return py.PyLong_FromLong(0);
  struct occatrace_thread *thread = occatrace_self();
  struct occatrace_python_pool r = {
      .id = __atomic_add_fetch(&pools, 1, __ATOMIC_RELAXED),
      .kind = name_at(args, count, 0),
      .allocator = name_at(args, count, 1),
      .frame = python_here(thread),
  };
  r.tid = thread->tid;
  r.seq = occatrace_next_seq(thread);
  python_events->pool(&r);
  return py.PyLong_FromLong((long)r.id);
}

/* Also while nothing is recorded: the block is in the trace, and would seem to be there for good. */
static void block_ends(PyObject *capsule) {
  const uintptr_t told = (uintptr_t)py.PyCapsule_GetPointer(capsule, "occatrace");
  if (told == 0 || told >> 32 != generation) return;
  struct occatrace_thread *thread = occatrace_self();
  const struct occatrace_python_pool_free r = {thread->tid, occatrace_next_seq(thread), (uint32_t)told};
  python_events->pool_free(&r);
}

/* pool, bytes asked for, bytes kept for it, memory, bytes managed, reused, ns of the begin -> what is to be hung onto the block */
static PyObject *block(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  if (!occatrace_capture || !python_start_events()) return nothing();
  struct occatrace_thread *thread = occatrace_self();
  struct occatrace_python_pool_block r = {
      .pool = (uint32_t)number_at(args, count, 0),
      .id = __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED),
      .asked = number_at(args, count, 1),
      .size = number_at(args, count, 2),
      .memory = number_at(args, count, 3),
      .managed = number_at(args, count, 4),
      .reused = (uint8_t)number_at(args, count, 5),
      .frame = python_here(thread),
      .start = number_at(args, count, 6),
  };
  r.tid = thread->tid;
  r.seq = occatrace_next_seq(thread);
  python_events->pool_block(&r);
  return py.PyCapsule_New((void *)((uintptr_t)generation << 32 | r.id), "occatrace", block_ends);
}

/* pool, bytes managed */
static PyObject *managed(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  if (!python_start_events()) return nothing();
  struct occatrace_thread *thread = occatrace_self();
  const struct occatrace_python_pool_managed r = {
      thread->tid, occatrace_next_seq(thread), (uint32_t)number_at(args, count, 0), number_at(args, count, 1)};
  python_events->pool_managed(&r);
  return nothing();
}

/* library, kernels, hash of the source, how it came, by the driver's cache, ns of the begin */
static PyObject *build(PyObject *self, PyObject *const *args, ptrdiff_t count) {
  if (!occatrace_capture || !python_start_events()) return nothing();
  struct occatrace_thread *thread = occatrace_self();
  struct occatrace_python_build r = {
      .library = name_at(args, count, 0),
      .kernels = name_at(args, count, 1),
      .source = text_at(args, count, 2),
      .cached = (uint8_t)number_at(args, count, 3),
      .driver = (uint8_t)number_at(args, count, 4),
      .frame = python_here(thread),
      .start = number_at(args, count, 5),
  };
  r.tid = thread->tid;
  r.seq = occatrace_next_seq(thread);
  python_events->build(&r);
  return nothing();
}

struct python_method python_pool_methods[] = {
    {"now", now, 0x80, NULL},
    {"pool", pool, 0x80, NULL},
    {"block", block, 0x80, NULL},
    {"managed", managed, 0x80, NULL},
    {"build", build, 0x80, NULL},
    {NULL, NULL, 0, NULL},
};

void python_pools_forked(void) { generation++; }
