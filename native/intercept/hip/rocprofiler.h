// rocprofiler-sdk's records as a source of device times of HIP (tickets.h), for ROCm 6.2 and later. The library is opened where
// it is there, never linked; nothing of its headers is needed but the places of a few fields.
#pragma once

#include "tickets.h"

namespace occatrace::rocprofiler {

// Registers with it, before the runtime is initialized. `hip`: a function of the runtime's library, beside which it may lie.
void prepare(const void *hip);

// Once the program uses a device. Null: it is missing, has another tool, refuses, or the runtime does not report to it; `why`
// says so.
const device::Source *start(const char **why);

// Whether it is left alone because of another tool.
bool is_taken();

}  // namespace occatrace::rocprofiler
