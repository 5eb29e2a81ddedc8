// The program of the demo: heat in a square plate, backward Euler in time, conjugate gradients in space, on OCCA.
// The start is a sum of eigenvectors of the discrete operator, so the exact answer is known and the program checks itself.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <occa.hpp>

#include "truth.hpp"

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

namespace {

const double kPi = 3.14159265358979323846;

struct Options {
  std::string mode = "Serial", truth, kernels = KERNEL_FOLDER, device;
  int size = 256, steps = 10;
};

const char *usage =
  "usage: demo [-m|--mode Serial|OpenMP|OpenCL|CUDA|HIP] [-n|--size POINTS] [-s|--steps STEPS]\n"
  "            [-d|--device PROPERTIES] [--kernels FOLDER] [--truth FILE]\n"
  "  Solves the heat equation on POINTS x POINTS points and checks the result.\n"
  "  --device gives OCCA's properties of the device instead of --mode;\n"
  "  --truth writes what was done (calls, bytes) as a line of JSON ('-': standard output).\n";

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "-h" || name == "--help") {
      std::cout << usage;
      std::exit(0);
    }
    if (i + 1 == argc) {
      std::cerr << "demo: '" << name << "' is unknown or lacks its value\n" << usage;
      std::exit(2);
    }
    const std::string value = argv[++i];
    if (name == "-m" || name == "--mode") {
      options.mode = value;
    } else if (name == "-n" || name == "--size") {
      options.size = std::atoi(value.c_str());
    } else if (name == "-s" || name == "--steps") {
      options.steps = std::atoi(value.c_str());
    } else if (name == "-d" || name == "--device") {
      options.device = value;
    } else if (name == "--kernels") {
      options.kernels = value;
    } else if (name == "--truth") {
      options.truth = value;
    } else {
      std::cerr << "demo: unknown option '" << name << "'\n" << usage;
      std::exit(2);
    }
  }
  if (options.size < 16 || options.size > 8192 || options.steps < 1) {
    std::cerr << "demo: the size must lie in 16..8192 and the number of steps be positive\n";
    std::exit(2);
  }
  return options;
}

std::string deviceProperties(const Options &options) {
  if (!options.device.empty()) {
    return options.device;
  }
  std::string properties = "{mode: '" + options.mode + "'";
  if (options.mode == "OpenCL") {
    properties += ", platform_id: 0, device_id: 0, kernel: {compiler_flags: '-cl-mad-enable'}}";
  } else if (options.mode == "CUDA" || options.mode == "HIP") {
    properties += ", device_id: 0, kernel: {compiler_flags: '-O3'}}";
  } else {
    properties += ", kernel: {compiler_flags: '-O3'}}";
  }
  return properties;
}

class Heat {
public:
  explicit Heat(const Options &options) :
    n_(options.size),
    entries_(options.size * options.size),
    // Sub-buffers of OpenCL devices start at aligned addresses: a page serves them all.
    bytes_(((options.size * options.size * sizeof(double)) + 4095) / 4096 * 4096),
    options_(options) {
    device_.setup(deviceProperties(options));
    host_ = std::vector<double>(bytes_ / sizeof(double), 0.0);
    launched_ = (device_.mode() != "Serial" && device_.mode() != "OpenMP");
  }

  const std::string &mode() const { return mode_; }

  void setup() {
    mode_ = device_.mode();
    setInitial_ = build("operator.okl", "setInitial");
    applyOperator_ = build("operator.okl", "applyOperator");
    updateSolution_ = build("vectors.okl", "updateSolution");
    updateDirection_ = build("vectors.okl", "updateDirection");
    dotProduct_ = build("reduce.okl", "dotProduct");

    x_ = allocate(bytes_);
    // The three vectors of the solver are parts of one allocation.
    work_ = allocate(3 * bytes_);
    r_ = slice(work_, 0, bytes_);
    p_ = slice(work_, bytes_, bytes_);
    Ap_ = slice(work_, 2 * bytes_, bytes_);
    snapshot_ = allocate(bytes_);
    partial_ = allocate(kBlocks * sizeof(double));
    result_ = allocate(sizeof(double));
    amplitude_ = allocate(kModes * sizeof(double));
    sines_ = allocate(kModes * n_ * sizeof(double));

    std::vector<double> amplitudes(kModes), sines(kModes * n_);
    for (int k = 0; k < kModes; ++k) {
      amplitudes[k] = 1.0 / (k + 1);
      for (int x = 0; x < n_; ++x) {
        sines[k * n_ + x] = sine(k, x);
      }
    }
    toDevice(amplitude_, amplitudes.data(), kModes * sizeof(double));
    toDevice(sines_, sines.data(), kModes * n_ * sizeof(double));
    // Padding included, so that every copy of a vector has the same size.
    toDevice(x_, host_.data(), bytes_);

    compute_ = device_.getStream();
    output_ = device_.createStream();

    run(setInitial_, "setInitial", 1, n_, static_cast<int>(kModes), amplitude_, sines_, x_);
  }

