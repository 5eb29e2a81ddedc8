// JSON text (RFC 8259) as values, for the metadata of CTF 2. Input may be damaged or hostile: depth is bounded.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace occatrace::columns::json {

// The text is no JSON; what() says where and what was expected.
class Error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Value {
    enum class What {
        Null,
        Bool,
        Integer,
        Real,
        String,
        Array,
        Object,
    } what = What::Null;
    bool truth = false;
    int64_t number = 0; // of Integer: two's complement of numbers above INT64_MAX
    double real = 0;
    std::string text;
    std::vector<Value> items;
    std::vector<std::pair<std::string, Value>> members; // in the order of the text

    // A member of an object; null where there is none, or where this is no object.
    const Value *find(std::string_view name) const;
};

// One value with nothing after it but white space. Throws Error.
Value parse(std::string_view text);

} // namespace occatrace::columns::json
