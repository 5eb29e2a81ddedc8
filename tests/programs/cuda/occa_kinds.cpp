// OCCA in CUDA mode: memory of every kind, streams, a kernel that makes two launches, and memory that OCCA itself moves.
// usage: occa_kinds FOLDER_OF_KERNELS
#include <string>
#include <vector>

#include <occa.hpp>

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  occa::device device("{mode: 'CUDA', device_id: 1}");
  occa::kernel scale = device.buildKernel(std::string(argv[1]) + "/work.okl", "scaleTwice");
  const int entries = 1000;
  std::vector<float> values(entries, 1.0f);

  occa::memory plain = device.malloc(4000, values.data());
  occa::memory mapped = device.malloc(5000, occa::properties("mapped: true"));
  occa::memory unified = device.malloc(6000, occa::properties("unified: true"));
  plain.copyTo(values.data(), 100);
  unified.copyFrom(plain, 200);

  occa::stream other = device.createStream();
  for (int i = 0; i < 3; ++i) scale(entries, 2.0f, plain);
  device.setStream(other);
  for (int i = 0; i < 2; ++i) scale(entries, 2.0f, unified);
  device.finish();

  // What the kernel is given goes to the device before it and comes back at the end, by no call of the program's.
  float *shared = static_cast<float *>(device.umalloc(3000));
  scale(750, 2.0f, shared);
  device.finish();
  occa::freeUvaPtr(shared);
  return 0;
}
