// What a library has one of. See made_once.
#pragma once

#include <atomic>

namespace occatrace::device {

// The one that is made at the first use and stays until the end of the process: the program may call us from destructors.
// Without a lock, and so without the one that the compiler puts around a local `static`: in a child of fork() that would stay
// held for ever if another thread was making it. Of two that are made at once one is deleted.
template <typename T, typename Make>
T &made_once(std::atomic<T *> &place, const Make &make) {
  T *made = place.load(std::memory_order_acquire);
  if (__builtin_expect(made != nullptr, 1)) return *made;
  T *const ours = make();
  if (place.compare_exchange_strong(made, ours, std::memory_order_acq_rel)) return *ours;
  delete ours;
  return *made;
}

template <typename T>
T &made_once(std::atomic<T *> &place) {
  return made_once(place, [] { return new T; });
}

}  // namespace occatrace::device
