// A map from handles of an API to small values, read without a lock on the way of every call.
// Keys are never removed: an API that frees an object hands its address out again, and the new owner overwrites it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace occatrace::device {

class HandleMap {
 public:
  HandleMap() = default;
  HandleMap(const HandleMap &) = delete;
  HandleMap &operator=(const HandleMap &) = delete;

  // 0 when the key was never set.
  uint64_t get(const void *handle) const {
    const Table *table = table_.load(std::memory_order_acquire);
    if (table == nullptr) return 0;
    const uint64_t key = reinterpret_cast<uint64_t>(handle);
    for (size_t at = slot(key, table->mask);; at = (at + 1) & table->mask) {
      const uint64_t found = table->entries[at].key.load(std::memory_order_acquire);
      if (found == key) return table->entries[at].value.load(std::memory_order_acquire);
      if (found == 0) return 0;
    }
  }

  void set(const void *handle, uint64_t value) {
    const uint64_t key = reinterpret_cast<uint64_t>(handle);
    if (key == 0) return;
    std::lock_guard<std::mutex> guard(mutex_);
    Table *table = table_.load(std::memory_order_relaxed);
    if (table == nullptr || 2 * (table->used + 1) > table->mask + 1) table = grow(table);
    put(table, key, value);
  }

  // For the child of a fork, whose lock may have been held by a thread that it does not have.
  void unlock_after_fork() { new (&mutex_) std::mutex; }

 private:
  struct Entry {
    std::atomic<uint64_t> key{0};
    std::atomic<uint64_t> value{0};
  };
  struct Table {
    explicit Table(size_t size) : mask(size - 1), entries(new Entry[size]) {}
    size_t mask;
    size_t used = 0;
    Entry *entries;
  };

  static size_t slot(uint64_t key, size_t mask) { return (key * 0x9e3779b97f4a7c15u >> 20) & mask; }

  static void put(Table *table, uint64_t key, uint64_t value) {
    for (size_t at = slot(key, table->mask);; at = (at + 1) & table->mask) {
      Entry &entry = table->entries[at];
      const uint64_t found = entry.key.load(std::memory_order_relaxed);
      if (found != 0 && found != key) continue;
      entry.value.store(value, std::memory_order_release);
      if (found == 0) {
        entry.key.store(key, std::memory_order_release);
        ++table->used;
      }
      return;
    }
  }

  // The old table stays: readers may be in it. All old ones together are smaller than the new one.
  Table *grow(const Table *old) {
    auto *table = new Table(old == nullptr ? 256 : 2 * (old->mask + 1));
    for (size_t at = 0; old != nullptr && at <= old->mask; ++at) {
      const uint64_t key = old->entries[at].key.load(std::memory_order_relaxed);
      if (key != 0) put(table, key, old->entries[at].value.load(std::memory_order_relaxed));
    }
    table_.store(table, std::memory_order_release);
    return table;
  }

  std::atomic<Table *> table_{nullptr};
  std::mutex mutex_;
};

}  // namespace occatrace::device
