// A kernel that runs for a set time: calibrates itself, then makes CALLS calls of MILLISECONDS each and says how long they took.
// usage: spin MODE CALLS MILLISECONDS
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include <occa.hpp>

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

namespace {
typedef std::chrono::steady_clock Clock;

double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double timed(occa::device &device, occa::kernel &kernel, int rounds, occa::memory &memory) {
  const Clock::time_point start = Clock::now();
  kernel(rounds, memory);
  device.finish();
  return milliseconds(Clock::now() - start);
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  const int calls = argc > 2 ? std::atoi(argv[2]) : 5;
  const double target = argc > 3 ? std::atof(argv[3]) : 20.0;
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  occa::memory memory = device.malloc(64, occa::dtype::byte);
  const float start[16] = {0};
  memory.copyFrom(start, 64);
  occa::kernel spin = device.buildKernel(KERNEL_FOLDER "/work.okl", "spin");

  // The first call builds or wakes whatever is lazy.
  timed(device, spin, 1, memory);
  int rounds = 100000, calibrations = 1;
  double took = timed(device, spin, rounds, memory);
  ++calibrations;
  while (took < 0.5 * target) {
    rounds = static_cast<int>(rounds * (took > 0.1 ? target / took : 10.0)) + 1;
    took = timed(device, spin, rounds, memory);
    ++calibrations;
  }
  double total = 0.0;
  std::string each;
  for (int i = 0; i < calls; ++i) {
    const double ms = timed(device, spin, rounds, memory);
    total += ms;
    each += (i ? ", " : "") + std::to_string(ms);
  }
  std::cout << "{\"mode\": \"" << mode << "\", \"calibrations\": " << calibrations << ", \"calls\": " << calls
            << ", \"total_ms\": " << total << ", \"each_ms\": [" << each << "]}" << std::endl;
  return 0;
}
