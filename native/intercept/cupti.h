// Device times of CUDA from CUPTI's activity records: a second way beside pairs of events, for the same engine. A command's
// ticket goes to CUPTI as an external correlation id around the call; the records bring it back with the times.
// CUPTI is opened where it is there, never linked; nothing of its headers is needed but the places of a few fields.
#pragma once

#include <cstdint>

#include "engine.h"

namespace occatrace::cupti {

// Whether the commands are timed by CUPTI. Once true it stays so.
bool on();

// At the end of the program's first cuInit. False: CUPTI is missing, taken, or refuses; `why` says so.
bool start(const char **why);

// What the engine polls.
extern const device::Vendor vendor;

// What CUPTI's clock shows: ours, where it takes one.
uint64_t stamp();

// A ticket for the command that this thread is about to give to a queue; null where none can be had. Ends with `given`.
void *take(const device::Queue *queue);
// The call is over; whoever keeps the ticket lets go of it by `vendor.release`.
void given();
// The call gave nothing to the device.
void drop(void *ticket);

// Asks CUPTI for the records of what has finished; `all`: of what it holds back too.
void flush(bool all);

// Which version, for the name of the platform.
uint32_t version();

void after_fork_child();

}  // namespace occatrace::cupti
