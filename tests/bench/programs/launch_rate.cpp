// CUDA launches of an empty kernel by THREADS threads with a stream each, RATE a second in all, for SECONDS; a synchronization
// every 100. Prints how many there were.
// usage: launch_rate THREADS RATE SECONDS
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const int threads = std::atoi(argv[1]);
  const double rate = std::atof(argv[2]) / threads, seconds = std::atof(argv[3]);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 2;
  if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return 2;
  if (cuModuleLoadData(&module, "kernel empty 0\n") != CUDA_SUCCESS) return 2;
  if (cuModuleGetFunction(&kernel, module, "empty") != CUDA_SUCCESS) return 2;
  std::atomic<long> total{0};
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      cuCtxSetCurrent(context);
      CUstream stream = nullptr;
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      long launched = 0;
      for (;;) {
        const double now = std::chrono::duration<double>(Clock::now() - begin).count();
        if (now > seconds) break;
        if (static_cast<double>(launched) > rate * now) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          continue;
        }
        for (int at = 0; at < 100; ++at, ++launched) cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
        cuStreamSynchronize(stream);
      }
      total += launched;
    });
  }
  for (std::thread &thread : all) thread.join();
  std::printf("%ld\n", total.load());
  return 0;
}
