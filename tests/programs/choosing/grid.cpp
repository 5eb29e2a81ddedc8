// Work that any of the options may choose among, the same in each process, and notes of all that was done.
//
// usage: grid FOLDER KIND[,KIND...] [fork] [api] [until FILE [fast]]
//   KIND: opencl (no OCCA), or a mode of OCCA; of several, that of the rank. fork: parent and child do the same, each.
//   api: the capture is started and stopped around steps 2 to 3, and 5. until: steps go on until FILE is there, at some
//   distance where they are not to be fast.
// FOLDER/RANK-PID has a line for each thing done, "THREAD DEVICE STEP NAME NUMBER-OF-THIS-NAME"; FOLDER/RANK-PID.step the
// step that was done last.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <occa.hpp>

#include "occatrace.h"

namespace {
const int kEntries = 64, kDevices = 2, kSteps = 6, kStepsOfWorker = 3;
using Floats = std::vector<float>;

FILE *notes;
std::string base;
std::map<std::string, int> done;

void note(const char *thread, int device, int step, const std::string &name) {
  std::fprintf(notes, "%s %d %d %s %d\n", thread, device, step, name.c_str(), ++done[name]);
}

void check(int code, const char *what) {
  if (code == 0) return;
  std::fprintf(stderr, "grid: %s gave %d\n", what, code);
  std::exit(2);
}

// A device, its queue, its kernels and memory.
struct Place {
  virtual ~Place() = default;
  virtual void to(const Floats &values) = 0;
  virtual void launch(const char *name) = 0;
  virtual void from(Floats &values) = 0;
  virtual void finish() = 0;
};

const char *const kSource = R"(
kernel void scaleTwice(const int n, const float f, global float *a) { size_t i = get_global_id(0); if (i < n) a[i] *= f * f; }
kernel void addVectors(const int n, global float *a, global float *b, global float *c) { size_t i = get_global_id(0); if (i < n) c[i] = a[i] + b[i]; }
kernel void spin(const int n, global float *a) { if (n > 64) a[0] = n; })";

struct Plain : Place {
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  cl_mem residual = nullptr, other = nullptr, sum = nullptr;
  std::map<std::string, cl_kernel> kernels;

  explicit Plain(int number) {
    cl_platform_id platforms[8];
    cl_device_id devices[8];
    cl_uint count = 0;
    int code = clGetPlatformIDs(8, platforms, &count);
    check(code, "clGetPlatformIDs");
    cl_uint found = 0;
    check(clGetDeviceIDs(platforms[0], CL_DEVICE_TYPE_ALL, 8, devices, &found), "clGetDeviceIDs");
    device = devices[static_cast<cl_uint>(number) < found ? number : 0];
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    check(code, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    const char *source = kSource;
    cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    check(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "clBuildProgram");
    for (const char *name : {"scaleTwice", "addVectors", "spin"}) kernels[name] = clCreateKernel(program, name, &code);
    clReleaseProgram(program);
    for (cl_mem *m : {&residual, &other, &sum}) *m = clCreateBuffer(context, CL_MEM_READ_WRITE, kEntries * sizeof(float), nullptr, &code);
    check(code, "clCreateBuffer");
    const int entries = kEntries;
    const float factor = 1.5f;
    set("scaleTwice", 0, entries), set("scaleTwice", 1, factor), set("scaleTwice", 2, residual);
    set("addVectors", 0, entries), set("addVectors", 1, other), set("addVectors", 2, other), set("addVectors", 3, sum);
    set("spin", 0, entries), set("spin", 1, other);
  }
  ~Plain() override {
    for (auto &k : kernels) clReleaseKernel(k.second);
    for (cl_mem m : {residual, other, sum}) clReleaseMemObject(m);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
  }
  template <class T> void set(const char *name, unsigned at, const T &value) {
    check(clSetKernelArg(kernels[name], at, sizeof value, &value), "clSetKernelArg");
  }
  void to(const Floats &values) override {
    check(clEnqueueWriteBuffer(queue, residual, CL_TRUE, 0, kEntries * sizeof(float), values.data(), 0, nullptr, nullptr), "write");
  }
  void launch(const char *name) override {
    const size_t size = kEntries;
    check(clEnqueueNDRangeKernel(queue, kernels[name], 1, nullptr, &size, nullptr, 0, nullptr, nullptr), name);
  }
  void from(Floats &values) override {
    check(clEnqueueReadBuffer(queue, residual, CL_TRUE, 0, kEntries * sizeof(float), values.data(), 0, nullptr, nullptr), "read");
  }
  void finish() override { check(clFinish(queue), "clFinish"); }
};

struct ByOcca : Place {
  occa::device device;
  occa::memory residual, other, sum;
  std::map<std::string, occa::kernel> kernels;

