// From metadata to steps (see lttng_layout.h).
#include "lttng_layout.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace occatrace::columns::lttng {

namespace {

using tsdl::Type;
using tsdl::TypePtr;
using What = Type::What;

constexpr uint64_t most_event_ids = 1u << 20;
constexpr size_t most_fields = 4096; // columns of one event
constexpr unsigned most_visits = 20'000; // types looked at for one event: named structures may nest without fields
constexpr uint64_t most_array = 1u << 24;

bool is_number(const Type &type) { return type.what == What::Integer || type.what == What::Enum || type.what == What::Float; }

// Bytes of a number that we can copy, or Declined.
uint8_t number_width(const Type &type, const std::string &name) {
    if (type.align % 8 != 0 || (type.size != 8 && type.size != 16 && type.size != 32 && type.size != 64)) {
        throw Declined(name + " is not of whole bytes");
    }
    if (type.clock) throw Declined(name + " is a time stamp");
    return static_cast<uint8_t>(type.size / 8);
}

Kind number_kind(const Type &type, const std::string &name) {
    if (type.what == What::Float) {
        if (type.exponent == 8 && type.mantissa == 24) return Kind::F32;
        if (type.exponent == 11 && type.mantissa == 53) return Kind::F64;
        throw Declined(name + " is a floating-point number of another kind");
    }
    return integer_kind(type.size, type.is_signed);
}

// `raw`: characters without a sign are bytes, of which a NUL ends nothing.
bool is_text(const Type &list, bool raw) {
    const Type &element = *list.element;
    return element.what == What::Integer && element.text && element.size == 8 && element.align == 8 && (!raw || element.is_signed);
}

// The steps of one event: its contexts and its payload.
class EventCompiler {
  public:
    EventCompiler(const std::string &event, bool raw) : schema_(event), event_(event), raw_(raw) {}

    void structure(const TypePtr &type, const std::string &prefix) {
        if (!type) return;
        if (type->what != What::Struct) throw Declined(event_ + ": something else than a structure");
        visit();
        align(type->align);
        // Names of integers so far, for the sequences that they may be lengths of.
        std::map<std::string, uint8_t> lengths;
        for (size_t i = 0; i < type->members.size(); i++) {
            const tsdl::Member &member = type->members[i];
            const std::string name = join_name(prefix, visible_name(member.name.c_str()));
            const Type &inner = *member.type;
            visit();
            switch (inner.what) {
            case What::Integer:
            case What::Enum:
            case What::Float: {
                const bool shown = i + 1 >= type->members.size() ||
                                   !is_length_of(visible_name(member.name.c_str()),
                                                 visible_name(type->members[i + 1].name.c_str()));
                const bool length = is_tag(*type, i);
                number(inner, name, shown, length ? &lengths[member.name] : nullptr);
                break;
            }
            case What::String:
                align(8);
                end_run();
                step(Step::What::String).column = column(name, Kind::String, false);
                break;
            case What::Struct:
                structure(member.type, name);
                break;
            case What::Array:
            case What::Sequence:
                list(inner, name, lengths);
                break;
            case What::Variant:
                throw Declined(event_ + ": " + name + " is a variant");
            }
        }
    }

    EventLayout take(bool wanted) {
        EventLayout layout;
        layout.known = true;
        layout.steps = std::move(steps_);
        if (wanted) {
            layout.schema = std::make_shared<const Schema>(schema_.take());
        } else {
            // Without columns: what only fills one goes.
            layout.steps.erase(std::remove_if(layout.steps.begin(), layout.steps.end(),
                                              [](const Step &step) {
                                                  return step.what >= Step::What::Copy1 && step.what <= Step::What::Swap8;
                                              }),
                               layout.steps.end());
        }
        return layout;
    }

  private:
    void visit() {
        if (++visits_ > most_visits) throw Declined(event_ + " has too many fields");
    }

    // Is this member the length of a later one?
    static bool is_tag(const Type &type, size_t member) {
        for (size_t i = member + 1; i < type.members.size(); i++) {
            const Type &later = *type.members[i].type;
            if (later.what == What::Sequence && later.tag == type.members[member].name) return true;
        }
        return false;
    }

