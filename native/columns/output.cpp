// Batches between workers and consumer, and the growing columns of a worker (see output.h).
#include "output.h"

#include <algorithm>
#include <chrono>

namespace occatrace::columns {

namespace {
constexpr size_t first_rows = 256;
// A damaged trace of many streams must not drown the report in one line per packet.
constexpr size_t most_problems = 100;
} // namespace

bool Output::put(std::unique_ptr<Batch> batch) {
    std::unique_lock<std::mutex> lock(mutex_);
    // One batch may always wait, or a batch larger than the bound would wait for ever.
    not_full_.wait(lock, [&] { return closed_ || waiting_ == 0 || waiting_ + batch->bytes <= limits_.waiting_bytes; });
    if (closed_) return false;
    waiting_ += batch->bytes;
    batches_.push_back(std::move(batch));
    not_empty_.notify_one();
    return true;
}

void Output::problem(const std::string &text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (problems_.size() < most_problems) {
        problems_.push_back(text);
    } else {
        more_problems_++;
    }
}

void Output::declare(const std::shared_ptr<const Schema> &schema) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string signature = schema->event;
    for (const Field &field : schema->fields) signature += '\n' + field.name + '\t' + field.kind_name();
    if (declared_.insert(std::move(signature)).second) schemas_.push_back(schema);
}

void Output::add_workers(unsigned count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    workers_ += count;
}

void Output::worker_done(std::exception_ptr failure) {
    const std::lock_guard<std::mutex> lock(mutex_);
    workers_--;
    if (failure && !failure_) failure_ = failure;
    not_empty_.notify_all();
}

std::unique_ptr<Batch> Output::take(unsigned milliseconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    not_empty_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                        [&] { return !batches_.empty() || workers_ == 0 || closed_; });
    if (batches_.empty()) {
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
        return nullptr;
    }
    std::unique_ptr<Batch> batch = std::move(batches_.front());
    batches_.pop_front();
    waiting_ -= batch->bytes;
    not_full_.notify_all();
    return batch;
}

bool Output::done() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_ || (workers_ == 0 && batches_.empty() && !failure_);
}

void Output::close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    batches_.clear();
    waiting_ = 0;
    not_full_.notify_all();
    not_empty_.notify_all();
}

std::vector<std::string> Output::problems() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> problems = problems_;
    if (more_problems_ > 0) problems.push_back("and " + std::to_string(more_problems_) + " more problems");
    return problems;
}

std::vector<std::shared_ptr<const Schema>> Output::schemas() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return schemas_;
}

Builder::Builder(WorkerOutput &output, std::shared_ptr<const Schema> schema, size_t trace)
    : output_(output), schema_(std::move(schema)), trace_(trace) {
    for (size_t i = 0; i < schema_->fields.size(); i++) {
        if (schema_->fields[i].sequence) sequences_.push_back(static_cast<uint32_t>(i));
    }
    start();
}

void Builder::start() {
    columns_.clear();
    columns_.resize(schema_->fields.size());
    row_bytes_ = 0;
    for (size_t i = 0; i < columns_.size(); i++) {
        const Field &field = schema_->fields[i];
        columns_[i].width = static_cast<uint8_t>(width_of(field.kind));
        columns_[i].sequence = field.sequence;
        row_bytes_ += field.sequence ? sizeof(uint32_t) : columns_[i].width;
    }
    rows_ = limit_ = capacity_ = bytes_ = 0;
}

void Builder::resize(size_t rows) {
    for (Column &column : columns_) {
        if (column.sequence) {
            const bool first = column.offsets.data() == nullptr;
            column.offsets.resize((rows + 1) * sizeof(uint32_t));
            if (first) offsets(column)[0] = 0;
        } else {
            column.data.resize(rows * column.width);
        }
    }
    bytes_ += (rows - capacity_) * row_bytes_;
    capacity_ = limit_ = rows;
}

void Builder::make_room() {
    const Limits &limits = output_.output_.limits();
    if (rows_ > 0 && (rows_ >= limits.batch_rows || bytes_ >= limits.batch_bytes)) output_.hand_over(*this);
    if (rows_ < capacity_) return; // there was room: a limit on bytes had brought us here
    const size_t rows = std::min(limits.batch_rows, std::max(first_rows, capacity_ * 2));
    output_.make_room(*this, (rows - capacity_) * row_bytes_);
    // Handing over may have taken our own rows.
    const size_t wanted = std::max(rows_ + 1, std::min(limits.batch_rows, std::max(first_rows, capacity_ * 2)));
    output_.used_ += (wanted - capacity_) * row_bytes_;
    resize(wanted);
}

void Builder::grow_values(Column &column, size_t needed) {
    const size_t before = column.data.capacity();
    const size_t capacity = std::max<size_t>({needed, before * 2, 1024});
    column.data.resize(capacity);
    bytes_ += capacity - before;
    output_.used_ += capacity - before;
    // Offsets have 32 bits, and memory is bounded: the next row starts a new batch if this one has grown too large.
    if (bytes_ >= output_.output_.limits().batch_bytes) limit_ = std::min(limit_, rows_ + 1);
}

std::unique_ptr<Batch> Builder::take() {
    auto batch = std::make_unique<Batch>();
    batch->schema = schema_;
    batch->trace = trace_;
    batch->rows = rows_;
    for (Column &column : columns_) {
        if (column.sequence) {
            column.values = offsets(column)[rows_]; // without a row that was begun and not committed
            column.offsets.resize((rows_ + 1) * sizeof(uint32_t));
            column.data.resize(column.values * column.width);
        } else {
            column.data.resize(rows_ * column.width);
        }
        batch->bytes += column.data.capacity() + column.offsets.capacity();
    }
    batch->columns = std::move(columns_);
    start();
    return batch;
}

WorkerOutput::WorkerOutput(Output &output, unsigned workers)
    : output_(output), strings_(output.strings()), budget_(output.limits().building_bytes / std::max(1u, workers)) {}

WorkerOutput::~WorkerOutput() = default;

Builder &WorkerOutput::builder(const std::shared_ptr<const Schema> &schema, size_t trace) {
    std::unique_ptr<Builder> &builder = builders_[{schema.get(), trace}];
    if (!builder) builder = std::make_unique<Builder>(*this, schema, trace);
    return *builder;
}

void WorkerOutput::hand_over(Builder &builder) {
    used_ -= builder.bytes();
    if (builder.row() == 0) {
        builder.start();
        return;
    }
    if (!output_.put(builder.take())) closed_ = true;
}

void WorkerOutput::make_room(Builder &builder, size_t more) {
    while (used_ + more > budget_) {
        Builder *largest = &builder;
        for (const auto &item : builders_) {
            if (item.second->bytes() > largest->bytes()) largest = item.second.get();
        }
        // All are small, and yet there is no room: the growth itself is larger than the share, and handing over wins nothing.
        if (largest->row() == 0 || largest->bytes() < budget_ / (2 * builders_.size())) return;
        hand_over(*largest);
    }
}

void WorkerOutput::flush() {
    for (const auto &item : builders_) {
        if (item.second->row() > 0) hand_over(*item.second);
    }
}

} // namespace occatrace::columns
