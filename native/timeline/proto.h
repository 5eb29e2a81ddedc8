// A protobuf message under construction: the few primitives that a Perfetto trace needs. Knows nothing of tracks.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace occatrace {

// The same, into memory that is known to suffice: each returns where the next byte goes.
namespace wire {
constexpr size_t kField = 16;  // bytes that a field with a number takes at most, if the field's own number is below 2^28
constexpr size_t kLength = 5;  // and the length of a message

inline uint8_t *varint(uint8_t *p, uint64_t value) {
  while (value >= 0x80) {
    *p++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *p++ = static_cast<uint8_t>(value);
  return p;
}
inline uint8_t *integer(uint8_t *p, uint32_t field, uint64_t value) { return varint(varint(p, field << 3), value); }
inline uint8_t *fixed64(uint8_t *p, uint32_t field, uint64_t value) {
  p = varint(p, field << 3 | 1);
  std::memcpy(p, &value, 8);
  return p + 8;
}
// A message from here on, until close. Its length is written in one byte first, as most fit.
inline uint8_t *open(uint8_t *p, uint32_t field) { return varint(p, field << 3 | 2) + 1; }
inline uint8_t *close(uint8_t *begin, uint8_t *end) {
  const auto length = static_cast<size_t>(end - begin);
  if (length < 0x80) {
    begin[-1] = static_cast<uint8_t>(length);
    return end;
  }
  size_t more = 0;
  for (size_t rest = length >> 7; rest; rest >>= 7) more++;
  std::memmove(begin + more, begin, length);
  varint(begin - 1, length);
  return end + more;
}
}  // namespace wire

class Message {
 public:
  const uint8_t *data() const { return data_.get(); }
  size_t size() const { return size_; }
  void clear() { size_ = 0; }

  // So many bytes to be written by the functions of wire, up to `end`.
  uint8_t *room(size_t bytes) {
    reserve(bytes);
    return data_.get() + size_;
  }
  void filled(const uint8_t *end) { size_ = static_cast<size_t>(end - data_.get()); }

  void integer(uint32_t field, uint64_t value) {
    reserve(20);
    put(field << 3);
    put(value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    reserve(18);
    put(field << 3 | 1);
    std::memcpy(data_.get() + size_, &value, 8);
    size_ += 8;
  }
  void number(uint32_t field, double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    fixed64(field, bits);
  }
  void text(uint32_t field, std::string_view value) {
    reserve(20 + value.size());
    put(field << 3 | 2);
    put(value.size());
    std::memcpy(data_.get() + size_, value.data(), value.size());
    size_ += value.size();
  }
  // A message within this one, between open and close. Its length is written in one byte first, as most fit.
  size_t open(uint32_t field) {
    reserve(11);
    put(field << 3 | 2);
    return ++size_;
  }
  void close(size_t begin) {
    size_t length = size_ - begin;
    if (length < 0x80) {
      data_[begin - 1] = static_cast<uint8_t>(length);
      return;
    }
    size_t more = 0;
    for (size_t rest = length >> 7; rest; rest >>= 7) more++;
    reserve(more);
    std::memmove(data_.get() + begin + more, data_.get() + begin, length);
    size_t end = size_ + more;
    size_ = begin - 1;
    put(length);
    size_ = end;
  }

 private:
  void reserve(size_t more) {
    if (size_ + more > capacity_) grow(more);
  }
  void grow(size_t more) {
    size_t capacity = capacity_ ? 2 * capacity_ : 4096;
    while (capacity < size_ + more) capacity *= 2;
    std::unique_ptr<uint8_t[]> data(new uint8_t[capacity]);
    if (size_) std::memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }
  void put(uint64_t value) { filled(wire::varint(data_.get() + size_, value)); }

  std::unique_ptr<uint8_t[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace occatrace
