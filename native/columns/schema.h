// What an event's columns are: names, kinds, and how nested CTF fields become flat names. Shared by every decoder, so that
// two decoders of the same trace give the same columns. Nothing here knows how the events are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace occatrace::columns {

enum class Kind : uint8_t {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    String,
};

// Bytes of one value; a string is its number in the string table.
size_t width_of(Kind kind);

// "u8" … "f64", "str".
const char *name_of(Kind kind);

// The narrowest integer that holds `bits`.
Kind integer_kind(uint64_t bits, bool is_signed);

struct Field {
    std::string name;
    Kind kind = Kind::U64;
    bool sequence = false; // any number of values per row: offsets and values

    std::string kind_name() const;
    bool operator==(const Field &other) const {
        return name == other.name && kind == other.kind && sequence == other.sequence;
    }
};

struct Schema {
    std::string event;
    std::vector<Field> fields; // fields[0] is always "ts"

    bool operator==(const Schema &other) const { return event == other.event && fields == other.fields; }
};

// Builds a schema in the order of the CTF fields: common context, specific context, payload.
class SchemaBuilder {
  public:
    explicit SchemaBuilder(std::string event);

    // Adds a field and returns its column's index. A name that is taken ("ts", or an odd trace) gets underscores appended.
    size_t add(const std::string &name, Kind kind, bool sequence);
    Schema take() { return std::move(schema_); }
    size_t size() const { return schema_.fields.size(); }

  private:
    Schema schema_;
    std::unordered_set<std::string> taken_;
};

// CTF writers put an underscore before names that could clash with keywords: one is removed.
const char *visible_name(const char *name);

// "prefix" + "name" with a dot between nested structures.
std::string join_name(const std::string &prefix, const std::string &name);

// LTTng writes `_N_length` before each sequence N: the offsets say the same, so such a field gets no column.
bool is_length_of(const std::string &name, const std::string &next);

// Chooses events by names or shell patterns; no pattern chooses all.
class EventFilter {
  public:
    explicit EventFilter(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}
    bool accepts(const std::string &event) const;

  private:
    std::vector<std::string> patterns_;
};

} // namespace occatrace::columns
