// Folds columns of calls into statistics per thread: counts, sums, extremes, histograms. Exact, in one pass over a batch,
// and bounded in memory by the number of threads. Knows neither traces nor Python.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace occatrace {

// What is known of each thread from all of its events.
class ThreadStatistics {
  public:
    struct Thread {
        uint64_t seen = 0;
        int64_t max_seq = -1;
        uint64_t start = UINT64_MAX, end = 0;
    };
    void add(size_t rows, const int32_t *thread, const uint32_t *seq, const uint64_t *ts);
    const std::vector<Thread> &threads() const { return threads_; }

  private:
    std::vector<Thread> threads_;
};

// Statistics of one function in one thread.
struct CallTotals {
    uint64_t calls = 0, failed = 0, bytes = 0;
    uint64_t total = 0, min = UINT64_MAX, max = 0;
    int64_t max_seq = -1;
    // The last call of which the beginning was recorded.
    int64_t begin_seq = -1;
    uint64_t begin_ts = 0;

    double mean() const { return calls ? static_cast<double>(total) / static_cast<double>(calls) : 0; }
    // Sum of the squared deviations from the mean.
    double m2() const;

  private:
    friend class CallStatistics;
    // Sums of d - origin and of its square: exact integers, so that nothing cancels. The origin is the first duration.
    uint64_t origin = 0;
    __int128 sum = 0;
    unsigned __int128 squares = 0;
};

// Columns of a batch of calls. `failed` and `bytes` may be null; failed calls count no bytes.
struct CallColumns {
    size_t rows = 0;
    const int32_t *thread = nullptr;
    const uint32_t *seq = nullptr;
    const uint64_t *start = nullptr, *end = nullptr;
    const bool *failed = nullptr;
    const uint64_t *bytes = nullptr;
};

// Statistics of one function.
class CallStatistics {
  public:
    void add(const CallColumns &batch);
    void begin(size_t rows, const int32_t *thread, const uint32_t *call_seq, const uint64_t *ts);
    const std::vector<CallTotals> &threads() const { return threads_; }

    // Non-empty buckets, thread by thread. Numbering as in native/emit/histogram.h.
    struct Bucket {
        int32_t thread;
        uint32_t bucket;
        uint64_t calls;
    };
    std::vector<Bucket> histogram() const;

  private:
    static constexpr size_t kOctaves = 60, kBuckets = 64;
    using Octave = std::array<uint64_t, kBuckets>;
    // An octave has its buckets when something falls into it: durations of one function span few of them.
    using Histogram = std::array<std::unique_ptr<Octave>, kOctaves>;

    CallTotals &thread(int32_t number);
    std::vector<CallTotals> threads_;
    std::vector<Histogram> histograms_;
};

} // namespace occatrace
