// Ours for functions of a vendor's library, by their addresses: for programs that ask the library for a function by name. And
// whether a library has what device time needs.
#pragma once

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <string>
#include <vector>

#include "made_once.h"
#include "occatrace_core.h"

namespace occatrace::device {

// A function that the model lacks works, and the run says that its calls are not there (occatrace/store/losses.py reads it).
inline void untraced(const char *api, const char *symbol) {
  occatrace_intern(("untraced function " + std::string(api) + " " + symbol).c_str());
}

// A function that device time needs, and whether the library has it.
struct Needed {
  const char *name;
  bool there;
};
#define OCCATRACE_NEEDED(table, function) {#function, (table).function != nullptr}

// False, with a line that says so: the calls of such a library are recorded, and its device work is not.
inline bool can_be_timed(const char *api, std::initializer_list<Needed> functions) {
  for (const Needed &function : functions) {
    if (function.there) continue;
    occatrace_say("device work is not recorded: the library of %s has no %s", api, function.name);
    return false;
  }
  return true;
}

class KnownFunctions {
 public:
  // As long as the process: destructors of other libraries may still ask.
  static KnownFunctions &instance() {
    static std::atomic<KnownFunctions *> all;
    return made_once(all);
  }

  void add(void *theirs, void *ours) { all_.push_back({theirs, ours}); }
  // Once all are there, and before anybody asks.
  void sort() {
    std::sort(all_.begin(), all_.end(), [](const Pair &a, const Pair &b) { return a.theirs < b.theirs; });
  }
  // What we do not know passes through.
  void *ours(void *address) const {
    const auto found = std::lower_bound(all_.begin(), all_.end(), address, [](const Pair &p, void *a) { return p.theirs < a; });
    return found != all_.end() && found->theirs == address ? found->ours : address;
  }

 private:
  struct Pair {
    void *theirs;
    void *ours;
  };
  std::vector<Pair> all_;
};

}  // namespace occatrace::device
