// The shared string table and each worker's cache of it (see strings.h).
#include "strings.h"

#include <stdexcept>

namespace occatrace::columns {

namespace {
constexpr size_t first_slots = 1 << 10;
// A trace with very many different strings must not fill each worker's memory: the cache forgets and starts again.
constexpr size_t most_slots = 1 << 17;
} // namespace

StringTable::Entry StringTable::intern(std::string_view text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = ids_.find(text);
    if (found != ids_.end()) return {found->second, found->first};
    if (texts_.size() >= UINT32_MAX) throw std::length_error("more than 2^32 different strings");
    const auto id = static_cast<uint32_t>(texts_.size());
    texts_.emplace_back(text);
    const std::string_view kept = texts_.back();
    ids_.emplace(kept, id);
    return {id, kept};
}

size_t StringTable::size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return texts_.size();
}

void StringTable::copy_from(size_t first, std::vector<std::string_view> &out) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = first; i < texts_.size(); i++) out.emplace_back(texts_[i]);
}

StringCache::StringCache(StringTable &table) : table_(table), slots_(first_slots), mask_(first_slots - 1) {}

uint32_t StringCache::add(const char *text, size_t size, uint64_t hash) {
    const StringTable::Entry entry = table_.intern({text, size});
    if ((used_ + 1) * 2 > slots_.size()) {
        std::vector<Slot> old;
        old.swap(slots_);
        const bool forget = old.size() >= most_slots;
        slots_.resize(forget ? first_slots : old.size() * 2);
        mask_ = slots_.size() - 1;
        used_ = 0;
        if (!forget) {
            for (const Slot &slot : old) {
                if (slot.text != nullptr) place(slot);
            }
        }
    }
    Slot slot;
    slot.text = entry.text.data();
    slot.size = size;
    slot.hash = hash;
    slot.id = entry.id;
    place(slot);
    return entry.id;
}

void StringCache::place(const Slot &slot) {
    size_t place = slot.hash & mask_;
    while (slots_[place].text != nullptr) place = (place + 1) & mask_;
    slots_[place] = slot;
    used_++;
}

} // namespace occatrace::columns