  void step() {
    // r = x_old - A x_old, p = r: the old solution is the first guess of the new one.
    onDevice(r_, x_, bytes_);
    run(applyOperator_, "applyOperator", 1, n_, scale(), x_, Ap_);
    onDevice(p_, Ap_, bytes_);
    run(updateDirection_, "updateDirection", 1, entries_, -1.0, r_, p_);
    onDevice(r_, p_, bytes_);

    double rr = dot(r_, r_);
    const double target = rr * 1e-20;
    for (int iteration = 0; iteration < 100 && rr > target && rr > 0.0; ++iteration) {
      run(applyOperator_, "applyOperator", 1, n_, scale(), p_, Ap_);
      const double alpha = rr / dot(p_, Ap_);
      run(updateSolution_, "updateSolution", 1, entries_, alpha, p_, Ap_, x_, r_);
      const double next = dot(r_, r_);
      run(updateDirection_, "updateDirection", 1, entries_, next / rr, r_, p_);
      rr = next;
      ++iterations_;
    }
  }

  // Keeps a copy of the solution and brings it to the host on a stream of its own.
  void save() {
    finish();
    device_.setStream(output_);
    onDevice(snapshot_, x_, bytes_);
    toHost(host_.data(), snapshot_, bytes_);
    finish();
    device_.setStream(compute_);
  }

  // The largest difference between the saved solution and the exact one.
  double error(int steps) const {
    double worst = 0.0;
    std::vector<double> factor(kModes);
    for (int k = 0; k < kModes; ++k) {
      const double half = std::sin(0.5 * kPi * (k + 1) / (n_ + 1));
      factor[k] = std::pow(1.0 + scale() * 8.0 * half * half, -steps) / (k + 1);
    }
    for (int y = 0; y < n_; y += 7) {
      for (int x = 0; x < n_; x += 7) {
        double value = 0.0;
        for (int k = 0; k < kModes; ++k) {
          value += factor[k] * sine(k, x) * sine(k, y);
        }
        worst = std::max(worst, std::fabs(value - host_[y * n_ + x]));
      }
    }
    return worst;
  }

  int iterations() const { return iterations_; }
  const Truth &truth() const { return truth_; }

private:
  static const int kModes = 8, kBlocks = 64;

  // The k-th eigenvector of the discrete operator in one direction.
  double sine(int k, int x) const { return std::sin(kPi * (k + 1) * (x + 1) / (n_ + 1)); }
  double scale() const { return 0.001 * (n_ + 1) * (n_ + 1); }

  occa::kernel build(const std::string &file, const std::string &name) {
    truth_.build();
    return device_.buildKernel(options_.kernels + "/" + file, name);
  }

  occa::memory allocate(size_t bytes) {
    truth_.allocation(bytes);
    return device_.malloc(bytes, occa::dtype::byte);
  }

  occa::memory slice(const occa::memory &memory, size_t offset, size_t bytes) {
    truth_.slice();
    return memory.slice(offset, bytes);
  }

  template <class... Args>
  void run(occa::kernel &kernel, const char *name, int blocks, const Args &...args) {
    truth_.kernel(name, launched_ ? blocks : 0);
    kernel(args...);
  }

  void toDevice(occa::memory &memory, const void *source, size_t bytes) {
    truth_.copy("HtoD", bytes);
    memory.copyFrom(source, bytes);
  }

  void toHost(void *destination, const occa::memory &memory, size_t bytes) {
    truth_.copy("DtoH", bytes);
    memory.copyTo(destination, bytes);
  }

  void onDevice(occa::memory &destination, const occa::memory &source, size_t bytes) {
    truth_.copy("DtoD", bytes);
    destination.copyFrom(source, bytes);
  }

  double dot(const occa::memory &a, const occa::memory &b) {
    double value = 0.0;
    run(dotProduct_, "dotProduct", 2, entries_, static_cast<int>(kBlocks), a, b, partial_, result_);
    toHost(&value, result_, sizeof value);
    return value;
  }

  void finish() {
    truth_.finish();
    device_.finish();
  }

  const int n_, entries_;
  const size_t bytes_;
  const Options options_;
  bool launched_ = false;
  int iterations_ = 0;
  Truth truth_;
  std::string mode_;
  std::vector<double> host_;
  occa::device device_;
  occa::kernel setInitial_, applyOperator_, updateSolution_, updateDirection_, dotProduct_;
  occa::memory x_, work_, r_, p_, Ap_, snapshot_, partial_, result_, amplitude_, sines_;
  occa::stream compute_, output_;
};

}  // namespace

int main(int argc, char **argv) {
  const Options options = parse(argc, argv);
  try {
    Heat heat(options);
    heat.setup();
    for (int step = 1; step <= options.steps; ++step) {
      heat.step();
      if (step % 5 == 0 || step == options.steps) {
        heat.save();
      }
    }
    const double error = heat.error(options.steps);
    std::cout << "demo: " << heat.mode() << ", " << options.size << " x " << options.size << " points, " << options.steps
              << " steps, " << heat.iterations() << " iterations, error " << error << std::endl;
    if (!heat.truth().write(options.truth, "demo", heat.mode())) {
      return 2;
    }
    if (!(error < 1e-6)) {
      std::cerr << "demo: the result is wrong\n";
      return 1;
    }
  } catch (const std::exception &failure) {
    std::cerr << "demo: " << failure.what() << std::endl;
    return 1;
  }
  return 0;
}
