// From JSON fragments to the types of tsdl.h (see ctf2.h). Input may be damaged or hostile: depth and sizes are bounded.
#include "ctf2.h"

#include "json.h"

#include <algorithm>

namespace occatrace::columns::ctf2 {

namespace {

using json::Value;
using tsdl::Trace;
using tsdl::Type;
using tsdl::TypePtr;

constexpr char separator = 0x1e; // before each fragment
constexpr unsigned most_depth = 32;
constexpr size_t most_members = 4096; // of one structure

[[noreturn]] void unknown(const std::string &what) { throw tsdl::SyntaxError("CTF 2 metadata: " + what); }

// CTF 2 says by roles what CTF 1.8 says by names, in packet headers, packet contexts and event headers.
struct Role {
    const char *role;
    const char *name;
};
constexpr Role roles[] = {
    {"packet-magic-number", "magic"},
    {"metadata-stream-uuid", "uuid"},
    {"data-stream-class-id", "stream_id"},
    {"data-stream-id", "stream_instance_id"},
    {"packet-total-length", "packet_size"},
    {"packet-content-length", "content_size"},
    {"packet-end-default-clock-timestamp", "timestamp_end"},
    {"packet-sequence-number", "packet_seq_num"},
    {"discarded-event-record-counter-snapshot", "events_discarded"},
    {"event-record-class-id", "id"},
};
constexpr const char *time_role = "default-clock-timestamp";

const Value &member(const Value &object, const char *name, Value::What what) {
    const Value *found = object.find(name);
    if (found == nullptr) unknown(std::string(name) + " is missing");
    if (found->what != what) unknown(std::string(name) + " is of another type");
    return *found;
}

const std::string &text(const Value &object, const char *name) { return member(object, name, Value::What::String).text; }

std::string text(const Value &object, const char *name, const char *otherwise) {
    return object.find(name) == nullptr ? otherwise : text(object, name);
}

int64_t number(const Value &object, const char *name, int64_t otherwise) {
    return object.find(name) == nullptr ? otherwise : member(object, name, Value::What::Integer).number;
}

uint64_t length(const Value &object) {
    const int64_t value = member(object, "length", Value::What::Integer).number;
    if (value < 0) unknown("a negative length");
    return static_cast<uint64_t>(value);
}

uint64_t alignment(const Value &object, const char *name) {
    const int64_t value = number(object, name, 1);
    if (value <= 0 || value > 4096 || (value & (value - 1)) != 0) unknown("an alignment that is no power of two");
    return static_cast<uint64_t>(value);
}

bool has_role(const Value &field, const char *role) {
    const Value *found = field.find("roles");
    if (found == nullptr) return false;
    return std::any_of(found->items.begin(), found->items.end(), [&](const Value &each) { return each.text == role; });
}

// A pair of numbers, as ranges are.
tsdl::Range range(const Value &value, const std::string &label) {
    if (value.items.size() != 2 || value.items[0].what != Value::What::Integer || value.items[1].what != Value::What::Integer) {
        unknown("a range that is no pair of numbers");
    }
    return {label, value.items[0].number, value.items[1].number};
}

// The parts of a packet or an event in which fields stand, as locations of lengths name them.
struct Scope {
    const char *origin;
    bool head; // roles count there
};
constexpr Scope packet_header{"packet-header", true}, packet_context{"packet-context", true},
    event_header{"event-record-header", true}, common_context{"event-record-common-context", false},
    specific_context{"event-record-specific-context", false}, payload{"event-record-payload", false};

class Translator {
  public:
    Trace run(std::string_view text) {
        size_t number = 0;
        for (size_t place = 0; place < text.size();) {
            const size_t start = place + (text[place] == separator ? 1 : 0);
            const size_t end = std::min(text.find(separator, start), text.size());
            const std::string_view fragment = text.substr(start, end - start);
            place = end;
            if (fragment.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
            number++;
            try {
                this->fragment(json::parse(fragment), number);
            } catch (const json::Error &error) {
                throw tsdl::MetadataError("the metadata is damaged: fragment " + std::to_string(number) + ": " + error.what());
            }
        }
        return std::move(trace_);
    }

  private:
    // A structure whose members are being read: where it is, and the names that its members have in the result.
    struct Place {
        std::vector<std::string> path;
        std::vector<std::pair<std::string, std::string>> names;
        const Type *structure = nullptr;
    };

    void fragment(const Value &value, size_t number) {
        const std::string &type = text(value, "type");
        const Value *extensions = value.find("extensions");
        if (extensions != nullptr && !extensions->members.empty()) unknown("it uses extensions");
        if ((number == 1) != (type == "preamble")) throw tsdl::MetadataError("the metadata does not begin with one preamble");
        if (type == "preamble") {
            preamble(value);
        } else if (type == "field-class-alias") {
            aliases_[text(value, "name")] = member(value, "field-class");
        } else if (type == "trace-class") {
            trace_class(value);
        } else if (type == "clock-class") {
            clock(value);
        } else if (type == "data-stream-class") {
            stream(value);
        } else if (type == "event-record-class") {
            event(value);
        } else {
            unknown("a fragment " + type);
        }
    }

    static const Value &member(const Value &object, const char *name) {
        const Value *found = object.find(name);
        if (found == nullptr) unknown(std::string(name) + " is missing");
        return *found;
    }

    void preamble(const Value &value) {
        if (number(value, "version", 0) != 2) unknown("version " + std::to_string(number(value, "version", 0)));
        const Value *uuid = value.find("uuid");
        if (uuid == nullptr) return;
        for (const Value &byte : uuid->items) trace_.uuid += static_cast<char>(byte.number);
        if (uuid->items.size() != 16) unknown("an identifier that has not 16 bytes");
    }

    void trace_class(const Value &value) {
        if (const Value *environment = value.find("environment")) {
            for (const auto &[name, entry] : environment->members) {
                trace_.env[name] = entry.what == Value::What::Integer ? std::to_string(entry.number) : entry.text;
            }
        }
        trace_.packet_header = root(value, "packet-header-field-class", packet_header);
    }

    void clock(const Value &value) {
        tsdl::Clock clock;
        clock.name = text(value, "id", "");
        clock.frequency = static_cast<uint64_t>(number(value, "frequency", 0));
        if (const Value *offset = value.find("offset-from-origin")) {
            clock.offset_seconds = number(*offset, "seconds", 0);
            clock.offset = number(*offset, "cycles", 0);
        }
        trace_.clocks.push_back(clock);
    }

    void stream(const Value &value) {
        tsdl::Stream stream;
        stream.id = static_cast<uint64_t>(number(value, "id", 0));
        stream.packet_context = root(value, "packet-context-field-class", packet_context);
        stream.event_header = root(value, "event-record-header-field-class", event_header);
        stream.event_context = root(value, "event-record-common-context-field-class", common_context);
        trace_.streams.push_back(std::move(stream));
    }

    void event(const Value &value) {
        tsdl::Event event;
        event.id = static_cast<uint64_t>(number(value, "id", 0));
        event.stream = static_cast<uint64_t>(number(value, "data-stream-class-id", 0));
        event.name = text(value, "name", "");
        event.context = root(value, "specific-context-field-class", specific_context);
        event.fields = root(value, "payload-field-class", payload);
        trace_.events.push_back(std::move(event));
    }

    TypePtr root(const Value &value, const char *name, const Scope &scope) {
        const Value *found = value.find(name);
        if (found == nullptr) return nullptr;
        scope_ = &scope;
        return field(*found, Place(), 0);
    }

    TypePtr field(const Value &named, const Place &place, unsigned depth) {
        if (depth > most_depth) unknown("types are nested too deeply");
        const Value *value = &named;
        if (named.what == Value::What::String) {
            const auto found = aliases_.find(named.text);
            if (found == aliases_.end()) unknown("an unknown type " + named.text);
            value = &found->second;
            if (value->what == Value::What::String) return field(*value, place, depth + 1);
        }
        const std::string &type = text(*value, "type");
        auto made = std::make_shared<Type>();
        if (type == "fixed-length-unsigned-integer" || type == "fixed-length-signed-integer") {
            fixed(*value, *made);
            made->is_signed = type == "fixed-length-signed-integer";
            enumeration(*value, *made);
        } else if (type == "fixed-length-floating-point-number") {
            fixed(*value, *made);
            made->what = Type::What::Float;
            made->exponent = made->size == 64 ? 11 : made->size == 32 ? 8
                                                                      : 0;
            made->mantissa = static_cast<unsigned>(made->size) - made->exponent;
        } else if (type == "null-terminated-string") {
            encoding(*value);
            made->what = Type::What::String;
            made->align = 8;
            made->text = true;
        } else if (type == "static-length-string" || type == "dynamic-length-string") {
            encoding(*value);
            list(*value, type == "static-length-string", byte(true), place, *made);
        } else if (type == "static-length-blob" && scope_->head) {
            list(*value, true, byte(false), place, *made);
        } else if (type == "static-length-array" || type == "dynamic-length-array") {
            list(*value, type == "static-length-array", field(member(*value, "element-field-class"), Place(), depth + 1), place, *made);
        } else if (type == "structure") {
            structure(*value, place, depth, *made);
        } else if (type == "variant") {
            variant(*value, place, depth, *made);
        } else {
            unknown("a field of type " + type);
        }
        return made;
    }

    static void encoding(const Value &value) {
        const std::string name = text(value, "encoding", "utf-8");
        if (name != "utf-8") unknown("an encoding that we do not know: " + name);
    }

    void fixed(const Value &value, Type &made) const {
        made.size = length(value);
        if (made.size == 0 || made.size > 64) unknown("a number of " + std::to_string(made.size) + " bits");
        made.align = alignment(value, "alignment");
        const std::string &order = text(value, "byte-order");
        if (order != "little-endian" && order != "big-endian") unknown("a byte order that we do not know: " + order);
        made.big_endian = order == "big-endian";
        made.little_endian = !made.big_endian;
        const std::string bits = text(value, "bit-order", made.big_endian ? "last-to-first" : "first-to-last");
        if (bits != (made.big_endian ? "last-to-first" : "first-to-last")) unknown("a bit order that is not the byte order's");
        made.clock = scope_->head && has_role(value, time_role);
    }

    static void enumeration(const Value &value, Type &made) {
        const Value *mappings = value.find("mappings");
        if (mappings == nullptr) return;
        made.what = Type::What::Enum;
        for (const auto &[label, ranges] : mappings->members) {
            for (const Value &each : ranges.items) made.ranges.push_back(range(each, label));
        }
        // An object's members have no order; TSDL's labels do.
        std::sort(made.ranges.begin(), made.ranges.end(),
                  [](const tsdl::Range &a, const tsdl::Range &b) { return a.first < b.first; });
        auto integer = std::make_shared<Type>(made);
        integer->what = Type::What::Integer;
        integer->ranges.clear();
        made.element = std::move(integer);
    }

    static TypePtr byte(bool is_text) {
        auto type = std::make_shared<Type>();
        type->size = type->align = 8;
        type->text = is_text;
        return type;
    }

    void list(const Value &value, bool is_static, TypePtr element, const Place &place, Type &made) const {
        made.align = std::max(element->align, alignment(value, "minimum-alignment"));
        made.element = std::move(element);
        if (is_static) {
            made.what = Type::What::Array;
            made.count = length(value);
        } else {
            made.what = Type::What::Sequence;
            made.tag = located(value, "length-field-location", place);
        }
    }

    // The name of the member of the same structure that a location leads to, or one that no member has.
    std::string located(const Value &value, const char *name, const Place &place) const {
        const Value &location = this->member(value, name);
        const Value &path = ctf2::member(location, "path", Value::What::Array);
        const Value *origin = location.find("origin");
        const std::vector<std::string> relative;
        const std::vector<std::string> &above = origin == nullptr ? relative : place.path;
        bool same = path.items.size() == above.size() + 1 && (origin == nullptr || origin->text == scope_->origin);
        for (size_t i = 0; same && i < above.size(); i++) same = path.items[i].text == above[i];
        if (same) {
            for (const auto &[own, made] : place.names) {
                if (own == path.items.back().text) return made;
            }
        }
        return ".elsewhere";
    }

    // As TSDL writes a name: with one underscore more where it begins with one.
    static std::string escaped(const std::string &name) { return name[0] == '_' ? "_" + name : name; }

    std::string name_of(const std::string &name, const Value &field) const {
        if (!scope_->head) return escaped(name);
        for (const Role &each : roles) {
            if (has_role(field, each.role)) return each.name;
        }
        if (has_role(field, time_role)) return scope_ == &packet_context ? "timestamp_begin" : "timestamp";
        return "." + name; // a name alone means nothing
    }

    void structure(const Value &value, const Place &outer, unsigned depth, Type &made) {
        made.what = Type::What::Struct;
        made.align = alignment(value, "minimum-alignment");
        Place place = outer;
        place.names.clear();
        place.structure = &made;
        const Value *members = value.find("member-classes");
        if (members == nullptr) return;
        if (members->items.size() > most_members) unknown("too many members");
        for (const Value &each : members->items) {
            const std::string &own = text(each, "name");
            const Value &type = member(each, "field-class");
            Place inner = place;
            inner.path.push_back(own);
            // A structure within this one stands below its name; all else is found from here.
            const Value &resolved = type.what == Value::What::String && aliases_.count(type.text) ? aliases_[type.text] : type;
            const Value *kind = resolved.find("type");
            const bool nested = kind != nullptr && kind->text == "structure";
            TypePtr made_type = field(type, nested ? inner : place, depth + 1);
            made.align = std::max(made.align, made_type->align);
            place.names.emplace_back(own, name_of(own, resolved));
            made.members.push_back({place.names.back().second, std::move(made_type)});
        }
    }

    void variant(const Value &value, const Place &place, unsigned depth, Type &made) {
        made.what = Type::What::Variant;
        made.tag = located(value, "selector-field-location", place);
        const Type *selector = nullptr;
        if (place.structure == nullptr) unknown("a variant outside of a structure");
        for (const tsdl::Member &each : place.structure->members) {
            if (each.name == made.tag) selector = each.type.get();
        }
        for (const Value &option : ctf2::member(value, "options", Value::What::Array).items) {
            // Options are chosen by number; TSDL's by the selector's label for it.
            std::string label;
            const Value &ranges = ctf2::member(option, "selector-field-ranges", Value::What::Array);
            if (selector != nullptr && ranges.items.size() == 1) {
                const tsdl::Range wanted = range(ranges.items[0], "");
                for (const tsdl::Range &each : selector->ranges) {
                    if (each.first == wanted.first && each.last == wanted.last) label = each.label;
                }
            }
            made.members.push_back({label, field(member(option, "field-class"), Place(), depth + 1)});
        }
    }

    Trace trace_;
    std::map<std::string, Value> aliases_;
    const Scope *scope_ = &payload;
};

} // namespace

bool is_sequence(std::string_view text) { return !text.empty() && text[0] == separator; }

Trace parse(std::string_view text) { return Translator().run(text); }

} // namespace occatrace::columns::ctf2