    Step &step(Step::What what) {
        steps_.emplace_back();
        steps_.back().what = what;
        return steps_.back();
    }

    uint32_t column(const std::string &name, Kind kind, bool sequence) {
        if (schema_.size() >= most_fields) throw Declined(event_ + " has too many fields");
        return static_cast<uint32_t>(schema_.add(name, kind, sequence));
    }

    void align(uint64_t bits) {
        if (bits <= 8) return;
        end_run();
        step(Step::What::Align).count = bits / 8;
    }

    void end_run() { run_ = SIZE_MAX; }

    // Room for `width` more bytes in the current run: their place in it.
    uint32_t in_run(uint64_t width) {
        if (run_ == SIZE_MAX) {
            run_ = steps_.size();
            step(Step::What::Run);
        }
        const uint64_t offset = steps_[run_].count;
        steps_[run_].count += width;
        return static_cast<uint32_t>(offset);
    }

    void number(const Type &type, const std::string &name, bool shown, uint8_t *slot) {
        const uint8_t width = number_width(type, event_ + ": " + name);
        const Kind kind = number_kind(type, event_ + ": " + name);
        align(type.align);
        const uint32_t offset = in_run(width);
        if (slot != nullptr) {
            if (type.what != What::Integer || type.is_signed) throw Declined(event_ + ": " + name + " is a signed length");
            if (slots_ >= most_slots) throw Declined(event_ + " has too many sequences");
            *slot = static_cast<uint8_t>(slots_++);
            Step &length = step(Step::What::Length);
            length.slot = *slot;
            length.width = width;
            length.swap = type.big_endian;
            length.offset = offset;
        }
        if (!shown) return;
        using S = Step::What;
        const bool swap = type.big_endian;
        Step &copy = step(width == 1   ? S::Copy1
                          : width == 2 ? (swap ? S::Swap2 : S::Copy2)
                          : width == 4 ? (swap ? S::Swap4 : S::Copy4)
                                       : (swap ? S::Swap8 : S::Copy8));
        copy.offset = offset;
        copy.column = column(name, kind, false);
    }

    void list(const Type &type, const std::string &name, const std::map<std::string, uint8_t> &lengths) {
        const Type &element = *type.element;
        if (!is_number(element)) throw Declined(event_ + ": " + name + " is a list of something else than numbers");
        const uint8_t width = number_width(element, event_ + ": " + name);
        const Kind kind = number_kind(element, event_ + ": " + name);
        align(type.align);
        // Elements that are not packed
        if (element.align > element.size) throw Declined(event_ + ": " + name + " has gaps between its values");
        end_run();
        const bool text = is_text(type, raw_);
        const bool sequence = type.what == What::Sequence;
        uint8_t slot = 0;
        if (sequence) {
            const auto found = lengths.find(type.tag);
            if (found == lengths.end()) throw Declined(event_ + ": the length of " + name + " is elsewhere");
            slot = found->second;
        } else if (type.count > most_array) {
            throw Declined(event_ + ": " + name + " is too long");
        }
        using S = Step::What;
        Step &values = step(text ? (sequence ? S::TextSequence : S::TextArray) : (sequence ? S::Sequence : S::Array));
        values.width = width;
        values.swap = element.big_endian && width > 1;
        values.slot = slot;
        values.count = type.count;
        values.column = text ? column(name, Kind::String, false) : column(name, kind, true);
    }

    SchemaBuilder schema_;
    const std::string event_;
    const bool raw_;
    std::vector<Step> steps_;
    size_t run_ = SIZE_MAX;
    size_t slots_ = 0;
    unsigned visits_ = 0;
};

// Integers at fixed places: packet headers and contexts.
class Head {
  public:
    explicit Head(uint64_t start) : end_(start) {}

