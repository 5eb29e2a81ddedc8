// A small OCCA program: one kernel, 58 runs, copies both ways, in the mode of its argument. Prints how long it took to make
// the device, its first call.
#include <chrono>
#include <cstdio>
#include <occa.hpp>
#include <vector>

int main(int argc, char **argv) {
  const char *source = "@kernel void scale(const int n, float *x) {\n"
                       "  for (int i = 0; i < n; ++i; @tile(64, @outer, @inner)) x[i] *= 1.0f;\n"
                       "}\n";
  const int n = 4096;
  const auto start = std::chrono::steady_clock::now();
  const auto ms = [&] { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(); };
  occa::device device(argc > 1 ? argv[1] : "{mode: 'Serial'}");
  std::printf("first %.1f ms\n", ms());
  std::vector<float> values(n, 1.0f);
  occa::memory x = device.malloc(n * sizeof(float), values.data());
  occa::kernel scale = device.buildKernelFromString(source, "scale");
  for (int i = 0; i < 58; ++i) scale(n, x);
  device.finish();
  x.copyTo(values.data());
  std::printf("all %.1f ms\n", ms());
  return 0;
}
