// Ends by an exception of OCCA that nobody catches; what ends it says which of OCCA's functions were on the stack.
// usage: dies MODE copy|build|noexcept|handler     noexcept: thrown through a function that lets none pass
//                                                  handler: the terminate handler ends the process without abort
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <occa.hpp>

namespace {
void tell() {
  void *frames[64];
  Dl_info info;
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i)
    if (dladdr(frames[i], &info) && info.dli_sname && std::strstr(info.dli_sname, "4occa")) std::cout << info.dli_sname << std::endl;
}
void tell_and_abort() {
  tell();
  std::abort();
}
void tell_and_exit() {
  tell();
  _exit(7);
}

void copy_quietly(occa::memory &memory, const void *from) noexcept { memory.copyFrom(from, 4000); }
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial", what = argc > 2 ? argv[2] : "copy";
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  occa::memory memory = device.malloc(400, occa::dtype::byte);
  const std::vector<char> from(4000);
  memory.copyFrom(from.data(), 400);
  std::set_terminate(what == "handler" ? tell_and_exit : tell_and_abort);
  if (what == "build") device.buildKernel("absent.okl", "none");
  if (what == "noexcept") copy_quietly(memory, from.data());
  memory.copyFrom(from.data(), 4000);
}
