// Memory, and a part of it, that is alive when its device is freed: by the device's last handle, or by hand.
// usage: outlives MODE [free]
#include <cstdio>
#include <string>

#include <occa.hpp>

namespace {
struct Fields {
  occa::memory whole, part;
  occa::device device;  // destroyed first
};
}  // namespace

int main(int argc, char **argv) {
  Fields fields;
  fields.device.setup(std::string("{mode: '") + (argc > 1 ? argv[1] : "Serial") + "', platform_id: 0, device_id: 0}");
  fields.whole = fields.device.malloc(800, occa::dtype::byte);
  fields.part = fields.whole.slice(0, 400);
  if (argc > 2) fields.device.free();
  std::puts("ok");
  return 0;
}
