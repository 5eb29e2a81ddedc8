// Calls of OCCA, each at a line of its own that the program tells: "TRUE function line".
#include <occa.hpp>

#include <cstdio>
#include <vector>

#define SAY(function) std::fprintf(stderr, "TRUE %s %d\n", function, __LINE__)

static const char *source = "@kernel void add(const int n, float *a) { for (int i = 0; i < n; ++i; @tile(16, @outer, @inner)) { a[i] += 1; } }";

int main(int, char **argv) {
  std::vector<float> host(256, 1.f);
  occa::device device(argv[1]);  SAY("occa::device::setup");
  occa::memory memory = device.malloc(256, occa::dtype::float_);  SAY("occa::device::malloc");
  memory.copyFrom(host.data());  SAY("occa::memory::copyFrom");
  occa::kernel kernel = device.buildKernelFromString(source, "add");  SAY("occa::device::buildKernelFromString");
  for (int i = 0; i < 3; i++) {
    kernel(256, memory);  SAY("occa::kernel::run");
  }
  memory.copyTo(host.data());  SAY("occa::memory::copyTo");
  device.finish();  SAY("occa::device::finish");
  memory.free();  SAY("occa::memory::free");
  return host[0] == 4.f ? 0 : 1;
}
