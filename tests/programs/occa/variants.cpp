// Six kernels, CALLS calls of each in turn; one of them calculates FACTOR times as long as otherwise.
// usage: variants MODE CALLS WHICH FACTOR
#include <cstdlib>
#include <string>
#include <vector>

#include <occa.hpp>

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  const int calls = argc > 2 ? std::atoi(argv[2]) : 200;
  const int which = argc > 3 ? std::atoi(argv[3]) : -1;
  const double factor = argc > 4 ? std::atof(argv[4]) : 1.0;
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  occa::memory memory = device.malloc(64, occa::dtype::byte);
  const float start[16] = {0};
  memory.copyFrom(start, 64);
  std::vector<occa::kernel> kernels;
  for (int k = 0; k < 6; ++k) {
    kernels.push_back(device.buildKernel(KERNEL_FOLDER "/variants.okl", "work" + std::to_string(k)));
  }
  for (int call = 0; call < calls; ++call) {
    for (int k = 0; k < 6; ++k) {
      const int rounds = 2000 * (k + 1);
      kernels[k](static_cast<int>(k == which ? factor * rounds : rounds), memory);
      device.finish();
    }
  }
  return 0;
}
