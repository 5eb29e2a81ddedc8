// A recursive parser of JSON (see json.h).
#include "json.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace occatrace::columns::json {

namespace {

constexpr unsigned most_depth = 64;

class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text) {}

    Value run() {
        Value value = this->value(0);
        skip();
        if (place_ < text_.size()) fail("its end");
        return value;
    }

  private:
    [[noreturn]] void fail(const char *expected) const {
        if (place_ >= text_.size()) throw Error(std::string("it ends where ") + expected + " was expected");
        throw Error(std::string("expected ") + expected + " at byte " + std::to_string(place_));
    }

    void skip() {
        while (place_ < text_.size() && std::string_view(" \t\r\n").find(text_[place_]) != std::string_view::npos) place_++;
    }

    bool accept(char symbol) {
        skip();
        if (place_ >= text_.size() || text_[place_] != symbol) return false;
        place_++;
        return true;
    }

    bool accept_word(std::string_view word) {
        if (text_.substr(place_, word.size()) != word) return false;
        place_ += word.size();
        return true;
    }

    Value value(unsigned depth) {
        if (depth > most_depth) throw Error("values are nested too deeply");
        skip();
        Value value;
        if (place_ >= text_.size()) fail("a value");
        const char first = text_[place_];
        if (first == '{') {
            object(value, depth);
        } else if (first == '[') {
            array(value, depth);
        } else if (first == '"') {
            value.what = Value::What::String;
            value.text = string();
        } else if (first == '-' || (first >= '0' && first <= '9')) {
            number(value);
        } else if (accept_word("true")) {
            value.what = Value::What::Bool;
            value.truth = true;
        } else if (accept_word("false")) {
            value.what = Value::What::Bool;
        } else if (!accept_word("null")) {
            fail("a value");
        }
        return value;
    }

    void object(Value &value, unsigned depth) {
        value.what = Value::What::Object;
        accept('{');
        if (accept('}')) return;
        do {
            skip();
            if (place_ >= text_.size() || text_[place_] != '"') fail("a name");
            std::string name = string();
            if (!accept(':')) fail("a colon");
            Value member = this->value(depth + 1);
            value.members.emplace_back(std::move(name), std::move(member));
        } while (accept(','));
        if (!accept('}')) fail("a comma or }");
    }

    void array(Value &value, unsigned depth) {
        value.what = Value::What::Array;
        accept('[');
        if (accept(']')) return;
        do value.items.push_back(this->value(depth + 1));
        while (accept(','));
        if (!accept(']')) fail("a comma or ]");
    }

    void number(Value &value) {
        const size_t start = place_;
        while (place_ < text_.size() && std::string_view("+-.eE0123456789").find(text_[place_]) != std::string_view::npos) place_++;
        const std::string digits(text_.substr(start, place_ - start));
        char *end = nullptr;
        errno = 0;
        if (digits.find_first_of(".eE") == std::string::npos) {
            value.what = Value::What::Integer;
            value.number = digits[0] == '-' ? strtoll(digits.c_str(), &end, 10)
                                            : static_cast<int64_t>(strtoull(digits.c_str(), &end, 10));
            if (errno == ERANGE) throw Error("a number of more than 64 bits at byte " + std::to_string(start));
        } else {
            value.what = Value::What::Real;
            value.real = strtod(digits.c_str(), &end);
        }
        if (end == digits.c_str() || *end != 0) throw Error("expected a number at byte " + std::to_string(start));
    }

    std::string string() {
        std::string text;
        place_++;
        for (;;) {
            if (place_ >= text_.size()) fail("the end of a string");
            const char next = text_[place_++];
            if (next == '"') return text;
            if (next == '\\') {
                escape(text);
            } else {
                text += next;
            }
        }
    }

    void escape(std::string &text) {
        if (place_ >= text_.size()) fail("an escape");
        const char kind = text_[place_++];
        static const std::string_view kinds = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
        const size_t found = kinds.find(kind);
        if (found != std::string_view::npos) {
            text += meant[found];
            return;
        }
        if (kind != 'u') fail("an escape");
        uint32_t point = hexadecimal();
        // Two of them make one character beyond the first plane.
        if (point >= 0xd800 && point < 0xdc00 && accept_word("\\u")) {
            const uint32_t low = hexadecimal();
            if (low < 0xdc00 || low > 0xdfff) fail("the second half of a character");
            point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        }
        encode(text, point);
    }

    uint32_t hexadecimal() {
        const std::string digits(text_.substr(std::min(place_, text_.size()), 4));
        if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
            fail("four hexadecimal digits");
        }
        place_ += 4;
        return static_cast<uint32_t>(strtoul(digits.c_str(), nullptr, 16));
    }

    static void encode(std::string &text, uint32_t point) {
        if (point < 0x80) {
            text += static_cast<char>(point);
            return;
        }
        const unsigned more = point < 0x800 ? 1 : point < 0x10000 ? 2
                                                                  : 3;
        text += static_cast<char>((0xf00 >> (more + 1) & 0xff) | point >> (6 * more));
        for (unsigned i = more; i-- > 0;) text += static_cast<char>(0x80 | (point >> (6 * i) & 0x3f));
    }

    const std::string_view text_;
    size_t place_ = 0;
};

} // namespace

const Value *Value::find(std::string_view name) const {
    for (const auto &[key, value] : members) {
        if (key == name) return &value;
    }
    return nullptr;
}

Value parse(std::string_view text) { return Parser(text).run(); }

} // namespace occatrace::columns::json
