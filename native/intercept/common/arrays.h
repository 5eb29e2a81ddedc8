// Sizes of the arrays that CUDA and HIP describe alike: the same structures, the same numbers for formats. Padding and smaller
// levels are not in them.
#pragma once

#include <cstddef>

namespace occatrace {

struct ArrayDescriptor {
  size_t width, height;
  unsigned format, channels;
};
struct Array3DDescriptor {
  size_t width, height, depth;
  unsigned format, channels;
};

// Bytes of elements of `each`; an extent of 0 is one that the array does not have.
inline size_t array_bytes_of(size_t width, size_t height, size_t depth, size_t each) {
  return width * (height == 0 ? 1 : height) * (depth == 0 ? 1 : depth) * each;
}
inline size_t element_bytes(unsigned format, unsigned channels) {
  constexpr unsigned kHalf = 0x10, kFloat = 0x20, kShort = 2, kInt = 3, kSigned = 8;
  const unsigned plain = format & ~kSigned;
  return channels * (format == kFloat || plain == kInt ? 4 : format == kHalf || plain == kShort ? 2
                                                                                                : 1);
}
inline size_t array_bytes_of(const ArrayDescriptor &a) {
  return array_bytes_of(a.width, a.height, 1, element_bytes(a.format, a.channels));
}
inline size_t array_bytes_of(const Array3DDescriptor &a) {
  return array_bytes_of(a.width, a.height, a.depth, element_bytes(a.format, a.channels));
}
// Bytes of all the copies or ranges that one call is given.
inline size_t sum_of(const size_t *sizes, size_t count) {
  size_t sum = 0;
  for (size_t at = 0; sizes != nullptr && at < count; ++at) sum += sizes[at];
  return sum;
}
// Of an API's own type of the same layout; 0 where there is none.
template <class Descriptor, class Given>
size_t array_bytes_as(const Given *given) {
  return given == nullptr ? 0 : array_bytes_of(*reinterpret_cast<const Descriptor *>(given));
}

}  // namespace occatrace
