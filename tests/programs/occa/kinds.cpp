// Memory of OCCA 1.2 and later by what its properties ask for, each filled once; one is tagged.
// usage: kinds MODE
#include <string>
#include <vector>

#include <occa.hpp>

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "OpenCL";
  occa::device device(std::string("{mode: '" + mode + "', platform_id: 0, device_id: 0}"));
  const std::vector<char> content(1200);
  occa::json host, unified;
  host["host"] = true;
  host["occatrace/label"] = "pinned";
  unified["unified"] = true;
  occa::memory a = device.malloc(400, occa::dtype::byte), b = device.malloc(1200, occa::dtype::byte, host),
               c = device.malloc(800, occa::dtype::byte, unified);
  a.copyFrom(content.data(), 400);
  b.copyFrom(content.data(), 1200);
  c.copyFrom(content.data(), 800);
  return 0;
}
