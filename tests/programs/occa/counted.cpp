// Kernels that touch a known number of pages for the first time; says how many page faults the process had in each call, by the
// kernel's own count, and those that a fork did.
// usage: counted MODE CALLS PAGES
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include <occa.hpp>

#include "occatrace.h"

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

namespace {
const long kPage = 4096;

long faults() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt + used.ru_majflt;
}

// New pages, which nobody has touched.
char *fresh(long pages) {
  void *memory = mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(3);
  madvise(memory, pages * kPage, MADV_NOHUGEPAGE);
  return static_cast<char *>(memory);
}

long called(occa::kernel &touch, long pages) {
  const long address = reinterpret_cast<long>(fresh(pages));
  const long before = faults();
  touch(static_cast<int>(pages), address);
  return faults() - before;
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  const int calls = argc > 2 ? std::atoi(argv[2]) : 3;
  const long pages = argc > 3 ? std::atol(argv[3]) : 1000;
  occa::device device;
  device.setup("{mode: '" + mode + "'}");
  occa::kernel touch = device.buildKernel(KERNEL_FOLDER "/counted.okl", "touchPages");
  called(touch, 1);  // the team and the counters of its threads begin
  occatrace_push("all calls");
  for (int i = 0; i < calls; ++i) std::cout << called(touch, pages * (i + 1)) << std::endl;
  occatrace_pop();
  std::cout.flush();
  const pid_t child = mode == "Serial" ? fork() : -1;
  if (child == 0) {
    called(touch, 1);
    std::cout << called(touch, 7 * pages) << std::endl;
    return 0;
  }
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return status;
}
