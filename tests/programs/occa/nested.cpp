// Ranges within ranges, each of which spins for a set time and allocates set memory; says how long each spun itself.
// usage: nested MODE
#include <chrono>
#include <iostream>
#include <map>
#include <string>

#include <occa.hpp>
#include <occatrace.h>

namespace {
std::map<std::string, long long> spun;

// Time that counts as the range's own: what the clock says that really went by.
void spin(const std::string &range, int milliseconds) {
  typedef std::chrono::steady_clock Clock;
  const Clock::time_point start = Clock::now();
  while (Clock::now() - start < std::chrono::milliseconds(milliseconds)) {
  }
  spun[range] += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  occa::device device;
  device.setup("{mode: '" + mode + "', platform_id: 0, device_id: 0}");
  {
    occatrace::scope run("run");
    spin("run", 5);
    occa::memory fields;
    {
      occatrace::scope setup("setup");
      spin("setup", 10);
      fields = device.malloc(3 << 20, occa::dtype::byte);
    }
    for (int i = 0; i < 3; ++i) {
      occatrace::scope step("step");
      spin("step", 4);
      occatrace::scope exchange("exchange");
      spin("exchange", 6);
      occa::memory buffer = device.malloc(4 << 20, occa::dtype::byte);
      buffer.free();
    }
    spin("run", 5);
    fields.free();
  }
  const char *comma = "{\"spun_ns\": {\"";
  for (const auto &entry : spun) {
    std::cout << comma << entry.first << "\": " << entry.second;
    comma = ", \"";
  }
  std::cout << "}, \"allocated\": {\"setup\": " << (3 << 20) << ", \"exchange\": " << 3 * (4 << 20) << "}, \"peak\": {\"setup\": "
            << (3 << 20) << ", \"exchange\": " << (4 << 20) << "}}" << std::endl;
  return 0;
}
