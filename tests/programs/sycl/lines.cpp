// SYCL without kernels, for any compiler: copies, fills, host tasks and unified memory at known lines. Prints what it did, as a
// JSON object.
#include <cstdio>
#include <sycl/sycl.hpp>
#include <vector>

int main() {
  sycl::queue queue;
  constexpr size_t n = 1024;
  std::vector<int> host(n);
  const int first = __LINE__;
  int *device = sycl::malloc_device<int>(n, queue);
  int *shared = sycl::malloc_shared<int>(n / 4, queue);
  sycl::event before;
  for (int at = 0; at < 3; ++at) {
    before = queue.submit([&](sycl::handler &work) {
      work.depends_on(before);
      work.memset(device, at, n * sizeof(int));
    });
    before = queue.submit([&](sycl::handler &work) {
      work.depends_on(before);
      work.memcpy(host.data(), device, n * sizeof(int));
    });
  }
  queue.submit([&](sycl::handler &work) {
    work.depends_on(before);
    work.host_task([] {});
  });
  queue.wait();
  sycl::free(device, queue);
  // `shared` is never freed.
  std::printf("{\"line\": %d, \"value\": %d, \"shared\": %d}\n", first, host[7], shared != nullptr);
  return 0;
}
