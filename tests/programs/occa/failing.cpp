// Calls that fail and are caught, between calls that work: nothing after a failure may be wrong, here or in the profile.
// usage: failing MODE TRUTH-FILE
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <occa.hpp>

#include "truth.hpp"

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

namespace {
int unexpected = 0;
Truth truth;

void fails(const std::string &function, const std::function<void()> &call) {
  try {
    call();
    std::cerr << "failing: " << function << " did not fail\n";
    ++unexpected;
  } catch (const std::exception &error) {
    truth.failed(function);
  }
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  const std::string file = argc > 2 ? argv[2] : "-";
  const unsigned long launches = (mode == "Serial" || mode == "OpenMP") ? 0 : 1;
  const int entries = 1000;
  const size_t bytes = entries * sizeof(float);
  std::vector<float> a(entries, 1.0f), b(entries, 2.0f), ab(2 * entries, 0.0f);

  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  occa::memory o_a = device.malloc(bytes, occa::dtype::byte);
  occa::memory o_b = device.malloc(bytes, occa::dtype::byte);
  occa::memory o_ab = device.malloc(bytes, occa::dtype::byte);
  for (int i = 0; i < 3; ++i) {
    truth.allocation(bytes);
  }

  fails("memory_copyFrom", [&] { o_a.copyFrom(ab.data(), 2 * bytes); });
  fails("memory_copyTo", [&] { o_a.copyTo(ab.data(), bytes, 4); });
  fails("memory_slice", [&] { o_a.slice(bytes, 8); });
  fails("device_buildKernel", [&] { device.buildKernel(KERNEL_FOLDER "/absent.okl", "addVectors"); });
  fails("device_buildKernelFromString", [&] {
    device.buildKernelFromString("@kernel void broken(const int n, float *a) {\n"
                                 "  for (int i = 0; i < n; ++i; @tile(16, @outer, @inner)) { a[i] = no_such_function(i); }\n}\n",
                                 "broken");
  });

  occa::kernel add = device.buildKernel(KERNEL_FOLDER "/work.okl", "addVectors");
  truth.build();
  // In the GPU modes OCCA 1.0 does not look at the arguments, and crashes.
  if (!launches) {
    fails("kernel_run", [&] { add(entries, o_a); });
    fails("kernel_run", [&] { add(entries, entries, o_b, o_ab); });
  }

  o_a.copyFrom(a.data(), bytes);
  o_b.copyFrom(b.data(), bytes);
  truth.copy("HtoD", bytes);
  truth.copy("HtoD", bytes);
  add(entries, o_a, o_b, o_ab);
  truth.kernel("addVectors", launches);
  device.finish();
  truth.finish();
  o_ab.copyTo(ab.data(), bytes);
  truth.copy("DtoH", bytes);
  for (int i = 0; i < entries; ++i) {
    unexpected += ab[i] != 3.0f;
  }
  if (!truth.write(file, "failing", mode)) {
    return 2;
  }
  return unexpected ? 1 : 0;
}
