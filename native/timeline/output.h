// Where the bytes of a timeline go: a file, compressed or not. Readable by its owner only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace occatrace {

// Throws a std::system_error with the system's reason (errno).
[[noreturn]] void fail(const char *what);
// Writes all of it, or fails.
void write_all(int file, const uint8_t *data, size_t size, const char *what);

class Output {
 public:
  virtual ~Output() = default;
  virtual void write(const uint8_t *data, size_t size) = 0;
  // To be called at the end: only this tells that all is on its way to the disk.
  virtual void close() = 0;

  static std::unique_ptr<Output> open(const std::string &path, bool gzip);
};

}  // namespace occatrace