  ByOcca(const std::string &mode, int number) {
    device.setup("{mode: '" + mode + "', platform_id: 0, device_id: " + std::to_string(number) + "}");
    residual = device.malloc(kEntries * sizeof(float), occa::properties("occatrace: {trace: true, label: 'residual'}"));
    other = device.malloc(kEntries * sizeof(float), occa::properties());
    sum = device.malloc(kEntries * sizeof(float), occa::properties());
    const std::string file = KERNEL_FOLDER "/work.okl";
    for (const char *name : {"scaleTwice", "addVectors", "spin"}) kernels[name] = device.buildKernel(file, name);
  }
  void to(const Floats &values) override { residual.copyFrom(values.data(), kEntries * sizeof(float)); }
  void launch(const char *name) override {
    if (std::strcmp(name, "scaleTwice") == 0) kernels[name](kEntries, 1.5f, residual);
    else if (std::strcmp(name, "addVectors") == 0) kernels[name](kEntries, other, other, sum);
    else kernels[name](1, other);
  }
  void from(Floats &values) override { residual.copyTo(values.data(), kEntries * sizeof(float)); }
  void finish() override { device.finish(); }
};

std::unique_ptr<Place> place(const std::string &kind, int number) {
  if (kind == "opencl") return std::unique_ptr<Place>(new Plain(number));
  return std::unique_ptr<Place>(new ByOcca(kind, number));
}

void step(Place &where, const char *thread, int device, int number) {
  Floats values(kEntries, 1.0f);
  where.to(values), note(thread, device, number, "HtoD");
  where.launch("scaleTwice"), note(thread, device, number, "scaleTwice");
  for (int i = 0; i < 2; i++) where.launch("addVectors"), note(thread, device, number, "addVectors");
  where.launch("spin"), note(thread, device, number, "spin");
  where.finish();
  where.from(values), note(thread, device, number, "DtoH");
}

bool there(const std::string &file) { return access(file.c_str(), F_OK) == 0; }

void work(const std::string &kind, bool api, const std::string &until, bool fast) {
  std::vector<std::unique_ptr<Place>> places; // the last one is the worker's: OCCA makes devices in the first thread only
  for (int d = 0; d < kDevices; d++) places.push_back(place(kind, d));
  places.push_back(place(kind, 0));
  if (api) occatrace_capture_stop();
  for (int s = 1; until.empty() ? s <= kSteps : !there(until); s++) {
    if (api && (s == 2 || s == 5)) occatrace_capture_start();
    if (s == 2 || s == 5) occatrace_push("solve");
    occatrace_counter("step", s, "");
    for (int d = 0; d < kDevices; d++) step(*places[d], "main", d, s);
    occatrace_mark("done");
    if (s == 3 || s == 5) occatrace_pop();
    if (api && (s == 3 || s == 5)) occatrace_capture_stop();
    if (until.empty()) continue;
    const std::string fresh = base + ".new";
    FILE *file = std::fopen(fresh.c_str(), "w");
    std::fprintf(file, "%d", s);
    std::fclose(file);
    std::rename(fresh.c_str(), (base + ".step").c_str());
    if (!fast) usleep(2000);
  }
  // A pattern of names chooses it: it has its name before it makes any call.
  std::thread([&] {
    pthread_setname_np(pthread_self(), "worker-1");
    for (int s = 1; s <= kStepsOfWorker; s++) step(*places.back(), "worker-1", 0, s);
  }).join();
}

std::string of_rank(const std::string &kinds, int rank) {
  std::vector<std::string> all(1);
  for (const char c : kinds) {
    if (c == ',') all.push_back("");
    else all.back() += c;
  }
  return all[static_cast<size_t>(rank) % all.size()];
}
}  // namespace

int main(int argc, char **argv) {
  if (argc < 3) return 1;
  bool forks = false, api = false, fast = false;
  std::string until;
  for (int i = 3; i < argc; i++) {
    forks |= std::strcmp(argv[i], "fork") == 0;
    api |= std::strcmp(argv[i], "api") == 0;
    fast |= std::strcmp(argv[i], "fast") == 0;
    if (std::strcmp(argv[i], "until") == 0 && i + 1 < argc) until = argv[i + 1];
  }
  int rank = 0;
  for (const char *name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK"})
    if (const char *value = std::getenv(name)) rank = std::atoi(value);
  const pid_t child = forks ? fork() : -1;
  base = std::string(argv[1]) + "/" + std::to_string(rank) + "-" + std::to_string(getpid());
  notes = std::fopen(base.c_str(), "w");
  if (!notes) return 1;
  work(of_rank(argv[2], rank), api, until, fast);
  std::fclose(notes);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return status ? 1 : 0;
}
