// Inline kernels of OCCA 2: all have one name. Says at which lines they are called.
// usage: inline MODE
#include <iostream>
#include <string>

#include <occa.hpp>

namespace {
int first_line, second_line;

void __attribute__((noinline)) increment(occa::memory &a, int times) {
  for (int i = 0; i < times; ++i) {
    first_line = __LINE__ + 1;
    OCCA_JIT(occa::scope({{"a", a}}), (for (int i = 0; i < 64; ++i; @tile(16, @outer, @inner)) { a[i] += 1.0; }));
  }
}

void __attribute__((noinline)) square(occa::memory &a, int times) {
  for (int i = 0; i < times; ++i) {
    second_line = __LINE__ + 1;
    OCCA_JIT(occa::scope({{"a", a}}), (for (int i = 0; i < 64; ++i; @tile(16, @outer, @inner)) { a[i] *= a[i]; }));
  }
}
}  // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "Serial";
  occa::device device(std::string("{mode: '" + mode + "', platform_id: 0, device_id: 0}"));
  occa::memory a = device.malloc(64, occa::dtype::float_);
  increment(a, 3);
  square(a, 2);
  std::cout << "{\"increment\": " << first_line << ", \"square\": " << second_line << "}" << std::endl;
  return 0;
}
