// CUPTI's activity records as a source of device times of CUDA (tickets.h). CUPTI is opened where it is there, never linked;
// nothing of its headers is needed but the places of a few fields.
#pragma once

#include <cstdint>

#include "tickets.h"

namespace occatrace::cupti {

// At the end of the program's first cuInit. Null: CUPTI is missing, taken, or refuses; `why` says so.
const device::Source *start(const char **why);

// Which version, for the name of the platform.
uint32_t version();

void after_fork_child();

}  // namespace occatrace::cupti
