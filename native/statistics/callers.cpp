#include "callers.h"

#include <algorithm>
#include <unordered_map>

namespace occatrace {

namespace {

struct Key {
    int32_t thread;
    uint64_t caller;
    bool operator==(const Key &other) const { return thread == other.thread && caller == other.caller; }
};
struct Hash {
    size_t operator()(const Key &key) const {
        const uint64_t mixed = (key.caller ^ static_cast<uint64_t>(key.thread) << 48) * UINT64_C(0x9E3779B97F4A7C15);
        return static_cast<size_t>(mixed ^ mixed >> 32);
    }
};

} // namespace

std::vector<CallerTotals> fold_callers(const CallColumns &batch, const uint64_t *caller) {
    std::vector<CallerTotals> out;
    std::unordered_map<Key, size_t, Hash> places;
    // Loops call from a few places: most are found here.
    constexpr size_t recent = 64;
    std::vector<size_t> last(recent, SIZE_MAX);
    for (size_t row = 0; row < batch.rows; row++) {
        if (caller[row] == 0) continue;
        const Key key{batch.thread[row], caller[row]};
        size_t &guess = last[Hash()(key) % recent];
        if (guess == SIZE_MAX || out[guess].caller != key.caller || out[guess].thread != key.thread) {
            const auto [found, fresh] = places.try_emplace(key, out.size());
            if (fresh) {
                out.emplace_back();
                out.back().thread = key.thread;
                out.back().caller = key.caller;
            }
            guess = found->second;
        }
        CallerTotals &t = out[guess];
        t.calls++;
        t.since = std::min(t.since, batch.end[row]);
        t.total += batch.end[row] > batch.start[row] ? batch.end[row] - batch.start[row] : 0;
        if (batch.failed != nullptr && batch.failed[row]) t.failed++;
        else if (batch.bytes != nullptr) t.bytes += batch.bytes[row];
    }
    return out;
}

} // namespace occatrace
