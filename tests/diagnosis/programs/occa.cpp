// OCCA, many problems: occa MODE PROBLEM [STEPS].
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include <occa.hpp>

namespace {

const char *const source =
    "@kernel void work(const int n, float *x) {\n"
    "  for (int i = 0; i < 64; ++i; @tile(16, @outer, @inner)) {\n"
    "    float y = x[i];\n"
    "    for (int k = 0; k < n; ++k) y = y * 1.0001f + 0.5f;\n"
    "    x[i] = y;\n"
    "  }\n"
    "}\n";
const int length = 100000;
const size_t bytes = 32 << 20;

occa::device device;
occa::kernel work;
occa::memory x, large;
std::vector<char> data(bytes);
int steps;

void rest(double ms) {
  const timespec time = {0, static_cast<long>(ms * 1e6)};
  nanosleep(&time, nullptr);
}

void finish_each() {
  for (int i = 0; i < steps; ++i) {
    work(length / 4, x);
    device.finish();  // wait
    rest(0.5);
  }
}

void allocation() {
  for (int i = 0; i < steps; ++i) {
    occa::memory each = device.malloc(bytes, occa::dtype::byte, data.data());  // allocation
    work(length / 20, x);
    device.finish();
    each.free();
  }
}

void unchanged() {
  for (int i = 0; i < steps; ++i) {
    large.copyFrom(data.data(), bytes);  // copy
    work(length / 20, x);
  }
  device.finish();
}

void builds() {
  for (int i = 0; i < 3; ++i) {
    const std::string text = std::string(source) + "// " + std::to_string(std::time(nullptr)) + std::to_string(i) + "\n";
    occa::kernel again = device.buildKernelFromString(text, "work");  // build
    again(100, x);
  }
  device.finish();
}

void small_copies() {
  for (int i = 0; i < 300 * steps; ++i) x.copyFrom(data.data() + 4 * i, 4, 4 * (i % 64));  // copy
  device.finish();
}

void clean() {
  for (int i = 0; i < steps; ++i) work(2 * length, x);
  device.finish();
}

}  // namespace

int main(int argc, char **argv) {
  const struct { const char *name; void (*run)(); } problems[] = {{"finish_each", finish_each}, {"allocation", allocation},
                                                                  {"unchanged", unchanged}, {"builds", builds},
                                                                  {"small_copies", small_copies}, {"clean", clean}};
  if (argc < 3) return 2;
  steps = argc > 3 ? std::atoi(argv[3]) : 200;
  device.setup("{mode: '" + std::string(argv[1]) + "', platform_id: 0, device_id: 0}");
  x = device.malloc(64 * sizeof(float), occa::dtype::byte);
  large = device.malloc(bytes, occa::dtype::byte);
  work = device.buildKernelFromString(source, "work");
  for (const auto &one : problems)
    if (argv[2] == std::string(one.name)) {
      one.run();
      return 0;
    }
  return 2;
}
