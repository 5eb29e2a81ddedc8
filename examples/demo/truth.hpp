// What a program did with OCCA by its own count, written as one line of JSON, so that a profile can be compared with it.
#pragma once

#include <cstdio>
#include <map>
#include <string>

class Truth {
public:
  void kernel(const std::string &name, unsigned long launches) {
    kernels_[name].calls += 1;
    kernels_[name].launches += launches;
  }

  void copy(const std::string &kind, unsigned long bytes) { add(copies_[kind], bytes); }
  void allocation(unsigned long bytes) { add(allocations_, bytes); }
  void slice() { ++slices_; }
  void build() { ++builds_; }
  void finish() { ++finishes_; }
  void failed(const std::string &function) { ++failed_[function]; }

  std::string json(const std::string &program, const std::string &mode) const {
    std::string out = "{\"program\": \"" + program + "\", \"mode\": \"" + mode + "\", \"kernels\": {";
    const char *separator = "";
    for (std::map<std::string, Kernel>::const_iterator it = kernels_.begin(); it != kernels_.end(); ++it) {
      out += separator + quoted(it->first) + "{\"calls\": " + number(it->second.calls)
          + ", \"launches\": " + number(it->second.launches) + "}";
      separator = ", ";
    }
    out += "}, \"copies\": {";
    separator = "";
    for (std::map<std::string, Amount>::const_iterator it = copies_.begin(); it != copies_.end(); ++it) {
      out += separator + quoted(it->first) + text(it->second);
      separator = ", ";
    }
    out += "}, \"allocations\": " + text(allocations_) + ", \"slices\": " + number(slices_) + ", \"builds\": " + number(builds_)
        + ", \"finishes\": " + number(finishes_) + ", \"failed\": {";
    separator = "";
    for (std::map<std::string, unsigned long>::const_iterator it = failed_.begin(); it != failed_.end(); ++it) {
      out += separator + quoted(it->first) + number(it->second);
      separator = ", ";
    }
    return out + "}}\n";
  }

  // To the file, or to the standard output when it is "-"; nothing when it is empty.
  bool write(const std::string &file, const std::string &program, const std::string &mode) const {
    if (file.empty()) {
      return true;
    }
    std::FILE *out = (file == "-") ? stdout : std::fopen(file.c_str(), "w");
    if (!out) {
      std::perror(file.c_str());
      return false;
    }
    const std::string line = json(program, mode);
    const bool written = std::fputs(line.c_str(), out) >= 0;
    return ((out == stdout) ? std::fflush(out) : std::fclose(out)) == 0 && written;
  }

private:
  struct Kernel {
    Kernel() : calls(0), launches(0) {}
    unsigned long calls, launches;
  };
  struct Amount {
    Amount() : count(0), bytes(0) {}
    unsigned long count, bytes;
  };

  static void add(Amount &amount, unsigned long bytes) {
    amount.count += 1;
    amount.bytes += bytes;
  }
  static std::string quoted(const std::string &name) { return "\"" + name + "\": "; }
  static std::string number(unsigned long value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%lu", value);
    return digits;
  }
  static std::string text(const Amount &amount) {
    return "{\"count\": " + number(amount.count) + ", \"bytes\": " + number(amount.bytes) + "}";
  }

  std::map<std::string, Kernel> kernels_;
  std::map<std::string, Amount> copies_;
  std::map<std::string, unsigned long> failed_;
  Amount allocations_;
  unsigned long slices_ = 0, builds_ = 0, finishes_ = 0;
};
