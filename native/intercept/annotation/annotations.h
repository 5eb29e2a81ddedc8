// What the annotation APIs share: how a range, a mark or a counter is put down.
#ifndef OCCATRACE_ANNOTATIONS_H
#define OCCATRACE_ANNOTATIONS_H
#include <cstdint>
#include <string>

#include "annotation.h"

namespace occatrace::annotation {

struct Note {
  occatrace_annotation_api api;
  uint32_t domain;   // interned
  uint32_t name;     // interned, or 0: see text
  const char *text;  // copied
  uint32_t category;
  uint32_t color;
  occatrace_payload_type payload_type;
  uint64_t payload;
  const char *values;
};

// Loads the provider, once; false: nothing is recorded in this process.
bool start();
// The level of the new range, from 0.
int push(const Note &note);
// The level of the range that ended, or -1 when none was open.
int pop(occatrace_annotation_api api, uint32_t domain);
// A range that ends by its id, in whatever thread.
uint64_t begin(const Note &note);
void end(uint64_t id);
// A range that ends now and whose length the program has measured by itself.
void span(const Note &note, uint64_t duration);
void mark(const Note &note);
void counter(uint32_t name, uint32_t unit, double value);
std::string narrow(const wchar_t *text);
// Calls `function` in a child after fork, to make its locks and maps anew.
void after_fork(void (*function)());

}  // namespace occatrace::annotation
#endif
