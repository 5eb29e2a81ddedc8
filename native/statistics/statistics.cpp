#include "statistics.h"

#include "../emit/histogram.h"

#include <algorithm>

namespace occatrace {

void ThreadStatistics::add(size_t rows, const int32_t *thread, const uint32_t *seq, const uint64_t *ts) {
    for (size_t row = 0; row < rows; row++) {
        const auto number = static_cast<size_t>(thread[row]);
        if (number >= threads_.size()) threads_.resize(std::max(number + 1, 2 * threads_.size()));
        Thread &t = threads_[number];
        t.seen++;
        t.max_seq = std::max<int64_t>(t.max_seq, seq[row]);
        t.start = std::min(t.start, ts[row]);
        t.end = std::max(t.end, ts[row]);
    }
}

double CallTotals::m2() const {
    if (calls < 2) return 0;
    const auto s = static_cast<long double>(sum);
    return std::max(0.0, static_cast<double>(static_cast<long double>(squares) - s * s / static_cast<long double>(calls)));
}

CallTotals &CallStatistics::thread(int32_t number) {
    const auto place = static_cast<size_t>(number);
    if (place >= threads_.size()) {
        const size_t size = std::max(place + 1, 2 * threads_.size());
        threads_.resize(size);
        histograms_.resize(size);
    }
    return threads_[place];
}

void CallStatistics::add(const CallColumns &batch) {
    for (size_t row = 0; row < batch.rows; row++) {
        CallTotals &t = thread(batch.thread[row]);
        // A clock that went back must not make an endless call.
        const uint64_t duration = batch.end[row] > batch.start[row] ? batch.end[row] - batch.start[row] : 0;
        if (t.calls++ == 0) t.origin = duration;
        const auto shifted = static_cast<int64_t>(duration - t.origin);
        t.sum += shifted;
        t.squares += static_cast<unsigned __int128>(static_cast<__int128>(shifted) * shifted);
        t.total += duration;
        t.min = std::min(t.min, duration);
        t.max = std::max(t.max, duration);
        t.max_seq = std::max<int64_t>(t.max_seq, batch.seq[row]);
        const bool failed = batch.failed && batch.failed[row];
        t.failed += failed;
        if (batch.bytes && !failed) t.bytes += batch.bytes[row];
        const uint32_t bucket = occatrace_histogram_bucket(duration);
        auto &octave = histograms_[static_cast<size_t>(batch.thread[row])][bucket / kBuckets];
        if (!octave) octave = std::make_unique<Octave>();
        (*octave)[bucket % kBuckets]++;
    }
}

void CallStatistics::begin(size_t rows, const int32_t *threads, const uint32_t *call_seq, const uint64_t *ts) {
    for (size_t row = 0; row < rows; row++) {
        CallTotals &t = thread(threads[row]);
        if (static_cast<int64_t>(call_seq[row]) <= t.begin_seq) continue;
        t.begin_seq = call_seq[row];
        t.begin_ts = ts[row];
    }
}

std::vector<CallStatistics::Bucket> CallStatistics::histogram() const {
    std::vector<Bucket> out;
    for (size_t thread = 0; thread < histograms_.size(); thread++)
        for (size_t octave = 0; octave < kOctaves; octave++) {
            const auto &counts = histograms_[thread][octave];
            if (!counts) continue;
            for (size_t i = 0; i < kBuckets; i++)
                if ((*counts)[i])
                    out.push_back({static_cast<int32_t>(thread), static_cast<uint32_t>(octave * kBuckets + i), (*counts)[i]});
        }
    return out;
}

} // namespace occatrace
