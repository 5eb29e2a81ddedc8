// Known answers for the device work of each call: what the generated Command<F> of a function says of given arguments.
//   CHECK(function, how, KIND, BYTES, set…)   `how`: waits or returns; `set…` fills in the arguments `a`
//   KERNEL(function, set…, grid, block)       the grid in work-items
// A program prints a line for each function that it has checked, and for each answer that is wrong.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>

#include "engine.h"

// ---- what a backend asks of the core ----

extern "C" {
uint32_t occatrace_intern(const char *text) {
  static auto *const known = new std::map<std::string, uint32_t>;
  return known->try_emplace(text, static_cast<uint32_t>(known->size()) + 1).first->second;
}
}

namespace known_answers {

using occatrace::device::Part;
using occatrace::device::Size;
using occatrace::device::Work;

inline int wrong = 0;
inline void *const kQueue = reinterpret_cast<void *>(0x51);

template <class Value>
void expect(const char *function, const char *what, Value found, Value wanted) {
  if (found == wanted) return;
  ++wrong;
  std::printf("%s: %s is %llu, not %llu\n", function, what, static_cast<unsigned long long>(found),
              static_cast<unsigned long long>(wanted));
}

// Where a call names its queue, by one of these arguments.
template <class Args>
auto give_queue(Args &a, int) -> decltype(a.command_queue, true) {
  a.command_queue = static_cast<decltype(a.command_queue)>(kQueue);
  return true;
}
template <class Args>
auto give_queue(Args &a, int) -> decltype(a.hStream, true) {
  a.hStream = static_cast<decltype(a.hStream)>(kQueue);
  return true;
}
template <class Args>
auto give_queue(Args &a, int) -> decltype(a.stream, true) {
  a.stream = static_cast<decltype(a.stream)>(kQueue);
  return true;
}
template <class Args>
auto give_queue(Args &a, int) -> decltype(a.hCommandList, true) {
  a.hCommandList = static_cast<decltype(a.hCommandList)>(kQueue);
  return true;
}
template <class Args>
bool give_queue(Args &, long) {
  return false;
}

template <class Command, class Args>
void check(const char *function, const Args &a, bool waits, bool queue, Work &work) {
  Command::template describe<0>(a, work);
  expect(function, "the queue", reinterpret_cast<uint64_t>(static_cast<const void *>(Command::queue(a))),
         queue ? reinterpret_cast<uint64_t>(kQueue) : 0);
  expect(function, "whether it waits", Command::blocking(a), waits);
  std::printf("checked %s\n", function);
}

inline void expect_size(const char *function, const char *what, const uint32_t *found, const Size &wanted) {
  expect(function, what, found[0], wanted.x);
  expect(function, what, found[1], wanted.y);
  expect(function, what, found[2], wanted.z);
}

}  // namespace known_answers

#define CHECK(function, how, KIND, BYTES, ...)                                          \
  {                                                                                     \
    Args_##function a{};                                                                \
    [[maybe_unused]] bool queue = give_queue(a, 0);                                                \
    __VA_ARGS__;                                                                        \
    Work work;                                                                          \
    check<Command<FUNCTION(function)>>(#function, a, how, queue, work);                 \
    expect(#function, "the kind", static_cast<int>(work.kind), static_cast<int>(KIND)); \
    expect(#function, "the number of bytes", work.bytes, static_cast<uint64_t>(BYTES)); \
  }
#define KERNEL(function, GRID, BLOCK, ...)                                                               \
  {                                                                                                      \
    Args_##function a{};                                                                                 \
    [[maybe_unused]] bool queue = give_queue(a, 0);                                                                 \
    __VA_ARGS__;                                                                                         \
    Work work;                                                                                           \
    check<Command<FUNCTION(function)>>(#function, a, false, queue, work);                                \
    expect(#function, "the kind", static_cast<int>(work.kind), static_cast<int>(OCCATRACE_KERNEL));      \
    expect(#function, "the name", work.name, occatrace_intern("tick"));                                  \
    expect(#function, "the name to choose by", Command<FUNCTION(function)>::kernel<0>(a), work.name);    \
    expect_size(#function, "an extent of the grid", work.grid, Size GRID);                               \
    expect_size(#function, "an extent of the block", work.block, Size BLOCK);                            \
  }
// Several copies by one call.
#define PARTS(function, WANTED, ...)                                                                \
  {                                                                                                 \
    Args_##function a{};                                                                            \
    [[maybe_unused]] bool queue = give_queue(a, 0);                                                            \
    __VA_ARGS__;                                                                                    \
    Work work;                                                                                      \
    check<Command<FUNCTION(function)>>(#function, a, false, queue, work);                           \
    const std::vector<Part> wanted WANTED;                                                          \
    expect(#function, "the number of copies", work.parts->size(), wanted.size());                   \
    for (size_t at = 0; at < wanted.size() && at < work.parts->size(); ++at) {                      \
      expect(#function, "a kind", static_cast<int>((*work.parts)[at].kind), static_cast<int>(wanted[at].kind)); \
      expect(#function, "bytes of a copy", (*work.parts)[at].bytes, wanted[at].bytes);              \
    }                                                                                               \
  }

static constexpr bool waits = true, returns = false;
