// A place in the code as text, `file+0xoffset`: what occatrace/ingest/call_sites.py knows the function and line of.
#ifndef OCCATRACE_SITE_H
#define OCCATRACE_SITE_H

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace occatrace {

inline std::string site_text(const void *address) {
  Dl_info info;
  link_map *map = nullptr;
  const bool known = dladdr1(address, &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) && map;
  std::string text = "?";
  if (known) {
    char path[PATH_MAX];
    const ssize_t n = map->l_name[0] == '\0' ? readlink("/proc/self/exe", path, sizeof path) : -1;
    char *real = n < 0 ? realpath(info.dli_fname, nullptr) : nullptr;
    if (n >= 0) text.assign(path, static_cast<size_t>(n));
    else if (real || info.dli_fname) text = real ? real : info.dli_fname;
    std::free(real);
  }
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%llx", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address) - (known ? map->l_addr : 0)));
  return text + offset;
}

} // namespace occatrace
#endif
