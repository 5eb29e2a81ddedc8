// Where decoders put rows, and how rows become batches: bounded in rows and bytes per batch, in bytes per worker, and in bytes
// of batches that wait for the consumer (a worker that is too fast waits). Knows nothing of traces' formats.
#pragma once

#include "batch.h"
#include "strings.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace occatrace::columns {

struct Limits {
    size_t batch_rows = 1'000'000;
    size_t batch_bytes = 32u << 20;
    size_t building_bytes = 96u << 20; // all workers together
    size_t waiting_bytes = 64u << 20;
};

// Shared by the workers and the consumer.
class Output {
  public:
    explicit Output(const Limits &limits) : limits_(limits) {}

    const Limits &limits() const { return limits_; }
    StringTable &strings() { return strings_; }

    // Workers' side. False: nobody reads any more, stop.
    bool put(std::unique_ptr<Batch> batch);
    bool closed() const { return closed_; }
    void problem(const std::string &text);
    void declare(const std::shared_ptr<const Schema> &schema);
    void add_workers(unsigned count);
    void worker_done(std::exception_ptr failure);

    // Consumer's side. Waits at most `milliseconds`; null with done() false: nothing yet.
    std::unique_ptr<Batch> take(unsigned milliseconds);
    bool done() const;
    void close();
    std::vector<std::string> problems() const;
    std::vector<std::shared_ptr<const Schema>> schemas() const;

  private:
    const Limits limits_;
    StringTable strings_;
    mutable std::mutex mutex_;
    std::condition_variable not_full_;
    std::condition_variable not_empty_;
    std::deque<std::unique_ptr<Batch>> batches_;
    size_t waiting_ = 0;
    unsigned workers_ = 0;
    std::atomic<bool> closed_{false};
    std::exception_ptr failure_;
    std::vector<std::string> problems_;
    size_t more_problems_ = 0;
    std::set<std::string> declared_;
    std::vector<std::shared_ptr<const Schema>> schemas_;
};

class WorkerOutput;

// The growing columns of one event in one worker. A decoder calls begin(), fills every column at row(), and calls commit();
// a row that is not committed (a truncated event) is gone at the next begin().
class Builder {
  public:
    Builder(WorkerOutput &output, std::shared_ptr<const Schema> schema, size_t trace);

    void begin() {
        if (rows_ >= limit_) make_room();
        for (const uint32_t index : sequences_) {
            Column &column = columns_[index];
            column.values = offsets(column)[rows_];
        }
    }
    void commit() {
        rows_++;
        for (const uint32_t index : sequences_) {
            Column &column = columns_[index];
            offsets(column)[rows_] = static_cast<uint32_t>(column.values);
        }
    }

    size_t row() const { return rows_; }
    size_t bytes() const { return bytes_; }
    const std::shared_ptr<const Schema> &schema() const { return schema_; }

    template <typename T> void set(size_t column, T value) {
        memcpy(columns_[column].data.data() + rows_ * sizeof value, &value, sizeof value);
    }
    uint8_t *place(size_t column, size_t width) { return columns_[column].data.data() + rows_ * width; }

    // Room for `count` more values in a sequence of the row: where to write them.
    uint8_t *append(size_t index, size_t count) {
        Column &column = columns_[index];
        const size_t needed = (column.values + count) * column.width;
        if (needed > column.data.capacity()) grow_values(column, needed);
        uint8_t *place = column.data.data() + column.values * column.width;
        column.values += count;
        return place;
    }

  private:
    friend class WorkerOutput;

    static uint32_t *offsets(Column &column) { return reinterpret_cast<uint32_t *>(column.offsets.data()); }
    void make_room();
    void grow_values(Column &column, size_t needed);
    void resize(size_t rows);
    void start();
    std::unique_ptr<Batch> take();

    WorkerOutput &output_;
    const std::shared_ptr<const Schema> schema_;
    const size_t trace_;
    std::vector<Column> columns_;
    std::vector<uint32_t> sequences_;
    size_t rows_ = 0;
    size_t limit_ = 0;    // begin() leaves its fast way here
    size_t capacity_ = 0; // rows that the columns have room for
    size_t row_bytes_ = 0;
    size_t bytes_ = 0;
};

// One worker's builders, within the worker's share of memory.
class WorkerOutput {
  public:
    WorkerOutput(Output &output, unsigned workers);
    ~WorkerOutput();

    // The builder of a schema; lives as long as this object.
    Builder &builder(const std::shared_ptr<const Schema> &schema, size_t trace);
    StringCache &strings() { return strings_; }
    Output &output() { return output_; }
    bool closed() const { return closed_ || output_.closed(); }

    // Hands over all that is left.
    void flush();

  private:
    friend class Builder;

    void hand_over(Builder &builder);
    void make_room(Builder &builder, size_t more);

    Output &output_;
    StringCache strings_;
    const size_t budget_;
    size_t used_ = 0;
    bool closed_ = false;
    std::map<std::pair<const Schema *, size_t>, std::unique_ptr<Builder>> builders_;
};

} // namespace occatrace::columns
