// Ranks that use everything at once: OCCA kernels in OpenMP and in OpenCL mode, a parallel region of their own, a collective.
// Rank r calls the OpenMP kernel 10 * (r + 1) times, the OpenCL kernel 5 times; each rank has 3 regions and 4 reductions.
#include <mpi.h>

#include <iostream>
#include <occa.hpp>
#include <string>
#include <vector>

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

namespace {
double scaled(const std::string &mode, int calls) {
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  const int entries = 1024;
  std::vector<float> host(entries, 1.0f);
  occa::memory memory = device.malloc(entries * sizeof(float), occa::dtype::byte);
  memory.copyFrom(host.data(), entries * sizeof(float));
  occa::kernel kernel = device.buildKernel(KERNEL_FOLDER "/work.okl", "scaleTwice");
  for (int call = 0; call < calls; ++call) kernel(entries, 1.0f, memory);
  memory.copyTo(host.data(), entries * sizeof(float));
  double sum = 0;
  for (float value : host) sum += value;
  return sum;
}
}  // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double mine[4] = {scaled("OpenMP", 10 * (rank + 1)), scaled("OpenCL", 5), 0, 0};
  for (int region = 0; region < 3; ++region) {
    int threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : threads)
    threads += 1;
    mine[2] += threads;
  }
  double all = 0;
  for (int i = 0; i < 4; ++i) {
    double sum = 0;
    MPI_Allreduce(&mine[i], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    all += sum;
  }
  if (rank == 0) std::cout << size << " ranks, " << all << std::endl;
  MPI_Finalize();
  return 0;
}
