// The layouts of LTTng-UST's streams, compiled from a trace's metadata: little-endian, whole bytes, the compact or large event
// header, or one that is number and time (as babeltrace2 writes). What is different is declined, so that another decoder takes
// the trace.
#pragma once

#include "schema.h"
#include "tsdl.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace occatrace::columns::lttng {

// The text says what of the layout is not known.
class Declined : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// One step of decoding an event. A Run makes `count` bytes readable, which the Copy, Swap and Length steps after it read.
struct Step {
    enum class What : uint8_t {
        Run,
        Copy1,
        Copy2,
        Copy4,
        Copy8,
        Swap2,
        Swap4,
        Swap8,
        Length,       // into register `slot`
        String,       // up to a NUL
        TextArray,    // `count` bytes, cut at a NUL
        TextSequence, // as many bytes as register `slot` says, cut at a NUL
        Array,        // `count` values
        Sequence,     // as many values as register `slot` says
        Align,        // to `count` bytes from the packet's start
    } what = What::Run;
    uint8_t width = 0; // bytes of a value, or of a length
    bool swap = false;
    uint8_t slot = 0;
    uint32_t column = 0;
    uint32_t offset = 0; // from the run's start
    uint64_t count = 0;
};

constexpr size_t most_slots = 32;

struct EventLayout {
    bool known = false;
    std::shared_ptr<const Schema> schema; // null: not wanted, its steps only find its end
    std::vector<Step> steps;
};

// Place of an integer in a packet's header or context.
struct Place {
    uint64_t offset = 0;
    uint8_t width = 0; // 0: it is not there
    bool swap = false;

    uint64_t read(const uint8_t *base) const;
};

struct StreamLayout {
    uint64_t id = 0;
    Place timestamp_begin, content_size, packet_size; // from the packet's start
    uint64_t head_size = 0;                           // of packet header and context
    enum class Header {
        Compact,
        Large,
        Plain,
    } header = Header::Large; // 5 bits of id and 27 of time; 16 and 32; as below
    Place header_id, header_time;                     // of a plain header, from its start
    uint64_t header_size = 0;                         // likewise
    // Of LTTng's headers, in bytes: 1 where it packs (x86-64), those of C where it does not (AArch64).
    uint64_t short_align = 1;                         // of the time's low bits
    uint64_t long_align = 1, long_time_align = 1;     // of number and time at full length, and of the time in it
    uint64_t header_align = 1;
    std::vector<EventLayout> events; // by id
};

struct Layout {
    Place magic, stream_id;
    uint64_t uuid_offset = 0;
    bool has_uuid = false;
    std::string uuid;
    uint64_t header_size = 0; // of the packet header
    uint64_t most_head = 0;   // the largest head_size
    std::vector<StreamLayout> streams;
};

// `raw`: text of unsigned characters is a list of bytes. Throws Declined.
Layout compile(const tsdl::Trace &trace, const EventFilter &filter, bool raw);

} // namespace occatrace::columns::lttng
