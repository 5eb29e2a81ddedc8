// Memory of OCCA 1.2 and later (memory pools: 1.6): a buffer that lives as long as its last slice, memory pools that grow and move
// what is reserved in them, memory filled as it is allocated. Says what OCCA counts itself, as JSON.
// usage: pools MODE
#include <iostream>
#include <string>
#include <vector>

#include <unistd.h>

#include <occa.hpp>

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  occa::device device(std::string("{mode: '" + mode + "', platform_id: 0, device_id: 0}"));
  const long mega = 1 << 20;

  occa::memory part;
  {
    occa::memory whole = device.malloc(mega, occa::dtype::byte);
    part = whole.slice(0, 4096);
    whole.free();
  }
  occa::memory second = device.malloc(mega, occa::dtype::byte);
  part = occa::memory();  // and with it the first

  occa::memoryPool pool = device.createMemoryPool();
  pool.resize(8 * mega);
  occa::memory a = pool.reserve(4096, occa::dtype::byte), b = pool.reserve(8192, occa::dtype::byte);
  pool.resize(16 * mega);  // each of the next three moves both, in one copy
  pool.setAlignment(8192);
  occa::memory c = pool.reserve(100000, occa::dtype::byte);
  c = occa::memory();
  pool.shrinkToFit();  // and this one
  {
    occa::memoryPool other = device.createMemoryPool();
    other.resize(2 * mega);
  }

  const std::vector<char> content(3 * mega);
  occa::memory filled = device.malloc(3 * mega, occa::dtype::byte, content.data());
  filled.free();
  {
    occa::memory whole = device.malloc(5 * mega, occa::dtype::byte);
    new occa::memory(whole.slice(0, 128));  // forgotten
  }
  pool.free();
  std::cout << "{\"most\": " << device.maxMemoryAllocated() << ", \"left\": " << device.memoryAllocated() << "}" << std::endl;
  _exit(0);  // the device would free what was forgotten
}
