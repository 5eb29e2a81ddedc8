// The CUDA driver, many problems: driver PROBLEM [STEPS]. Kernels of the fake driver last as long as their module says.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

constexpr size_t bytes = 8 << 20;
// The names are those of kernels, the numbers nanoseconds.
const char image[] = "kernel work 1000000\nkernel brief 200\nkernel lengthy 4000000\n";

CUmodule module_;
CUfunction work, brief, lengthy;
CUstream first, second;
CUdeviceptr memory, other;
char *pageable, *pinned;
int steps;

void check(CUresult code, int line) {
  if (code == CUDA_SUCCESS) return;
  std::fprintf(stderr, "driver: line %d: error %d\n", line, static_cast<int>(code));
  std::exit(1);
}
#define OK(call) check((call), __LINE__)
#define LAUNCH(kernel, stream) OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr))

void rest(double ms) {
  const timespec time = {static_cast<time_t>(ms / 1e3), static_cast<long>(ms * 1e6) % 1000000000};
  nanosleep(&time, nullptr);
}

void sync_each() {
  for (int i = 0; i < steps; ++i) {
    LAUNCH(work, first);
    OK(cuStreamSynchronize(first));  // wait
    rest(1);
  }
}

void pageable_copies() {
  for (int i = 0; i < steps / 2; ++i) {
    std::memset(pageable, i, bytes);
    OK(cuMemcpyHtoDAsync(memory, pageable, bytes, first));  // copy
    LAUNCH(brief, first);
  }
  OK(cuStreamSynchronize(first));
}

void unchanged() {
  for (int i = 0; i < steps / 2; ++i) {
    OK(cuMemcpyHtoDAsync(memory, pinned, bytes, first));  // copy
    LAUNCH(brief, first);
  }
  OK(cuStreamSynchronize(first));
}

void false_dependency() {
  CUevent there, back;
  OK(cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < steps / 4; ++i) {
    LAUNCH(lengthy, first);
    OK(cuEventRecord(there, first));
    OK(cuStreamWaitEvent(second, there, 0));
    LAUNCH(work, second);
    OK(cuEventRecord(back, second));
    OK(cuStreamWaitEvent(first, back, 0));
  }
  OK(cuCtxSynchronize());
}

void allocation() {
  for (int i = 0; i < 30 * steps; ++i) {
    CUdeviceptr each;
    OK(cuMemAlloc(&each, bytes));  // allocation
    OK(cuMemsetD8(each, 0, bytes / 64));
    OK(cuMemFree(each));
  }
}

void short_kernels() {
  for (int i = 0; i < 500 * steps; ++i) LAUNCH(brief, first);  // launch
  OK(cuStreamSynchronize(first));
}

void clean_stream() {
  for (int i = 0; i < steps; ++i) LAUNCH(work, first);
  OK(cuStreamSynchronize(first));
}

void clean_two_streams() {
  for (int i = 0; i < steps / 2; ++i) {
    LAUNCH(work, first);
    LAUNCH(work, second);
  }
  OK(cuCtxSynchronize());
}

void clean_pinned() {
  for (int i = 0; i < steps / 20; ++i) {
    std::memset(pinned, i, bytes / 16);
    OK(cuMemcpyHtoDAsync(memory, pinned, bytes / 16, first));
    for (int k = 0; k < 10; ++k) LAUNCH(lengthy, first);
    OK(cuStreamSynchronize(first));
  }
}

}  // namespace

int main(int argc, char **argv) {
  const struct { const char *name; void (*run)(); } problems[] = {
      {"sync_each", sync_each}, {"pageable_copies", pageable_copies}, {"unchanged", unchanged},
      {"false_dependency", false_dependency}, {"allocation", allocation}, {"short_kernels", short_kernels},
      {"clean_stream", clean_stream}, {"clean_two_streams", clean_two_streams}, {"clean_pinned", clean_pinned}};
  steps = argc > 2 ? std::atoi(argv[2]) : 200;
  CUdevice device;
  CUcontext context;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&module_, image));
  OK(cuModuleGetFunction(&work, module_, "work"));
  OK(cuModuleGetFunction(&brief, module_, "brief"));
  OK(cuModuleGetFunction(&lengthy, module_, "lengthy"));
  OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&memory, bytes));
  OK(cuMemAlloc(&other, bytes));
  OK(cuMemAllocHost(reinterpret_cast<void **>(&pinned), bytes));
  pageable = static_cast<char *>(std::calloc(1, bytes));
  for (const auto &one : problems)
    if (argc > 1 && std::string(argv[1]) == one.name) {
      one.run();
      return 0;
    }
  return 2;
}
