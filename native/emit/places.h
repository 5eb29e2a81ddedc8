// Functions of a dispatch table by name; the places of each API's are generated (<api>_places.h).
#pragma once

#include <cstddef>
#include <cstring>

namespace occatrace {

struct Place {
  const char *name;
  size_t offset;
};

// NULL: the table has no such function.
template <size_t N>
const Place *place_of(const Place (&places)[N], const char *name) {
  for (const Place &place : places)
    if (std::strcmp(place.name, name) == 0) return &place;
  return nullptr;
}

template <class Table>
void *&at(Table &table, const Place &place) {
  return *reinterpret_cast<void **>(reinterpret_cast<char *>(&table) + place.offset);
}
template <class Table>
void *const &at(const Table &table, const Place &place) {
  return *reinterpret_cast<void *const *>(reinterpret_cast<const char *>(&table) + place.offset);
}

}  // namespace occatrace
