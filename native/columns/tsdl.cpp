// Metadata packets and the TSDL parser (see tsdl.h). Input may be damaged or hostile: depth and sizes are bounded.
#include "tsdl.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace occatrace::columns::tsdl {

namespace {

constexpr uint32_t packet_magic = 0x75d11d57;
// magic, uuid, checksum, content and packet size in bits, compression, encryption and checksum schemes, major, minor
constexpr size_t packet_header_size = 4 + 16 + 4 + 4 + 4 + 5;
constexpr unsigned most_depth = 32;
constexpr size_t most_members = 4096; // of one structure
constexpr uint64_t most_elements = 1 << 20; // of one array, with those of arrays in it

uint32_t word(std::string_view content, size_t place, bool swapped) {
    uint32_t value;
    memcpy(&value, content.data() + place, sizeof value);
    return swapped ? __builtin_bswap32(value) : value;
}

} // namespace

std::string text_of(std::string_view content) {
    if (content.empty()) throw MetadataError("the metadata is empty");
    if (content.size() < 4) throw MetadataError("the metadata is truncated");
    const uint32_t magic = word(content, 0, false);
    const bool swapped = magic == __builtin_bswap32(packet_magic);
    if (magic != packet_magic && !swapped) return std::string(content);
    std::string text;
    size_t place = 0;
    while (place < content.size()) {
        const size_t left = content.size() - place;
        const std::string where = " at byte " + std::to_string(place);
        if (left < packet_header_size) throw MetadataError("the metadata is truncated" + where);
        if (word(content, place, swapped) != packet_magic) throw MetadataError("the metadata is damaged" + where);
        const size_t content_size = word(content, place + 24, swapped) / 8;
        const size_t packet_size = word(content, place + 28, swapped) / 8;
        if (content_size < packet_header_size || packet_size < content_size) {
            throw MetadataError("the metadata is damaged" + where);
        }
        if (packet_size > left) throw MetadataError("the metadata is truncated" + where);
        if (content[place + 32] != 0 || content[place + 33] != 0) {
            throw MetadataError("the metadata is compressed or encrypted");
        }
        text.append(content.substr(place + packet_header_size, content_size - packet_header_size));
        place += packet_size;
    }
    return text;
}

namespace {

struct Token {
    enum class What {
        End,
        Word,
        Number,
        String,
        Symbol,
    } what = What::End;
    std::string text;
    int64_t number = 0; // two's complement of numbers above INT64_MAX
};

class Lexer {
  public:
    explicit Lexer(std::string_view text) : text_(text) { advance(); }

    const Token &peek() const { return token_; }
    Token take() {
        Token token = std::move(token_);
        advance();
        return token;
    }
    [[noreturn]] void fail(const std::string &what) const {
        const auto line = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(start_), '\n') + 1;
        throw SyntaxError("metadata line " + std::to_string(line) + ": " + what);
    }

  private:
    bool at(const char *symbol) const { return text_.substr(place_).rfind(symbol, 0) == 0; }

    void skip() {
        for (;;) {
            while (place_ < text_.size() && isspace(static_cast<unsigned char>(text_[place_]))) place_++;
            if (at("/*")) {
                const size_t end = text_.find("*/", place_ + 2);
                if (end == std::string_view::npos) fail("a comment has no end");
                place_ = end + 2;
            } else if (at("//")) {
                const size_t end = text_.find('\n', place_);
                place_ = end == std::string_view::npos ? text_.size() : end;
            } else {
                return;
            }
        }
    }

