// The two kinds of output. Errors are thrown with the system's reason: a full disk must not end in a truncated trace.
#include "output.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <zlib.h>

namespace occatrace {

void fail(const char *what) { throw std::system_error(errno, std::generic_category(), what); }

void write_all(int file, const uint8_t *data, size_t size, const char *what) {
  while (size) {
    const ssize_t n = ::write(file, data, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      fail(what);
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
}

namespace {

class File : public Output {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() override {
    if (fd_ >= 0) ::close(fd_);
  }
  void write(const uint8_t *data, size_t size) override { write_all(fd_, data, size, "writing the timeline"); }
  void close() override {
    int fd = fd_;
    fd_ = -1;
    if (::close(fd) < 0) fail("closing the timeline");
  }

 private:
  int fd_;
};

class Gzip : public Output {
 public:
  // Level 3: a fifth larger than the default's output, in a third of its time.
  explicit Gzip(int fd) : file_(gzdopen(fd, "wb3")) {
    if (!file_) {
      ::close(fd);
      throw std::bad_alloc();
    }
    gzbuffer(file_, 1 << 18);
  }
  ~Gzip() override {
    if (file_) gzclose(file_);
  }
  void write(const uint8_t *data, size_t size) override {
    while (size) {
      auto piece = static_cast<unsigned>(std::min<size_t>(size, INT_MAX));
      if (gzwrite(file_, data, piece) <= 0) fail("compressing the timeline");
      data += piece;
      size -= piece;
    }
  }
  void close() override {
    gzFile file = file_;
    file_ = nullptr;
    if (gzclose(file) != Z_OK) fail("closing the timeline");
  }

 private:
  gzFile file_;
};

}  // namespace

std::unique_ptr<Output> Output::open(const std::string &path, bool gzip) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail(path.c_str());
  if (gzip) return std::make_unique<Gzip>(fd);
  return std::make_unique<File>(fd);
}

}  // namespace occatrace
