// Known answers on a real driver, found by name: a kernel in PTX that spins as long as it is told, by the device's own timer.
//   known series COUNT NS   COUNT kernels one after another on a stream; prints the ns of each by events around it
//   known many COUNT        COUNT empty ones; prints the ns per launch
//   known bursts COUNT      the same by 50, each waited for; prints the ns per launch in the middle one
//   known probe             whether there is a device
#include <cuda.h>
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

static void *library = dlopen("libcuda.so.1", RTLD_LAZY);

template <class F>
static F *function(const char *name) {
  void *found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) std::printf("no %s\n", name), std::exit(4);
  return reinterpret_cast<F *>(found);
}
#define STRING(x) #x
#define NAME(x) STRING(x)
#define CU(call) function<decltype(::call)>(NAME(call))
#define OK(x)                                                                  \
  do {                                                                         \
    const int code_ = x;                                                       \
    if (code_ != 0) std::printf("%s: %d\n", #x, code_), std::exit(code_ == 100 ? 4 : 3); \
  } while (0)

static const char ptx[] = R"(.version 6.0
.target sm_50
.address_size 64
/* For the driver of the tests, which knows no PTX:
kernel spin
kernel empty 0
*/
.visible .entry spin(.param .u64 length) {
  .reg .u64 %now, %end, %length;
  .reg .pred %p;
  ld.param.u64 %length, [length];
  mov.u64 %now, %globaltimer;
  add.u64 %end, %now, %length;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %p, %now, %end;
  @%p bra again;
  ret;
}
.visible .entry empty() { ret; }
)";

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int count = argc > 2 ? std::atoi(argv[2]) : 1;
  uint64_t length = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  OK(CU(cuInit)(0));
  OK(CU(cuDeviceGet)(&device, 0));
  if (what == "probe") return 0;
  OK(CU(cuDevicePrimaryCtxRetain)(&context, device));
  OK(CU(cuCtxSetCurrent)(context));
  OK(CU(cuModuleLoadData)(&module, ptx));
  OK(CU(cuModuleGetFunction)(&kernel, module, what == "series" ? "spin" : "empty"));
  OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  void *arguments[] = {&length};
  auto *const launch_kernel = CU(cuLaunchKernel);
  const auto launch = [&] { OK(launch_kernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr)); };
  if (what == "series") {
    launch();  // the first is loaded
    OK(CU(cuStreamSynchronize)(stream));
    std::vector<CUevent> events(static_cast<size_t>(count) + 1);
    for (CUevent &event : events) OK(CU(cuEventCreate)(&event, 0));
    for (int at = 0; at < count; ++at) {
      OK(CU(cuEventRecord)(events[static_cast<size_t>(at)], stream));
      launch();
    }
    OK(CU(cuEventRecord)(events.back(), stream));
    OK(CU(cuStreamSynchronize)(stream));
    for (int at = 0; at < count; ++at) {
      float ms = 0;
      OK(CU(cuEventElapsedTime)(&ms, events[static_cast<size_t>(at)], events[static_cast<size_t>(at) + 1]));
      std::printf("%.0f\n", static_cast<double>(ms) * 1e6);
    }
    return 0;
  }
  const auto now = [] {
    timespec at{};
    clock_gettime(CLOCK_MONOTONIC, &at);
    return static_cast<double>(at.tv_sec) * 1e9 + static_cast<double>(at.tv_nsec);
  };
  // Of launches one after another the device is the limit, once its queue is full; of bursts the launching thread is.
  const int burst = what == "bursts" ? 50 : count;
  std::vector<double> each;
  for (int done = 0; done < count; done += burst) {
    const double begin = now();
    for (int at = 0; at < burst; ++at) launch();
    each.push_back((now() - begin) / burst);
    OK(CU(cuStreamSynchronize)(stream));
  }
  std::sort(each.begin(), each.end());
  std::printf("%.1f\n", each[each.size() / 2]);
  return 0;
}