    void advance() {
        skip();
        token_ = Token();
        start_ = place_;
        if (place_ >= text_.size()) return;
        const char first = text_[place_];
        if (isalpha(static_cast<unsigned char>(first)) || first == '_') {
            size_t end = place_;
            while (end < text_.size() && (isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) end++;
            token_.what = Token::What::Word;
            token_.text = text_.substr(place_, end - place_);
            place_ = end;
        } else if (isdigit(static_cast<unsigned char>(first))) {
            number();
        } else if (first == '"') {
            string();
        } else {
            token_.what = Token::What::Symbol;
            for (const char *symbol : {":=", "...", "->"}) {
                if (at(symbol)) token_.text = symbol;
            }
            if (token_.text.empty()) token_.text = first;
            place_ += token_.text.size();
        }
    }

    void number() {
        size_t end = place_;
        while (end < text_.size() && isalnum(static_cast<unsigned char>(text_[end]))) end++;
        const std::string digits(text_.substr(place_, end - place_));
        char *stop = nullptr;
        errno = 0;
        const uint64_t value = strtoull(digits.c_str(), &stop, 0);
        const std::string suffix = stop;
        if (errno != 0 || suffix.find_first_not_of("uUlL") != std::string::npos) fail("not a number: " + digits);
        token_.what = Token::What::Number;
        token_.number = static_cast<int64_t>(value);
        token_.text = digits;
        place_ = end;
    }

    void string() {
        token_.what = Token::What::String;
        place_++;
        while (place_ < text_.size() && text_[place_] != '"') {
            char c = text_[place_++];
            if (c == '\\' && place_ < text_.size()) {
                c = text_[place_++];
                switch (c) {
                case 'n': c = '\n'; break;
                case 't': c = '\t'; break;
                case 'r': c = '\r'; break;
                case '"':
                case '\\':
                case '\'':
                case '?': break;
                default: fail("an escape that we do not know");
                }
            }
            token_.text += c;
        }
        if (place_ >= text_.size()) fail("a string has no end");
        place_++;
    }

    std::string_view text_;
    size_t place_ = 0;
    size_t start_ = 0;
    Token token_;
};

std::string uuid_bytes(const std::string &text) {
    std::string bytes;
    int high = -1;
    for (const char c : text) {
        if (c == '-') continue;
        if (!isxdigit(static_cast<unsigned char>(c))) return {};
        const int digit = isdigit(static_cast<unsigned char>(c)) ? c - '0' : (tolower(c) - 'a') + 10;
        if (high < 0) {
            high = digit;
        } else {
            bytes += static_cast<char>(high * 16 + digit);
            high = -1;
        }
    }
    return bytes.size() == 16 && high < 0 ? bytes : std::string();
}

class Parser {
  public:
    explicit Parser(std::string_view text) : lexer_(text) {}

    Trace run() {
        while (lexer_.peek().what != Token::What::End) top();
        return std::move(trace_);
    }

  private:
    // A value on the right of `=` or `:=` in a block: a type, or words, numbers and strings.
    struct Value {
        TypePtr type;
        std::string text;
        int64_t number = 0;
        bool is_number = false;
    };
    using Block = std::map<std::string, Value>;

    bool is(const char *text) const {
        const Token &token = lexer_.peek();
        return (token.what == Token::What::Symbol || token.what == Token::What::Word) && token.text == text;
    }
    bool accept(const char *text) {
        if (!is(text)) return false;
        lexer_.take();
        return true;
    }
    void expect(const char *text) {
        if (!accept(text)) lexer_.fail(std::string("expected ") + text + ", not " + lexer_.peek().text);
    }
    std::string word() {
        if (lexer_.peek().what != Token::What::Word) lexer_.fail("expected a name, not " + lexer_.peek().text);
        return lexer_.take().text;
    }

