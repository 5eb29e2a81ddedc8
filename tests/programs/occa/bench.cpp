// What OCCA calls cost: nanoseconds per call, the least of several rounds, as a line of JSON.
// usage: bench [MODE] [CALLS]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include <occa.hpp>

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

namespace {
template <class Call>
double best(int calls, const Call &call) {
  typedef std::chrono::steady_clock Clock;
  double least = 1e30;
  for (int round = 0; round < 10; ++round) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      call();
    }
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / calls);
  }
  return least;
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  const int calls = argc > 2 ? std::atoi(argv[2]) : 20000;
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  occa::memory memory = device.malloc(64, occa::dtype::byte);
  occa::kernel empty = device.buildKernel(KERNEL_FOLDER "/work.okl", "empty");
  occa::kernel withMemory = device.buildKernel(KERNEL_FOLDER "/work.okl", "emptyWithMemory");
  occa::memory a = device.malloc(64, occa::dtype::byte), b = device.malloc(64, occa::dtype::byte), c = device.malloc(64, occa::dtype::byte);
  float value = 0;
  empty(1);
  withMemory(1, memory, a, b, c);

  const double operatorCall = best(calls, [&] { empty(1); });
  const double memoryCall = best(calls, [&] { withMemory(1, memory, a, b, c); });
  const double run = best(calls, [&] { empty.run(); });
  const double copyFrom = best(calls, [&] { memory.copyFrom(&value, sizeof value); });
  const double allocate = best(calls, [&] { occa::memory m = device.malloc(64, occa::dtype::byte); });
  std::cout << "{\"mode\": \"" << device.mode() << "\", \"kernel_call_ns\": " << operatorCall
            << ", \"kernel_memory_call_ns\": " << memoryCall << ", \"kernel_run_ns\": " << run
            << ", \"copyFrom_ns\": " << copyFrom << ", \"malloc_free_ns\": " << allocate << "}" << std::endl;
  return 0;
}
