// Ranges within ranges, each of which spins for a set time and allocates set memory; says how long each spun itself, and how
// long it was from before its begin to after its end.
// usage: nested MODE
#include <chrono>
#include <iostream>
#include <map>
#include <string>

#include <occa.hpp>
#include <occatrace.h>

namespace {
typedef std::chrono::steady_clock Clock;
std::map<std::string, long long> spun, within;

long long since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

template <class Work>
void ranged(const char *name, Work work) {
  const Clock::time_point start = Clock::now();
  {
    occatrace::scope range(name);
    work();
  }
  within[name] += since(start);
}

void print(const char *name, const std::map<std::string, long long> &times) {
  const char *comma = "{";
  std::cout << "\"" << name << "\": ";
  for (const auto &entry : times) {
    std::cout << comma << "\"" << entry.first << "\": " << entry.second;
    comma = ", ";
  }
  std::cout << "}, ";
}

// Time that counts as the range's own: what the clock says that really went by.
void spin(const std::string &range, int milliseconds) {
  const Clock::time_point start = Clock::now();
  while (Clock::now() - start < std::chrono::milliseconds(milliseconds)) {
  }
  spun[range] += since(start);
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  ranged("run", [&] {
    spin("run", 5);
    occa::memory fields;
    ranged("setup", [&] {
      spin("setup", 10);
      fields = device.malloc(3 << 20, occa::dtype::byte);
    });
    for (int i = 0; i < 3; ++i) {
      ranged("step", [&] {
        spin("step", 4);
        ranged("exchange", [&] {
          spin("exchange", 6);
          occa::memory buffer = device.malloc(4 << 20, occa::dtype::byte);
          buffer.free();
        });
      });
    }
    spin("run", 5);
    fields.free();
  });
  std::cout << "{";
  print("spun_ns", spun);
  print("within_ns", within);
  std::cout << "\"allocated\": {\"setup\": " << (3 << 20) << ", \"exchange\": " << 3 * (4 << 20) << "}, \"peak\": {\"setup\": "
            << (3 << 20) << ", \"exchange\": " << (4 << 20) << "}}" << std::endl;
  return 0;
}