    void structure(const TypePtr &type, const char *what) {
        if (!type) return;
        if (type->what != What::Struct) throw Declined(std::string(what) + " is no structure");
        align(type->align);
        for (const tsdl::Member &member : type->members) {
            const Type &inner = *member.type;
            if (inner.what == What::Integer || inner.what == What::Enum) {
                if (inner.size % 8 != 0 || inner.align % 8 != 0 || (inner.size & (inner.size - 1)) != 0) {
                    throw Declined(member.name + " of " + what + " is not of whole bytes");
                }
                align(inner.align);
                places_[visible_name(member.name.c_str())] = {end_, static_cast<uint8_t>(inner.size / 8), inner.big_endian};
                end_ += inner.size / 8;
            } else if (inner.what == What::Array && inner.element->what == What::Integer && inner.element->size == 8 &&
                       inner.element->align == 8 && inner.count <= 4096) {
                arrays_[visible_name(member.name.c_str())] = {end_, inner.count};
                end_ += inner.count;
            } else {
                throw Declined(member.name + " of " + what + " has no fixed place");
            }
        }
    }

    uint64_t end() const { return end_; }
    Place place(const char *name) const {
        const auto found = places_.find(name);
        return found == places_.end() ? Place() : found->second;
    }
    bool array(const char *name, uint64_t count, uint64_t &offset) const {
        const auto found = arrays_.find(name);
        if (found == arrays_.end() || found->second.second != count) return false;
        offset = found->second.first;
        return true;
    }

  private:
    void align(uint64_t bits) {
        const uint64_t bytes = std::max<uint64_t>(1, bits / 8);
        end_ = (end_ + bytes - 1) / bytes * bytes;
    }

    uint64_t end_;
    std::map<std::string, Place> places_;
    std::map<std::string, std::pair<uint64_t, uint64_t>> arrays_;
};

bool is_integer(const TypePtr &type, uint64_t size, bool clock) {
    return type->what == What::Integer && type->size == size && !type->is_signed && !type->big_endian && type->clock == clock;
}

bool is_of_whole_bytes(const tsdl::Member &member) { return member.type->align % 8 == 0; }

// struct { enum : uintN_t { compact = 0 … 2^N - 2, extended = 2^N - 1 } id;
//          variant <id> { struct { uintM_t timestamp; } compact; struct { uint32_t id; uint64_t timestamp; } extended; } v; }
bool is_event_header(const Type &type, uint64_t id_bits, uint64_t time_bits, StreamLayout &layout) {
    if (type.what != What::Struct || type.members.size() != 2) return false;
    const Type &id = *type.members[0].type;
    const Type &variant = *type.members[1].type;
    const int64_t last = (int64_t(1) << id_bits) - 1;
    const auto has = [&](const char *label, int64_t from, int64_t to) { // their order differs between versions of LTTng
        return std::any_of(id.ranges.begin(), id.ranges.end(), [&](const tsdl::Range &each) {
            return each.label == label && each.first == from && each.last == to;
        });
    };
    const bool id_matches = type.members[0].name == "id" && id.what == What::Enum && id.size == id_bits &&
                            !id.is_signed && !id.big_endian && !id.clock && id.ranges.size() == 2 &&
                            has("compact", 0, last - 1) && has("extended", last, last);
    if (!id_matches || variant.what != What::Variant || variant.tag != "id" || variant.members.size() != 2) return false;
    const tsdl::Member &compact = variant.members[0], &extended = variant.members[1];
    if (compact.name != "compact" || compact.type->what != What::Struct || compact.type->members.size() != 1 ||
        extended.name != "extended" || extended.type->what != What::Struct || extended.type->members.size() != 2) {
        return false;
    }
    const tsdl::Member &low = compact.type->members[0], &number = extended.type->members[0], &time = extended.type->members[1];
    // Low bits that do not start at a byte follow the number's; all else starts at whole bytes.
    const bool placed = id_bits % 8 == 0 ? is_of_whole_bytes(compact) : compact.type->align == 1;
    if (!placed || !is_of_whole_bytes(extended) || !is_of_whole_bytes(number) || !is_of_whole_bytes(time)) return false;
    layout.short_align = std::max<uint64_t>(1, compact.type->align / 8);
    layout.long_align = extended.type->align / 8;
    layout.long_time_align = time.type->align / 8;
    return low.name == "timestamp" && is_integer(low.type, time_bits, true) && number.name == "id" &&
           is_integer(number.type, 32, false) && time.name == "timestamp" && is_integer(time.type, 64, true);
}

StreamLayout compile_stream(const tsdl::Stream &stream, const Layout &layout) {
    StreamLayout result;
    result.id = stream.id;
    if (!stream.packet_context || !stream.event_header) throw Declined("a stream without packet context or event header");
    Head head(layout.header_size);
    head.structure(stream.packet_context, "the packet context");
    result.head_size = head.end();
    result.timestamp_begin = head.place("timestamp_begin");
    result.content_size = head.place("content_size");
    result.packet_size = head.place("packet_size");
    if (result.timestamp_begin.width != 8 || result.content_size.width == 0 || result.packet_size.width == 0) {
        throw Declined("packets without sizes or time");
    }
    const Type &header = *stream.event_header;
    if (header.align % 8 != 0) throw Declined("event headers that start within a byte");
    if (is_event_header(header, 5, 27, result)) {
        result.header = StreamLayout::Header::Compact;
    } else if (!is_event_header(header, 16, 32, result)) {
        result.header = StreamLayout::Header::Plain;
        Head plain(0);
        plain.structure(stream.event_header, "the event header");
        result.header_id = plain.place("id");
        result.header_time = plain.place("timestamp");
        result.header_size = plain.end();
        if (result.header_id.width == 0 || result.header_time.width != 8) {
            throw Declined("an event header that is neither LTTng's compact nor its large one, nor number and time");
        }
    }
    result.header_align = header.align / 8;
    return result;
}

} // namespace

