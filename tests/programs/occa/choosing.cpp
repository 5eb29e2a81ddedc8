// What --kernels, tags and the like choose among: two kernels, two memory objects, copies.
// usage: choosing MODE ROUNDS [fork]     scaleTwice ROUNDS times, addVectors 2 * ROUNDS times; fork: in parent and child
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
const int kEntries = 64;

void work(const std::string &mode, int rounds) {
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  occa::properties tagged("occatrace: {trace: true, label: 'residual'}");
  occa::memory residual = device.malloc(kEntries * sizeof(float), occa::properties(tagged));
  occa::memory other = device.malloc(kEntries * sizeof(float), occa::properties());
  occa::memory sum = device.malloc(kEntries * sizeof(float), occa::properties());
  const std::string file = KERNEL_FOLDER "/work.okl";
  occa::kernel scale = device.buildKernel(file, "scaleTwice");
  occa::kernel named = device.buildKernel(file, "addVectors", occa::properties("occatrace: {label: 'sum of two'}"));
  occa::kernel never = device.buildKernel(file, "spin", occa::properties("occatrace: {trace: false}"));
  float values[kEntries] = {0};
  residual.copyFrom(values, sizeof values);
  other.copyFrom(values, sizeof values);
  for (int i = 0; i < rounds; ++i) {
    occatrace_push("step");
    scale(kEntries, 1.5f, residual);
    named(kEntries, other, other, sum);
    named(kEntries, other, other, sum);
    never(1, other);
    occatrace_pop();
  }
  residual.copyTo(values, sizeof values);
  sum.copyTo(values, sizeof values);
  device.finish();
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 10;
  const bool child = argc > 3 && fork() == 0;
  work(mode, rounds);
  int status = 0;
  if (!child && argc > 3) wait(&status);
  return status ? 1 : 0;
}
