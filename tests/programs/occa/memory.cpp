// Memory with a known truth: allocations, a slice that is passed to a kernel beside its parent, a loop, one leak, and kernel
// calls whose distinct memory arguments have known sizes. Prints its own ledger as JSON: every change in order.
// usage: memory MODE
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <occa.hpp>
#include <occatrace.h>

#ifndef KERNEL_FOLDER
#define KERNEL_FOLDER "."
#endif

namespace {
std::ostringstream changes;
long in_use = 0, most = 0;

void note(long bytes) {
  changes << (changes.tellp() > 0 ? ", " : "") << bytes;
  in_use += bytes;
  if (in_use > most) most = in_use;
}
}  // namespace

// What occatrace counted meanwhile, as JSON.
std::string live() {
  occatrace_live now;
  occatrace_live_kernel kernels[8];
  occatrace_live_memory memory[8];
  // A driver may let go of what a command used after the queue is done with it.
  int patience = 10000;
  do {
    if (!occatrace_live_with(&now, kernels, 8, memory, 8)) return "null";
    if (static_cast<long>(now.memory_in_use) <= in_use) break;
    usleep(10000);
  } while (--patience > 0);
  std::ostringstream text;
  text << "{\"in_use\": " << now.memory_in_use << ", \"high\": " << now.memory_high << ", \"kernels\": {";
  for (uint32_t i = 0; i < now.kernels && i < 8; ++i) text << (i ? ", " : "") << '"' << kernels[i].name << "\": " << kernels[i].count;
  text << "}, \"memory\": [";
  for (uint32_t i = 0; i < now.memories && i < 8; ++i)
    text << (i ? ", " : "") << "[\"" << memory[i].api << ' ' << memory[i].mode << "\", " << memory[i].in_use << ", " << memory[i].high << ", " << memory[i].count << ']';
  text << "]}";
  return text.str();
}

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  occa::kernel add = device.buildKernel(KERNEL_FOLDER "/work.okl", "addVectors");
  occa::kernel scale = device.buildKernel(KERNEL_FOLDER "/work.okl", "scaleTwice");

  const int entries = 4096;
  const long bytes = entries * static_cast<long>(sizeof(float));
  occa::memory a = device.malloc(bytes, occa::dtype::byte);
  note(bytes);
  occa::memory b = device.malloc(2 * bytes, occa::dtype::byte);
  note(2 * bytes);
  std::vector<float> values(2 * entries, 1.0f);
  a.copyFrom(values.data(), bytes);
  b.copyFrom(values.data(), 2 * bytes);

  // 1 + 2 + 4 parts; the same memory twice counts once; a slice is an object of its own size.
  occa::memory *leak = new occa::memory(device.malloc(4 * bytes, occa::dtype::byte));
  note(4 * bytes);
  for (int i = 0; i < 5; ++i) add(entries, a, b, *leak);
  for (int i = 0; i < 3; ++i) add(entries, a, a, b);
  {
    occa::memory half = b.slice(0, bytes);
    scale(entries, 0.5f, half);
  }
  for (int i = 0; i < 20; ++i) {
    occa::memory t = device.malloc(1000, occa::dtype::byte);
    note(1000);
    t.free();
    note(-1000);
  }
  {
    occa::memory c = device.malloc(8 * bytes, occa::dtype::byte);
    note(8 * bytes);
    occa::memory same = c;
  }  // the last handle ends it
  note(-8 * bytes);
  device.finish();
  b.free();
  note(-2 * bytes);
  a.free();
  note(-bytes);
  std::cout << "{\"changes\": [" << changes.str() << "], \"most\": " << most << ", \"left\": " << in_use
            << ", \"leak\": " << 4 * bytes << ", \"part\": " << bytes
            << ", \"live\": " << live() << "}" << std::endl;
  _exit(0);  // the device would free what was forgotten
}
