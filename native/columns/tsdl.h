// The metadata of a CTF 1.8 trace: its text out of LTTng's packets, and the parse of the language (TSDL) into types and event
// classes, as far as tracers write it. Says nothing of whether a decoder can follow the layout.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace occatrace::columns::tsdl {

// The metadata is damaged; the text says how.
class MetadataError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The text is not in the part of TSDL that we know.
class SyntaxError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The text of a metadata file's content, out of its packets if it has them. Throws MetadataError.
std::string text_of(std::string_view content);

struct Type;
using TypePtr = std::shared_ptr<const Type>;

struct Member {
    std::string name;
    TypePtr type;
};

struct Range {
    std::string label;
    int64_t first = 0;
    int64_t last = 0;
};

struct Type {
    enum class What {
        Integer,
        Float,
        String,
        Enum,
        Struct,
        Variant,
        Array,
        Sequence,
    } what = What::Integer;
    uint64_t size = 0;  // bits, of integers, floats and enums
    uint64_t align = 1; // bits, as it comes out of all that is inside
    bool is_signed = false;
    bool text = false;          // integers: with an encoding; strings in arrays and sequences
    bool big_endian = false;    // only where it is said; else the trace's order
    bool little_endian = false; // likewise
    bool clock = false;         // mapped to a clock
    unsigned exponent = 0, mantissa = 0; // floats: digits
    std::vector<Member> members;         // structs and variants
    std::vector<Range> ranges;           // enums
    std::string tag;                     // of a variant; of a sequence, the name of its length
    uint64_t count = 0;                  // of an array
    TypePtr element;                     // of arrays and sequences; an enum's integer
};

struct Event {
    uint64_t id = 0;
    uint64_t stream = 0;
    std::string name;
    TypePtr context;
    TypePtr fields;
};

struct Stream {
    uint64_t id = 0;
    TypePtr packet_context;
    TypePtr event_header;
    TypePtr event_context;
};

struct Clock {
    std::string name;
    uint64_t frequency = 1'000'000'000;
    int64_t offset_seconds = 0;
    int64_t offset = 0;
};

struct Trace {
    bool big_endian = false;
    std::string uuid; // 16 bytes, or empty
    TypePtr packet_header;
    std::map<std::string, std::string> env;
    std::vector<Clock> clocks;
    std::vector<Stream> streams;
    std::vector<Event> events;
};

// Throws SyntaxError.
Trace parse(std::string_view text);

} // namespace occatrace::columns::tsdl
