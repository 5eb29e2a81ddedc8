// How a vendor's profiling library is opened: its functions by name, where it may lie, and whether the program has it already.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

namespace occatrace {

template <class F>
bool bind(void *library, const char *name, F *function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

// What a variable of the environment says; null where it is not set or empty.
inline const char *setting(const char *variable) {
  const char *text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

// Where a library of ROCm's may be: where `variable` says and nowhere else; in `beside`; as the loader finds it; in an
// installation. `names` are those that it goes by, newest first.
template <size_t N>
std::vector<std::string> rocm_candidates(const char *variable, const std::string &beside, const char *const (&names)[N]) {
  if (const char *given = setting(variable)) return {given};
  std::vector<std::string> all;
  std::vector<std::string> folders;
  if (!beside.empty()) folders.push_back(beside);
  folders.emplace_back();
  if (const char *root = setting("ROCM_PATH")) folders.push_back(std::string(root) + "/lib/");
  folders.emplace_back("/opt/rocm/lib/");
  for (const std::string &folder : folders) {
    for (const char *name : names) all.push_back(folder + name);
  }
  return all;
}

inline bool is_loaded(const char *name) { return dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr; }

template <size_t N>
bool is_loaded(const char *const (&names)[N]) {
  return std::any_of(std::begin(names), std::end(names), [](const char *name) { return is_loaded(name); });
}

}  // namespace occatrace
