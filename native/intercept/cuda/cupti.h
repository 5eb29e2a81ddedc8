// CUPTI's activity records as a source of device times of CUDA (tickets.h). CUPTI is opened where it is there, never linked;
// nothing of its headers is needed but the places of a few fields.
#pragma once

#include <atomic>
#include <cstdint>

#include "tickets.h"

namespace occatrace::cupti {

// At the end of the program's first cuInit. Null: CUPTI is missing, taken, or refuses; `why` says so. It is held until the end, or
// until the program wants it (cupti_watch.h): `before_release` is called then.
const device::Source *start(void (*before_release)(), const char **why);

// CUpti_CallbackData, as far as it is read.
struct CallbackData {
  int site;  // 0: the call begins, 1: it ends
  const char *function;
  const void *params;
  void *returned;
  const char *symbol;
  void *context;
  uint32_t context_number;
  uint64_t *kept;  // from the begin of a call to its end
  uint32_t correlation;
};

// Who is told of the program's calls of the driver.
struct Calls {
  // Whether of those of the function that CUPTI has this number and name for.
  bool (*wants)(uint32_t number, const char *name);
  void (*told)(void *, int domain, uint32_t number, const void *data);
  bool work;  // device work is wanted too
  void (*before_release)();
};
// Subscribes; `source` is null without device work. False: as above.
bool start_with_calls(const Calls &calls, const device::Source **source, const char **why);

// In a callback: the number by which the records of what this call launches are known.
void calling(uint32_t correlation);

// ---- managed memory and waits: where CUPTI stamps by our clock (11.6 and later) ----

// From now on what the driver does to managed memory is recorded, once, of so many devices; `device_of`: ours, of CUDA's
// number. `faults`: page faults too, which cost the program more.
void record_managed(int devices, uint32_t (*device_of)(uint32_t), bool faults);

// Whether waits are recorded; then around each call that waits: what is known of it, and its end.
void record_waits();
bool waits();
void wait_begins(const occatrace_wait &wait);
void wait_ends();

// Where CUPTI is in memory, once it is open.
struct Place {
  std::atomic<uintptr_t> begin{0}, size{0};
};
extern Place place;
// Whether a call comes from CUPTI itself.
inline bool calls(const void *from) {
  return reinterpret_cast<uintptr_t>(from) - place.begin.load(std::memory_order_relaxed) < place.size.load(std::memory_order_relaxed);
}

// Which version, for the name of the platform.
uint32_t version();

void after_fork_child();

}  // namespace occatrace::cupti
