// Interned strings: each distinct text of a reading has one number, in all batches, events, traces and threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace occatrace::columns {

// Shared by all workers; a worker asks it only for what its own cache does not know.
class StringTable {
  public:
    struct Entry {
        uint32_t id;
        std::string_view text; // stays valid as long as the table
    };

    Entry intern(std::string_view text);
    size_t size() const;

    // Appends the texts from number `first` on. The views stay valid as long as the table.
    void copy_from(size_t first, std::vector<std::string_view> &out) const;

  private:
    mutable std::mutex mutex_;
    std::deque<std::string> texts_; // a deque never moves its elements
    std::unordered_map<std::string_view, uint32_t> ids_;
};

// One worker's memory of the strings it met: a lookup costs a hash and a comparison, and takes no lock.
class StringCache {
  public:
    explicit StringCache(StringTable &table);

    uint32_t intern(const char *text, size_t size) {
        const uint64_t hash = hash_of(text, size);
        size_t place = hash & mask_;
        for (;;) {
            const Slot &slot = slots_[place];
            if (slot.text == nullptr) return add(text, size, hash);
            if (slot.hash == hash && slot.size == size && memcmp(slot.text, text, size) == 0) return slot.id;
            place = (place + 1) & mask_;
        }
    }

  private:
    struct Slot {
        const char *text = nullptr;
        size_t size = 0;
        uint64_t hash = 0;
        uint32_t id = 0;
    };

    static uint64_t mix(uint64_t value) {
        value ^= value >> 32;
        value *= 0xd6e8feb86659fd93u;
        value ^= value >> 32;
        value *= 0xd6e8feb86659fd93u;
        return value ^ value >> 32;
    }

    static uint64_t hash_of(const char *text, size_t size) {
        uint64_t hash = size * 0x9e3779b97f4a7c15u;
        while (size >= 8) {
            uint64_t word;
            memcpy(&word, text, 8);
            hash = mix(hash ^ word);
            text += 8;
            size -= 8;
        }
        uint64_t rest = 0;
        memcpy(&rest, text, size);
        return mix(hash ^ rest);
    }

    uint32_t add(const char *text, size_t size, uint64_t hash);
    void place(const Slot &slot);

    StringTable &table_;
    std::vector<Slot> slots_;
    size_t mask_;
    size_t used_ = 0;
};

} // namespace occatrace::columns