uint64_t Place::read(const uint8_t *base) const {
    uint64_t value = 0;
    if (swap) {
        for (unsigned i = 0; i < width; i++) value = value << 8 | base[offset + i];
    } else {
        memcpy(&value, base + offset, width);
    }
    return value;
}

Layout compile(const tsdl::Trace &trace, const EventFilter &filter, bool raw) {
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    throw Declined("this machine is big-endian");
#endif
    if (trace.big_endian) throw Declined("a big-endian trace");
    if (trace.clocks.size() != 1) throw Declined("not exactly one clock");
    Layout layout;
    Head head(0);
    head.structure(trace.packet_header, "the packet header");
    layout.header_size = head.end();
    layout.magic = head.place("magic");
    if (layout.magic.width != 4 || layout.magic.swap) throw Declined("packets without a magic number");
    layout.stream_id = head.place("stream_id");
    layout.uuid = trace.uuid;
    layout.has_uuid = trace.uuid.size() == 16 && head.array("uuid", 16, layout.uuid_offset);
    std::map<uint64_t, const tsdl::Stream *> streams;
    for (const tsdl::Stream &stream : trace.streams) {
        if (!streams.emplace(stream.id, &stream).second) throw Declined("two streams of one number");
        layout.streams.push_back(compile_stream(stream, layout));
        layout.most_head = std::max(layout.most_head, layout.streams.back().head_size);
    }
    if (layout.streams.empty()) throw Declined("no stream is declared");
    if (layout.stream_id.width == 0 && layout.streams.size() > 1) throw Declined("packets that do not say their stream");
    for (const tsdl::Event &event : trace.events) {
        const auto stream = streams.find(event.stream);
        if (stream == streams.end()) throw Declined(event.name + " is of no stream");
        if (event.id >= most_event_ids) throw Declined("event numbers that are very large");
        StreamLayout &place = *std::find_if(layout.streams.begin(), layout.streams.end(),
                                            [&](const StreamLayout &each) { return each.id == event.stream; });
        if (place.events.size() <= event.id) place.events.resize(event.id + 1);
        EventLayout &slot = place.events[event.id];
        if (slot.known) throw Declined("two events of one number");
        EventCompiler compiler(event.name, raw);
        compiler.structure(stream->second->event_context, "ctx");
        compiler.structure(event.context, "ctx");
        compiler.structure(event.fields, "");
        slot = compiler.take(filter.accepts(event.name));
    }
    return layout;
}

} // namespace occatrace::columns::lttng
