// Kernels of other origins: built from strings under one name, freed and built again at the same address, in a host loop, of
// many arguments, called through occa::memcpy's and the global functions' ways, without OKL, from several threads with devices
// of their own.
// usage: sources MODE TRUTH-FILE
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <occa.hpp>

#include "truth.hpp"

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

namespace {
const int entries = 256;
const size_t bytes = entries * sizeof(float);
Truth truth;
unsigned long launched = 0;

std::string shift(const std::string &name, int by) {
  return "@kernel void " + name + "(const int n, float *a) {\n"
         "  for (int i = 0; i < n; ++i; @tile(16, @outer, @inner)) {\n"
         "    a[i] += " + std::to_string(by) + ";\n  }\n}\n";
}

// The host loop around the @outer block makes three launches of one call.
const char *looped =
  "@kernel void looped(const int n, float *a) {\n"
  "  for (int round = 0; round < 3; ++round) {\n"
  "    for (int i = 0; i < n; ++i; @tile(16, @outer, @inner)) {\n"
  "      a[i] += 1;\n    }\n  }\n}\n";

// More arguments than go into registers, each with a weight of its own.
std::string weighted(int count) {
  std::string parameters = "const int n, float *a", sum = "0";
  for (int i = 1; i <= count; ++i) {
    parameters += ", const int p" + std::to_string(i);
    sum += " + " + std::to_string(i) + " * p" + std::to_string(i);
  }
  return "@kernel void weighted(" + parameters + ") {\n"
         "  for (int i = 0; i < n; ++i; @tile(16, @outer, @inner)) {\n"
         "    a[i] += " + sum + ";\n  }\n}\n";
}

bool all(const std::vector<float> &values, float expected) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != expected) {
      std::cerr << "sources: " << values[i] << " instead of " << expected << "\n";
      return false;
    }
  }
  return true;
}

// OCCA 1.0 shares unguarded state between builds, so every thread builds before the others start to run.
bool inThread(occa::device device, occa::kernel kernel, int calls) {
  std::vector<float> values(entries, 0.0f);
  occa::memory memory = device.malloc(bytes, occa::dtype::byte);
  memory.copyFrom(values.data(), bytes);
  for (int i = 0; i < calls; ++i) {
    kernel(entries, memory);
  }
  device.finish();
  memory.copyTo(values.data(), bytes);
  return all(values, static_cast<float>(calls));
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  const std::string file = argc > 2 ? argv[2] : "-";
  launched = (mode == "Serial" || mode == "OpenMP") ? 0 : 1;
  const std::string properties = "{mode: '" + mode + "', platform_id: 0, device_id: 0}";
  occa::device device;
  device.setup(properties);
  occa::setDevice(device);
  std::vector<float> values(entries, 0.0f);
  bool right = true;

  occa::memory memory = occa::malloc(bytes, occa::dtype::byte);
  truth.allocation(bytes);
  occa::memcpy(memory, values.data(), bytes);
  truth.copy("HtoD", bytes);

  // One name, two sources; each freed, so that the next may take its address.
  for (int by = 1; by <= 3; ++by) {
    occa::kernel kernel = occa::buildKernelFromString(shift("shift", by), "shift");
    truth.build();
    kernel(entries, memory);
    truth.kernel("shift", launched);
    kernel.free();
  }
  // The same address as a kernel of another name.
  for (int i = 0; i < 4; ++i) {
    const std::string name = "shift" + std::to_string(i);
    occa::kernel kernel = occa::buildKernelFromString(shift(name, 1), name);
    truth.build();
    for (int call = 0; call <= i; ++call) {
      kernel(entries, memory);
      truth.kernel(name, launched);
    }
    kernel.free();
  }
  occa::kernel loop = occa::buildKernelFromString(looped, "looped");
  truth.build();
  loop(entries, memory);
  truth.kernel("looped", 3 * launched);

  // Arguments pushed one by one, then run().
  occa::kernel pushed = occa::buildKernelFromString(shift("pushed", 1), "pushed");
  truth.build();
  pushed.clearArgs();
  pushed.pushArg(entries);
  pushed.pushArg(memory);
  pushed.run();
  truth.kernel("pushed", launched);

  occa::kernel many = occa::buildKernelFromString(weighted(10), "weighted");
  truth.build();
  for (int call = 0; call < 2; ++call) {
    many(entries, memory, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1);
    truth.kernel("weighted", launched);
  }

  occa::memory copy = occa::malloc(bytes, occa::dtype::byte);
  truth.allocation(bytes);
  occa::memcpy(copy, memory, bytes);
  truth.copy("DtoD", bytes);
  occa::finish();
  truth.finish();
  occa::memcpy(values.data(), copy, bytes);
  truth.copy("DtoH", bytes);
  right = all(values, 6 + 10 + 3 + 1 + 2 * 220) && right;

  const int threads = 4, calls = 25;
  std::vector<occa::device> devices(threads);
  std::vector<occa::kernel> kernels(threads);
  for (int i = 0; i < threads; ++i) {
    devices[i].setup(properties);
    kernels[i] = devices[i].buildKernelFromString(shift("threaded", 1), "threaded");
    truth.build();
  }
  std::vector<std::thread> running;
  std::vector<char> good(threads, 0);
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] { good[i] = inThread(devices[i], kernels[i], calls); });
  }
  for (int i = 0; i < threads; ++i) {
    running[i].join();
    right = good[i] && right;
    for (int call = 0; call < calls; ++call) {
      truth.kernel("threaded", launched);
    }
    truth.allocation(bytes);
    truth.copy("HtoD", bytes);
    truth.copy("DtoH", bytes);
    truth.finish();
  }
  if (!truth.write(file, "sources", mode)) {
    return 2;
  }
  return right ? 0 : 1;
}
