// roctracer's activity records as a source of device times of HIP (tickets.h). The library is opened where it is there, never
// linked; nothing of its headers is needed but the places of a few fields.
#pragma once

#include "tickets.h"

namespace occatrace::roctracer {

// Before the program's first command. `commands`, up to `end`: the functions that give work to devices. Null: roctracer is
// missing, taken, or refuses; `why` says so.
const device::Source *start(const char *const *commands, const char *const *end, const char **why);

}  // namespace occatrace::roctracer
