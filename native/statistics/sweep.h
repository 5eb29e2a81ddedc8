// What is open at any moment, from spans that come in windows of time: how long each set of kinds was open, per place. Memory is
// bounded by the spans of a window and those that are open at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace occatrace {

class Sweep {
  public:
    static constexpr unsigned KINDS = 32;

    // How long exactly the kinds of `open` (a bit each) were open in a place, between its first and its last mark.
    struct Time {
        uint32_t place;
        uint32_t open;
        uint64_t ns;
    };

    // A time in which the same kinds were open in a place, between two marks.
    struct Piece {
        uint32_t place;
        uint32_t open;
        int64_t start;
        int64_t end;
    };

    // `pieces`: keep the single times in which something was open, cut at each start and end, until they are taken.
    explicit Sweep(bool pieces = false) : keeps_(pieces) {}

    // Spans of a place and a kind, in any order; without length they are left out. Throws std::invalid_argument for a kind that is
    // KINDS or more, and for a span that starts before the last `advance`.
    void add(size_t rows, const uint32_t *place, const uint32_t *kind, const int64_t *start, const int64_t *end);

    // No span that is still to come starts before `until`.
    void advance(int64_t until);

    // All spans are there.
    void finish();

    std::vector<Time> times() const;

    // Those that are done since the last time, place by place, in order.
    std::vector<Piece> take_pieces();

  private:
    struct Mark {
        int64_t at;
        uint32_t kind;
        int32_t change;
    };
    struct Place {
        std::vector<Mark> marks;
        std::vector<uint32_t> counts;
        std::map<uint32_t, uint64_t> ns;
        uint32_t open = 0;
        int64_t last = 0;
        bool begun = false;

        void take(const Mark &mark, uint32_t number, std::vector<Piece> *pieces);
        void advance(int64_t until, bool all, uint32_t number, std::vector<Piece> *pieces);
    };

    void advance(int64_t until, bool all);

    bool keeps_;
    std::map<uint32_t, Place> places_;
    std::vector<Piece> pieces_;
    int64_t until_ = INT64_MIN;
};

} // namespace occatrace
