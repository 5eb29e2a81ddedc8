// OCCA in HIP mode: memory, streams, a kernel that makes two launches. usage: occa_mode FOLDER_OF_KERNELS
#include <string>
#include <vector>

#include <occa.hpp>

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  occa::device device(std::string("{mode: 'HIP', device_id: 1}"));
  if (device.mode() != "HIP") return 3;
  occa::kernel scale = device.buildKernel(std::string(argv[1]) + "/work.okl", "scaleTwice");
  const int entries = 1000;
  std::vector<float> values(entries, 1.0f);
  occa::memory plain = device.malloc<float>(entries, values.data());
  occa::memory other = device.malloc<float>(1500);
  plain.copyTo(values.data(), 25);
  other.copyFrom(plain, 50);
  for (int i = 0; i < 3; ++i) scale(entries, 2.0f, plain);
  device.setStream(device.createStream());
  for (int i = 0; i < 2; ++i) scale(entries, 2.0f, other);
  device.finish();
  return 0;
}
