// COUNT cheap OpenCL calls in each of THREADS threads, RATE of them a second in all (0: as fast as they go, which loses events
// where the consumer gets no processor), and LAUNCHES kernels of 64 items among them, spread over the threads: what a benchmark of
// the analysis reads.
// usage: many_calls THREADS COUNT [RATE [LAUNCHES]]
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char **argv) {
  using clock = std::chrono::steady_clock;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const long count = argc > 2 ? std::atol(argv[2]) : 1000000;
  const double rate = argc > 3 ? std::atof(argv[3]) / threads : 0;
  const long launches = argc > 4 ? std::atol(argv[4]) : 0;
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  if (clGetPlatformIDs(1, &platform, nullptr) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr)) return 1;
  cl_int error = 0;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
  if (error) return 1;
  const char *source = "kernel void add(global float *x) { x[get_global_id(0)] += 1; }";
  cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &error);
  if (error || clBuildProgram(program, 1, &device, "", nullptr, nullptr)) return 1;
  cl_kernel kernel = clCreateKernel(program, "add", &error);
  cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, nullptr, &error);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, nullptr, &error);
  if (error || clSetKernelArg(kernel, 0, sizeof memory, &memory)) return 1;
  std::vector<std::thread> all;
  const auto begun = clock::now();
  for (int i = 0; i < threads; ++i)
    all.emplace_back([=] {
      const long turns = (count + 2) / 3;
      const long share = launches / threads + (i < launches % threads);
      const size_t items = 64;
      cl_uint references = 0;
      long launched = 0;
      for (long at = 0; at < count; at += 3) {
        clRetainContext(context);
        clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof references, &references, nullptr);
        clReleaseContext(context);
        const long turn = at / 3;
        while (launched < share * (turn + 1) / turns) {
          clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, nullptr, 0, nullptr, nullptr);
          if (++launched % 64 == 0) clFinish(queue);
        }
        if (rate > 0 && turn % 256 == 255)
          std::this_thread::sleep_until(begun + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(at / rate)));
      }
    });
  for (auto &thread : all) thread.join();
  clFinish(queue);
  clReleaseMemObject(memory);
  clReleaseCommandQueue(queue);
  clReleaseKernel(kernel);
  clReleaseProgram(program);
  clReleaseContext(context);
  std::printf("%ld\n", threads * ((count + 2) / 3) * 3);
  return 0;
}