    void top() {
        if (accept(";")) return;
        if (is("typealias") || is("typedef")) {
            alias();
            return;
        }
        if (is("trace")) {
            lexer_.take();
            const Block block = this->block();
            const std::string order = text(block, "byte_order");
            if (order != "le" && order != "be") lexer_.fail("a byte order that we do not know: " + order);
            trace_.big_endian = order == "be";
            trace_.uuid = uuid_bytes(text(block, "uuid"));
            trace_.packet_header = type(block, "packet.header");
        } else if (is("env")) {
            lexer_.take();
            for (const auto &entry : this->block()) trace_.env[entry.first] = entry.second.text;
        } else if (is("clock")) {
            lexer_.take();
            const Block block = this->block();
            Clock clock;
            clock.name = text(block, "name");
            clock.frequency = static_cast<uint64_t>(number(block, "freq", 1'000'000'000));
            clock.offset_seconds = number(block, "offset_s", 0);
            clock.offset = number(block, "offset", 0);
            trace_.clocks.push_back(clock);
        } else if (is("stream")) {
            lexer_.take();
            const Block block = this->block();
            Stream stream;
            stream.id = static_cast<uint64_t>(number(block, "id", 0));
            stream.packet_context = type(block, "packet.context");
            stream.event_header = type(block, "event.header");
            stream.event_context = type(block, "event.context");
            trace_.streams.push_back(std::move(stream));
        } else if (is("event")) {
            lexer_.take();
            const Block block = this->block();
            Event event;
            event.id = static_cast<uint64_t>(number(block, "id", 0));
            event.stream = static_cast<uint64_t>(number(block, "stream_id", 0));
            event.name = text(block, "name");
            event.context = type(block, "context");
            event.fields = type(block, "fields");
            trace_.events.push_back(std::move(event));
        } else if (is("callsite")) {
            lexer_.take();
            block();
        } else if (is("struct") || is("enum") || is("variant")) {
            specifier(0);
        } else {
            lexer_.fail("unknown block " + lexer_.peek().text);
        }
        expect(";");
    }

    Block block() {
        Block block;
        expect("{");
        while (!accept("}")) {
            if (accept(";")) continue;
            if (is("typealias") || is("typedef")) {
                alias();
                continue;
            }
            if (is("struct") || is("enum") || is("variant")) { // a type that is named here
                specifier(0);
                expect(";");
                continue;
            }
            std::string name = word();
            while (accept(".")) name += "." + word();
            Value value;
            if (accept(":=")) {
                value.type = specifier(0);
            } else {
                expect("=");
                value = plain_value();
            }
            expect(";");
            if (!block.emplace(name, std::move(value)).second) lexer_.fail(name + " stands twice");
        }
        return block;
    }

    Value plain_value() {
        Value value;
        const bool minus = accept("-");
        const Token token = lexer_.take();
        switch (token.what) {
        case Token::What::Number:
            value.number = minus ? static_cast<int64_t>(-static_cast<uint64_t>(token.number)) : token.number;
            value.is_number = true;
            value.text = std::to_string(value.number);
            break;
        case Token::What::String:
            value.text = token.text;
            break;
        case Token::What::Word:
            value.text = token.text;
            while (accept(".")) value.text += "." + word();
            break;
        default:
            lexer_.fail("expected a value");
        }
        if (minus && !value.is_number) lexer_.fail("expected a number");
        return value;
    }

    static std::string text(const Block &block, const char *name) {
        const auto found = block.find(name);
        return found == block.end() ? std::string() : found->second.text;
    }
    int64_t number(const Block &block, const char *name, int64_t otherwise) const {
        const auto found = block.find(name);
        if (found == block.end()) return otherwise;
        if (!found->second.is_number) lexer_.fail(std::string(name) + " is not a number");
        return found->second.number;
    }
    static TypePtr type(const Block &block, const char *name) {
        const auto found = block.find(name);
        return found == block.end() ? nullptr : found->second.type;
    }
    bool truth(const Block &block, const char *name) const {
        const std::string value = text(block, name);
        if (value.empty() || value == "false" || value == "FALSE" || value == "0") return false;
        if (value == "true" || value == "TRUE" || value == "1") return true;
        lexer_.fail("neither true nor false: " + value);
    }

    // typealias TYPE := NAME; typedef TYPE NAME;
    void alias() {
        const bool assigned = lexer_.take().text == "typealias";
        TypePtr type = specifier(0);
        if (assigned) expect(":=");
        std::string name = word();
        while (lexer_.peek().what == Token::What::Word) name += " " + word();
        expect(";");
        aliases_[name] = std::move(type);
    }

    TypePtr specifier(unsigned depth) {
        if (depth > most_depth) lexer_.fail("types are nested too deeply");
        if (accept("integer")) return integer();
        if (accept("floating_point")) return floating();
        if (accept("string")) return string();
        if (accept("struct")) return structure(depth);
        if (accept("variant")) return variant(depth);
        if (accept("enum")) return enumeration(depth);
        return aliased();
    }

    // A type by its name of one or several words ("unsigned long"); the longest name that is known.
    TypePtr aliased() {
        std::string name = word();
        for (;;) {
            const bool more = lexer_.peek().what == Token::What::Word;
            const bool longer = more && aliases_.count(name + " " + lexer_.peek().text) != 0;
            const auto found = aliases_.find(name);
            if (found != aliases_.end() && !longer) return found->second;
            if (!more) lexer_.fail("unknown type " + name);
            name += " " + word();
        }
    }

    void check_size(uint64_t size, uint64_t align) const {
        if (size == 0 || size > 64) lexer_.fail("a number of " + std::to_string(size) + " bits");
        if (align == 0 || align > 4096 || (align & (align - 1)) != 0) lexer_.fail("an alignment that is no power of two");
    }

    void byte_order(const Block &block, Type &type) const {
        const std::string order = text(block, "byte_order");
        if (order == "be" || order == "network") {
            type.big_endian = true;
        } else if (order == "le") {
            type.little_endian = true;
        } else if (!order.empty() && order != "native") {
            lexer_.fail("a byte order that we do not know: " + order);
        }
    }

    TypePtr integer() {
        const Block block = this->block();
        auto type = std::make_shared<Type>();
        type->what = Type::What::Integer;
        type->size = static_cast<uint64_t>(number(block, "size", 0));
        type->align = static_cast<uint64_t>(number(block, "align", type->size % 8 == 0 ? 8 : 1));
        check_size(type->size, type->align);
        type->is_signed = truth(block, "signed");
        const std::string encoding = text(block, "encoding");
        if (encoding == "UTF8" || encoding == "ASCII" || encoding == "utf8" || encoding == "UTF-8" || encoding == "ascii") {
            type->text = true;
        } else if (!encoding.empty() && encoding != "none") {
            lexer_.fail("an encoding that we do not know: " + encoding);
        }
        type->clock = block.count("map") != 0;
        byte_order(block, *type);
        return type;
    }

    TypePtr floating() {
        const Block block = this->block();
        auto type = std::make_shared<Type>();
        type->what = Type::What::Float;
        const int64_t exponent = number(block, "exp_dig", 0), mantissa = number(block, "mant_dig", 0);
        if (exponent <= 0 || mantissa <= 0 || exponent > 64 || mantissa > 64) lexer_.fail("a floating_point without digits");
        type->exponent = static_cast<unsigned>(exponent);
        type->mantissa = static_cast<unsigned>(mantissa);
        type->size = type->exponent + type->mantissa;
        type->align = static_cast<uint64_t>(number(block, "align", type->size % 8 == 0 ? 8 : 1));
        check_size(type->size, type->align);
        byte_order(block, *type);
        return type;
    }

    TypePtr string() {
        auto type = std::make_shared<Type>();
        type->what = Type::What::String;
        type->align = 8;
        type->text = true;
        if (is("{")) block();
        return type;
    }

    // A named type: at its definition it is kept, else it is looked up.
    TypePtr named(const char *what, const std::string &name) const {
        const auto found = aliases_.find(std::string(what) + " " + name);
        if (found == aliases_.end()) lexer_.fail(std::string("unknown ") + what + " " + name);
        return found->second;
    }

    TypePtr structure(unsigned depth) {
        std::string name;
        if (lexer_.peek().what == Token::What::Word && !is("align")) name = word();
        if (!is("{")) return named("struct", name);
        auto type = std::make_shared<Type>();
        type->what = Type::What::Struct;
        members(*type, depth);
        for (const Member &member : type->members) type->align = std::max(type->align, member.type->align);
        if (accept("align")) {
            expect("(");
            const Value value = plain_value();
            check_size(64, static_cast<uint64_t>(value.number));
            type->align = std::max(type->align, static_cast<uint64_t>(value.number));
            expect(")");
        }
        if (!name.empty()) aliases_["struct " + name] = type;
        return type;
    }

    TypePtr variant(unsigned depth) {
        std::string name, tag;
        if (lexer_.peek().what == Token::What::Word) name = word();
        if (accept("<")) {
            tag = word();
            while (accept(".")) tag += "." + word();
            expect(">");
        }
        auto type = std::make_shared<Type>();
        if (is("{")) {
            type->what = Type::What::Variant;
            members(*type, depth);
            if (!name.empty()) aliases_["variant " + name] = type;
        } else {
            *type = *named("variant", name);
        }
        type->tag = tag.empty() ? type->tag : tag;
        return type;
    }

    void members(Type &type, unsigned depth) {
        expect("{");
        while (!accept("}")) {
            if (accept(";")) continue;
            if (is("typealias") || is("typedef")) {
                alias();
                continue;
            }
            TypePtr member = specifier(depth + 1);
            if (is(";")) continue; // a type that is only named
            std::string name = word();
            unsigned dimensions = 0;
            uint64_t elements = 1;
            while (accept("[")) {
                if (++dimensions > 4) lexer_.fail("too many dimensions");
                auto list = std::make_shared<Type>();
                list->align = member->align;
                list->element = std::move(member);
                if (lexer_.peek().what == Token::What::Number) {
                    list->what = Type::What::Array;
                    list->count = static_cast<uint64_t>(lexer_.take().number);
                    elements *= std::max<uint64_t>(list->count, 1);
                    // No packet has so many values. libbabeltrace2 allocates them all at the first event.
                    if (list->count > most_elements || elements > most_elements)
                        throw MetadataError("the metadata is damaged: " + name + " has " + std::to_string(list->count) + " elements");
                } else {
                    list->what = Type::What::Sequence;
                    list->tag = word();
                    while (accept(".")) list->tag += "." + word();
                }
                expect("]");
                member = std::move(list);
            }
            expect(";");
            if (type.members.size() >= most_members) lexer_.fail("too many members");
            type.members.push_back({std::move(name), std::move(member)});
        }
    }

    TypePtr enumeration(unsigned depth) {
        std::string name;
        if (lexer_.peek().what == Token::What::Word) name = word();
        if (!is(":") && !is("{")) return named("enum", name);
        auto type = std::make_shared<Type>();
        type->what = Type::What::Enum;
        if (accept(":")) {
            type->element = specifier(depth + 1);
        } else {
            const auto found = aliases_.find("int");
            if (found == aliases_.end()) lexer_.fail("an enum without its integer");
            type->element = found->second;
        }
        if (type->element->what != Type::What::Integer) lexer_.fail("an enum of something that is no integer");
        const Type &integer = *type->element;
        type->size = integer.size;
        type->align = integer.align;
        type->is_signed = integer.is_signed;
        type->big_endian = integer.big_endian;
        type->little_endian = integer.little_endian;
        type->clock = integer.clock;
        expect("{");
        int64_t following = 0;
        while (!accept("}")) {
            Range range;
            const Token label = lexer_.take();
            if (label.what != Token::What::Word && label.what != Token::What::String) lexer_.fail("expected a label");
            range.label = label.text;
            range.first = range.last = following;
            if (accept("=")) {
                range.first = range.last = range_number();
                if (accept("...")) range.last = range_number();
            }
            following = static_cast<int64_t>(static_cast<uint64_t>(range.last) + 1);
            type->ranges.push_back(std::move(range));
            if (!accept(",") && !is("}")) lexer_.fail("expected , or }");
        }
        if (!name.empty()) aliases_["enum " + name] = type;
        return type;
    }

    int64_t range_number() {
        const Value value = plain_value();
        if (!value.is_number) lexer_.fail("expected a number");
        return value.number;
    }

    Lexer lexer_;
    Trace trace_;
    std::map<std::string, TypePtr> aliases_; // "struct NAME" and the like beside plain names
};

} // namespace

Trace parse(std::string_view text) { return Parser(text).run(); }

} // namespace occatrace::columns::tsdl
