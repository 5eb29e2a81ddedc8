// A batch: rows of one event of one trace as typed columns. It owns its memory, so that it can be handed on without a copy.
#pragma once

#include "schema.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace occatrace::columns {

// Bytes that grow by realloc (large blocks move by remapping, not by copying) and are not cleared.
class Buffer {
  public:
    Buffer() = default;
    Buffer(Buffer &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
    Buffer &operator=(Buffer &&other) noexcept {
        std::swap(data_, other.data_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { free(data_); }

    void resize(size_t capacity) {
        if (capacity == 0) capacity = 1;
        void *data = realloc(data_, capacity);
        if (data == nullptr) throw std::bad_alloc();
        data_ = static_cast<uint8_t *>(data);
        capacity_ = capacity;
    }
    uint8_t *data() const { return data_; }
    size_t capacity() const { return capacity_; }

  private:
    uint8_t *data_ = nullptr;
    size_t capacity_ = 0;
};

struct Column {
    Buffer data;         // a value per row; of a sequence: all values of all rows
    Buffer offsets;      // of a sequence: u32, where each row's values start, and where the last row's end
    size_t values = 0;   // of a sequence: how many values `data` holds
    uint8_t width = 8;   // bytes of one value
    bool sequence = false;
};

struct Batch {
    std::shared_ptr<const Schema> schema;
    size_t trace = 0; // which of the reader's traces
    size_t rows = 0;
    size_t bytes = 0; // of memory
    std::vector<Column> columns;
};

} // namespace occatrace::columns
