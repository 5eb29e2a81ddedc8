#include "sweep.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace occatrace {

void Sweep::add(size_t rows, const uint32_t *place, const uint32_t *kind, const int64_t *start, const int64_t *end) {
    Place *of = nullptr;
    uint32_t known = 0;
    for (size_t row = 0; row < rows; row++) {
        if (kind[row] >= KINDS) throw std::invalid_argument("kind: there are too many");
        if (start[row] < until_) throw std::invalid_argument("start: before what is done");
        if (end[row] <= start[row]) continue;
        if (of == nullptr || place[row] != known) of = &places_[known = place[row]];
        of->marks.push_back({start[row], kind[row], 1});
        of->marks.push_back({end[row], kind[row], -1});
    }
}

void Sweep::Place::take(const Mark &mark, uint32_t number, std::vector<Piece> *pieces) {
    if (begun && mark.at > last) {
        ns[open] += static_cast<uint64_t>(mark.at - last);
        if (pieces != nullptr && open != 0) pieces->push_back({number, open, last, mark.at});
    }
    last = mark.at;
    begun = true;
    if (counts.size() <= mark.kind) counts.resize(mark.kind + 1);
    uint32_t &count = counts[mark.kind];
    count += static_cast<uint32_t>(mark.change);
    open = count > 0 ? open | 1U << mark.kind : open & ~(1U << mark.kind);
}

void Sweep::Place::advance(int64_t until, bool all, uint32_t number, std::vector<Piece> *pieces) {
    // Starts before ends at a moment: a count is never negative.
    std::sort(marks.begin(), marks.end(),
              [](const Mark &a, const Mark &b) { return a.at != b.at ? a.at < b.at : a.change > b.change; });
    const auto rest =
        all ? marks.end() : std::partition_point(marks.begin(), marks.end(), [until](const Mark &mark) { return mark.at < until; });
    for (auto mark = marks.begin(); mark != rest; ++mark) take(*mark, number, pieces);
    marks.erase(marks.begin(), rest);
}

void Sweep::advance(int64_t until, bool all) {
    for (auto &[place, of] : places_) of.advance(until, all, place, keeps_ ? &pieces_ : nullptr);
}

void Sweep::advance(int64_t until) {
    until_ = std::max(until_, until);
    advance(until_, false);
}

void Sweep::finish() { advance(until_, true); }

std::vector<Sweep::Piece> Sweep::take_pieces() { return std::exchange(pieces_, {}); }

std::vector<Sweep::Time> Sweep::times() const {
    std::vector<Time> out;
    for (const auto &[place, of] : places_)
        for (const auto &[open, ns] : of.ns) out.push_back({place, open, ns});
    return out;
}

} // namespace occatrace
