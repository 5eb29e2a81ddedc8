// ns of CPU time per CUDA driver call of the launching thread, the smallest of many rounds: a getter; a launch with its share
// of a synchronization every 100; and, with an argument, the same with what pairs of events ask of the driver, by the program's
// own hand: two events recorded around each (`recorded`), and asked afterwards when it ran (`timed`).
// For the driver of tests/fakes/cuda: a kernel is at work while calls are measured, or waking its thread and waiting for its
// locks would be what is measured.
#include <cuda.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

constexpr int kRounds = 200;
constexpr int kLaunches = 100;

static uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

template <class Prepare, class Call>
static void measure(const char *name, int calls, Prepare prepare, Call call) {
  double least = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    prepare();
    const uint64_t begin = now();
    for (int at = 0; at < calls; ++at) call(at);
    least = std::min(least, static_cast<double>(now() - begin) / calls);
  }
  std::printf("%s %.1f\n", name, least);
}

int main(int argc, char **) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr, spin = nullptr;
  CUstream stream = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 2;
  if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return 2;
  if (cuModuleLoadData(&module, "kernel empty 0\nkernel spin\n") != CUDA_SUCCESS) return 2;
  if (cuModuleGetFunction(&kernel, module, "empty") != CUDA_SUCCESS) return 2;
  if (cuModuleGetFunction(&spin, module, "spin") != CUDA_SUCCESS) return 2;
  if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return 2;
  int value = 0;
  measure("getter", 1000, [] {}, [&](int) { cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device); });

  const auto launch = [&] { cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr); };
  const auto occupy = [&] {
    uint64_t ns = 1000000;
    void *arguments[] = {&ns};
    cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
    const timespec moment{0, 100000};
    nanosleep(&moment, nullptr);
  };
  measure("launch", kLaunches, occupy, [&](int at) {
    launch();
    if (at == kLaunches - 1) cuStreamSynchronize(stream);
  });
  if (argc < 2) return 0;

  CUevent reference = nullptr, events[kLaunches][2];
  for (auto &pair : events) {
    for (CUevent &event : pair) cuEventCreate(&event, 0);
  }
  cuEventCreate(&reference, 0);
  cuEventRecord(reference, stream);
  for (const bool asks : {false, true}) {
    measure(asks ? "timed" : "recorded", kLaunches, occupy, [&](int at) {
      cuEventRecord(events[at][0], stream);
      launch();
      cuEventRecord(events[at][1], stream);
      if (at != kLaunches - 1) return;
      cuStreamSynchronize(stream);
      for (auto &pair : events) {
        float since = 0, length = 0;
        if (!asks || cuEventQuery(pair[1]) != CUDA_SUCCESS) continue;
        cuEventElapsedTime(&since, reference, pair[0]);
        cuEventElapsedTime(&length, pair[0], pair[1]);
      }
    });
  }
  return 0;
}
