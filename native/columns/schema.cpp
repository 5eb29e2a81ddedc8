// Names and kinds of columns (see schema.h).
#include "schema.h"

#include <fnmatch.h>

namespace occatrace::columns {

size_t width_of(Kind kind) {
    switch (kind) {
    case Kind::U8:
    case Kind::I8:
        return 1;
    case Kind::U16:
    case Kind::I16:
        return 2;
    case Kind::U32:
    case Kind::I32:
    case Kind::F32:
    case Kind::String:
        return 4;
    case Kind::U64:
    case Kind::I64:
    case Kind::F64:
        return 8;
    }
    return 8;
}

const char *name_of(Kind kind) {
    static const char *const names[] = {"u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64", "str"};
    return names[static_cast<size_t>(kind)];
}

Kind integer_kind(uint64_t bits, bool is_signed) {
    if (bits <= 8) return is_signed ? Kind::I8 : Kind::U8;
    if (bits <= 16) return is_signed ? Kind::I16 : Kind::U16;
    if (bits <= 32) return is_signed ? Kind::I32 : Kind::U32;
    return is_signed ? Kind::I64 : Kind::U64;
}

std::string Field::kind_name() const {
    return sequence ? std::string("seq<") + name_of(kind) + ">" : std::string(name_of(kind));
}

SchemaBuilder::SchemaBuilder(std::string event) {
    schema_.event = std::move(event);
    add("ts", Kind::U64, false);
}

size_t SchemaBuilder::add(const std::string &name, Kind kind, bool sequence) {
    std::string free = name;
    // A sequence takes two names in Python: NAME and NAME.values.
    while (taken_.count(free) != 0 || (sequence && taken_.count(free + ".values") != 0)) free += '_';
    taken_.insert(free);
    if (sequence) taken_.insert(free + ".values");
    schema_.fields.push_back({free, kind, sequence});
    return schema_.fields.size() - 1;
}

const char *visible_name(const char *name) { return name[0] == '_' ? name + 1 : name; }

std::string join_name(const std::string &prefix, const std::string &name) {
    return prefix.empty() ? name : prefix + "." + name;
}

bool is_length_of(const std::string &name, const std::string &next) { return name == "_" + next + "_length"; }

bool EventFilter::accepts(const std::string &event) const {
    if (patterns_.empty()) return true;
    for (const std::string &pattern : patterns_) {
        if (fnmatch(pattern.c_str(), event.c_str(), 0) == 0) return true;
    }
    return false;
}

} // namespace occatrace::columns
