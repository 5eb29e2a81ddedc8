// filter.occatrace.calls: the calls and the device work in a trace of occatrace as plain messages, for any sink or script of
// babeltrace2. Two kinds of events come out, in the order in which they ended, with ordinary fields:
//   call  api, name, process, thread, seq, start, duration, result, arguments
//   work  kind, name, process, thread (that launched it), seq (of the launching call), start, duration, bytes, status
// Times are in the cycles (ns) of the trace's clock. Everything else in the trace is taken in, for its names, and left out.
//   babeltrace2 --plugin-path=DIR TRACE --component=filter.occatrace.calls
#include "calls.h"
#include "numbers.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

const char *const kCallFields[] = {"api", "name", "process", "thread", "seq",
                                   "start", "duration", "result", "arguments"};
const char *const kWorkFields[] = {"kind", "name", "process", "thread", "seq", "start", "duration", "bytes", "status"};
bool is_text(const char *field) {
    return strcmp(field, "api") == 0 || strcmp(field, "name") == 0 || strcmp(field, "result") == 0 ||
           strcmp(field, "arguments") == 0 || strcmp(field, "kind") == 0;
}

// ---- reading ----

uint64_t number(const bt_field *field) {
    const bt_field_class_type type = bt_field_get_class_type(field);
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)) return bt_field_integer_unsigned_get_value(field);
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
        return static_cast<uint64_t>(bt_field_integer_signed_get_value(field));
    return 0;
}

// What names the values of a field that the trace has as a plain number; traces of before name them themselves.
const occatrace::NamedField *names_of(const std::string &api, const std::string &event, const std::string &field,
                                      const bt_field_class *type) {
    const bt_field_class_type kind = bt_field_class_get_type(type);
    if (kind != BT_FIELD_CLASS_TYPE_SIGNED_INTEGER && kind != BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER) return nullptr;
    if (bt_field_class_integer_get_field_value_range(type) != 32) return nullptr;
    for (const occatrace::NamedField &named : occatrace::kNamedFields)
        if (api == named.api && field == named.field && strstr(named.except, (' ' + event + ' ').c_str()) == nullptr)
            return &named;
    return nullptr;
}

void append(std::string &out, const bt_field *field, const occatrace::NamedField *names = nullptr) {
    char text[40];
    if (names != nullptr) {
        const auto value = static_cast<int64_t>(number(field));
        for (size_t i = 0; i < names->count; i++)
            if (names->names[i].value == value) {
                out += names->names[i].name;
                return;
            }
    }
    const bt_field_class_type type = bt_field_get_class_type(field);
    bt_field_class_enumeration_mapping_label_array labels = nullptr;
    uint64_t count = 0;
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)) {
        if (type == BT_FIELD_CLASS_TYPE_UNSIGNED_ENUMERATION &&
            bt_field_enumeration_unsigned_get_mapping_labels(field, &labels, &count) ==
                BT_FIELD_ENUMERATION_GET_MAPPING_LABELS_STATUS_OK &&
            count > 0) {
            out += labels[0];
            return;
        }
        const bool hex = bt_field_class_integer_get_preferred_display_base(bt_field_borrow_class_const(field)) ==
                         BT_FIELD_CLASS_INTEGER_PREFERRED_DISPLAY_BASE_HEXADECIMAL;
        snprintf(text, sizeof text, hex ? "0x%" PRIx64 : "%" PRIu64, bt_field_integer_unsigned_get_value(field));
        out += text;
    } else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER)) {
        if (type == BT_FIELD_CLASS_TYPE_SIGNED_ENUMERATION &&
            bt_field_enumeration_signed_get_mapping_labels(field, &labels, &count) ==
                BT_FIELD_ENUMERATION_GET_MAPPING_LABELS_STATUS_OK &&
            count > 0) {
            out += labels[0];
            return;
        }
        snprintf(text, sizeof text, "%" PRIi64, bt_field_integer_signed_get_value(field));
        out += text;
    } else if (type == BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL) {
        snprintf(text, sizeof text, "%.17g", bt_field_real_double_precision_get_value(field));
        out += text;
    } else if (type == BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL) {
        snprintf(text, sizeof text, "%.9g", static_cast<double>(bt_field_real_single_precision_get_value(field)));
        out += text;
    } else if (type == BT_FIELD_CLASS_TYPE_STRING) {
        out += '"';
        // By its length: babeltrace2 2.0 leaves the bytes of an earlier one in an empty string.
        out.append(bt_field_string_get_value(field), bt_field_string_get_length(field));
        out += '"';
    } else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_ARRAY)) {
        out += '[';
        for (uint64_t i = 0; i < bt_field_array_get_length(field); i++) {
            if (i > 0) out += ", ";
            append(out, bt_field_array_borrow_element_field_by_index_const(field, i));
        }
        out += ']';
    }
}

// What is known of an event class of the input.
struct Kind {
    enum {
        kOther,
        kCall,
        kWork,
        kThread,
        kName,
    } what = kOther;
    std::string api, name;
    std::unordered_map<std::string, uint64_t> at;            // members by name
    struct Argument {
        std::string name;
        uint64_t at;
        const occatrace::NamedField *names;
    };
    std::vector<Argument> arguments;  // of a call: all but tid, seq, start, ret
    const occatrace::NamedField *results = nullptr;
};

Kind kind_of(const bt_event_class *type) {
    Kind kind;
    const char *full = bt_event_class_get_name(type);
    const bt_field_class *payload = bt_event_class_borrow_payload_field_class_const(type);
    if (full == nullptr || payload == nullptr) return kind;
    const std::string name = full;
    const size_t colon = name.find(':');
    kind.name = colon == std::string::npos ? name : name.substr(colon + 1);
    kind.api = colon == std::string::npos ? "" : name.substr(0, colon);
    if (kind.api.rfind("occatrace_", 0) == 0) kind.api = kind.api.substr(strlen("occatrace_"));
    for (uint64_t i = 0; i < bt_field_class_structure_get_member_count(payload); i++) {
        const auto *member = bt_field_class_structure_borrow_member_by_index_const(payload, i);
        const std::string field = bt_field_class_structure_member_get_name(member);
        // The length of a sequence is a member of its own.
        if (field.size() > 8 && field[0] == '_' && field.compare(field.size() - 7, 7, "_length") == 0) continue;
        kind.at[field] = i;
        const auto *names =
            names_of(kind.api, kind.name, field, bt_field_class_structure_member_borrow_field_class_const(member));
        if (field == "ret") kind.results = names;
        else if (field != "tid" && field != "seq" && field != "start") kind.arguments.push_back({field, i, names});
    }
    const auto has = [&kind](const char *field) { return kind.at.count(field) != 0; };
    if (kind.api == "device" && kind.name == "activity" && has("start") && has("end") && has("corr_tid")) {
        kind.what = Kind::kWork;
    } else if (kind.api == "process") {
        if (kind.name == "thread" && has("pid") && has("tid")) kind.what = Kind::kThread;
        if (kind.name == "name" && has("pid") && has("id") && has("text")) kind.what = Kind::kName;
    } else if (kind.api != "device" && kind.api != "annotation" && has("tid") && has("seq") && has("start") && !has("end")) {
        kind.what = Kind::kCall;
    }
    return kind;
}

// ---- writing ----

// What comes out for one stream class of the input.
struct Classes {
    const bt_event_class *call = nullptr, *work = nullptr;
    const bt_stream_class *stream = nullptr;
    const bt_trace *trace = nullptr;
};

class Calls {
  public:
    Calls(bt_self_message_iterator *self, bt_message_iterator *upstream) : self_(self), upstream_(upstream) {}
    Calls(const Calls &) = delete;
    Calls &operator=(const Calls &) = delete;
    ~Calls() {
        for (auto &entry : streams_) bt_stream_put_ref(entry.second.stream);
        for (auto &entry : classes_) {
            bt_event_class_put_ref(entry.second.call);
            bt_event_class_put_ref(entry.second.work);
            bt_stream_class_put_ref(entry.second.stream);
            bt_trace_put_ref(entry.second.trace);
        }
        bt_message_iterator_put_ref(upstream_);
    }

    bt_message_iterator_class_next_method_status next(bt_message_array_const out, uint64_t room, uint64_t *filled) {
        *filled = 0;
        while (*filled == 0) {
            if (at_ == count_) {
                const auto status = bt_message_iterator_next(upstream_, &messages_, &count_);
                at_ = 0;
                if (status != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK) {
                    count_ = 0;
                    // The same values by definition.
                    return static_cast<bt_message_iterator_class_next_method_status>(status);
                }
            }
            while (at_ < count_ && *filled < room) {
                const bt_message *message = messages_[at_++];
                const bt_message *made = nullptr;
                const bool well = convert(message, &made);
                bt_message_put_ref(message);
                if (made != nullptr) out[(*filled)++] = made;
                if (!well) {
                    while (at_ < count_) bt_message_put_ref(messages_[at_++]);
                    for (uint64_t i = 0; i < *filled; i++) bt_message_put_ref(out[i]);
                    return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_MEMORY_ERROR;
                }
            }
        }
        return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
    }

  private:
    struct Out {
        bt_stream *stream = nullptr;
        Classes *classes = nullptr;
    };

    bool convert(const bt_message *message, const bt_message **made) {
        switch (bt_message_get_type(message)) {
        case BT_MESSAGE_TYPE_STREAM_BEGINNING: {
            const bt_stream *stream = bt_message_stream_beginning_borrow_stream_const(message);
            Out *out = begin(stream);
            if (out == nullptr) return false;
            *made = bt_message_stream_beginning_create(self_, out->stream);
            return *made != nullptr;
        }
        case BT_MESSAGE_TYPE_STREAM_END: {
            const auto found = streams_.find(bt_message_stream_end_borrow_stream_const(message));
            if (found == streams_.end()) return true;
            *made = bt_message_stream_end_create(self_, found->second.stream);
            bt_stream_put_ref(found->second.stream);
            streams_.erase(found);
            return *made != nullptr;
        }
        case BT_MESSAGE_TYPE_EVENT:
            return convert_event(message, made);
        default:
            return true; // packets, and LTTng's count of discarded events, which cannot be trusted
        }
    }

    bool convert_event(const bt_message *message, const bt_message **made) {
        const bt_event *event = bt_message_event_borrow_event_const(message);
        const auto found = streams_.find(bt_event_borrow_stream_const(event));
        if (found == streams_.end() || found->second.classes->call == nullptr) return true;
        const bt_event_class *type = bt_event_borrow_class_const(event);
        auto known = kinds_.find(type);
        if (known == kinds_.end()) known = kinds_.emplace(type, kind_of(type)).first;
        const Kind &kind = known->second;
        const bt_field *payload = bt_event_borrow_payload_field_const(event);
        const auto field = [&](const char *name) {
            const auto at = kind.at.find(name);
            return at == kind.at.end() ? nullptr
                                       : bt_field_structure_borrow_member_field_by_index_const(payload, at->second);
        };
        const auto value = [&](const char *name) {
            const bt_field *f = field(name);
            return f == nullptr ? 0 : number(f);
        };
        const uint64_t now = bt_clock_snapshot_get_value(bt_message_event_borrow_default_clock_snapshot_const(message));
        switch (kind.what) {
        case Kind::kThread:
            process_of_[value("tid")] = value("pid");
            return true;
        case Kind::kName: {
            // Long texts come in pieces, in order.
            std::string &text = names_[value("pid") << 32 | value("id")];
            if (value("offset") == 0) text.clear();
            text.append(bt_field_string_get_value(field("text")), bt_field_string_get_length(field("text")));
            return true;
        }
        case Kind::kCall: {
            const uint64_t tid = value("tid"), start = value("start"), process = process_of_[tid];
            result_.clear();
            arguments_.clear();
            if (const bt_field *ret = field("ret")) append(result_, ret, kind.results);
            for (const auto &[name, at, names] : kind.arguments) {
                const bt_field *f = bt_field_structure_borrow_member_field_by_index_const(payload, at);
                if (name == "error" && bt_field_class_type_is(bt_field_get_class_type(f), BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)) {
                    if (const uint64_t id = number(f)) result_ = names_[process << 32 | id];
                    continue;
                }
                if (!arguments_.empty()) arguments_ += ", ";
                arguments_ += name;
                arguments_ += '=';
                append(arguments_, f, names);
            }
            bt_field *out = nullptr;
            bt_message *m = make(found->second, found->second.classes->call, now, &out);
            if (m == nullptr) return false;
            *made = m;
            return put(out, 0, kind.api) && put(out, 1, kind.name) && put(out, 2, process) && put(out, 3, tid) &&
                   put(out, 4, value("seq")) && put(out, 5, start) && put(out, 6, now > start ? now - start : 0) &&
                   put(out, 7, result_) && put(out, 8, arguments_);
        }
        case Kind::kWork: {
            const uint64_t start = value("start"), end = value("end"), process = process_of_[value("tid")];
            result_.clear();
            append(result_, field("kind"));
            const uint64_t id = value("name");
            bt_field *out = nullptr;
            bt_message *m = make(found->second, found->second.classes->work, now, &out);
            if (m == nullptr) return false;
            *made = m;
            bt_field_integer_signed_set_value(bt_field_structure_borrow_member_field_by_index(out, 8),
                                              static_cast<int64_t>(value("status")));
            return put(out, 0, result_) && put(out, 1, id ? names_[process << 32 | id] : result_) && put(out, 2, process) &&
                   put(out, 3, value("corr_tid")) && put(out, 4, value("corr_seq")) && put(out, 5, start) &&
                   put(out, 6, end > start ? end - start : 0) && put(out, 7, value("bytes"));
        }
        default:
            return true;
        }
    }

    bt_message *make(const Out &out, const bt_event_class *type, uint64_t now, bt_field **payload) {
        bt_message *message = bt_message_event_create_with_default_clock_snapshot(self_, type, out.stream, now);
        if (message != nullptr) *payload = bt_event_borrow_payload_field(bt_message_event_borrow_event(message));
        return message;
    }
    static bool put(bt_field *payload, uint64_t at, uint64_t value) {
        bt_field_integer_unsigned_set_value(bt_field_structure_borrow_member_field_by_index(payload, at), value);
        return true;
    }
    static bool put(bt_field *payload, uint64_t at, const std::string &text) {
        return bt_field_string_set_value(bt_field_structure_borrow_member_field_by_index(payload, at), text.c_str()) ==
               BT_FIELD_STRING_SET_VALUE_STATUS_OK;
    }

    Out *begin(const bt_stream *stream) {
        Classes *classes = classes_of(stream);
        if (classes == nullptr) return nullptr;
        Out out;
        out.classes = classes;
        // Const only because we hold references: they are ours.
        out.stream = bt_stream_create_with_id(const_cast<bt_stream_class *>(classes->stream),
                                              const_cast<bt_trace *>(classes->trace), next_stream_++);
        if (out.stream == nullptr) return nullptr;
        return &(streams_[stream] = out);
    }

    Classes *classes_of(const bt_stream *stream) {
        const bt_stream_class *input = bt_stream_borrow_class_const(stream);
        const auto found = classes_.find(input);
        if (found != classes_.end()) return &found->second;
        bt_self_component *component = bt_self_message_iterator_borrow_component(self_);
        bt_trace_class *trace_class = bt_trace_class_create(component);
        if (trace_class == nullptr) return nullptr;
        bt_stream_class *stream_class = bt_stream_class_create(trace_class);
        bt_trace *trace = bt_trace_create(trace_class);
        Classes classes;
        classes.stream = stream_class;
        classes.trace = trace;
        bool well = stream_class != nullptr && trace != nullptr;
        if (well) bt_stream_class_set_assigns_automatic_stream_id(stream_class, BT_FALSE);
        const bt_clock_class *clock = bt_stream_class_borrow_default_clock_class_const(input);
        // Without a clock there is no duration: such a stream stays empty.
        if (well && clock != nullptr) {
            well = copy_clock(component, stream_class, clock) && (classes.call = event_class(trace_class, stream_class, "call", kCallFields)) &&
                   (classes.work = event_class(trace_class, stream_class, "work", kWorkFields));
        }
        bt_trace_class_put_ref(trace_class);
        if (!well) {
            bt_event_class_put_ref(classes.call);
            bt_event_class_put_ref(classes.work);
            bt_stream_class_put_ref(stream_class);
            bt_trace_put_ref(trace);
            return nullptr;
        }
        return &(classes_[input] = classes);
    }

    static bool copy_clock(bt_self_component *component, bt_stream_class *to, const bt_clock_class *from) {
        bt_clock_class *clock = bt_clock_class_create(component);
        if (clock == nullptr) return false;
        int64_t seconds = 0;
        uint64_t cycles = 0;
        bt_clock_class_get_offset(from, &seconds, &cycles);
        bt_clock_class_set_frequency(clock, bt_clock_class_get_frequency(from));
        bt_clock_class_set_offset(clock, seconds, cycles);
        bt_clock_class_set_precision(clock, bt_clock_class_get_precision(from));
        bt_clock_class_set_origin_is_unix_epoch(clock, bt_clock_class_origin_is_unix_epoch(from));
        if (const char *name = bt_clock_class_get_name(from)) bt_clock_class_set_name(clock, name);
        if (bt_uuid uuid = bt_clock_class_get_uuid(from)) bt_clock_class_set_uuid(clock, uuid);
        const bool well =
            bt_stream_class_set_default_clock_class(to, clock) == BT_STREAM_CLASS_SET_DEFAULT_CLOCK_CLASS_STATUS_OK;
        bt_clock_class_put_ref(clock);
        return well;
    }

    template <size_t N>
    static const bt_event_class *event_class(bt_trace_class *trace, bt_stream_class *stream, const char *name,
                                             const char *const (&fields)[N]) {
        bt_event_class *type = bt_event_class_create(stream);
        bt_field_class *payload = type == nullptr ? nullptr : bt_field_class_structure_create(trace);
        bool well = payload != nullptr && bt_event_class_set_name(type, name) == BT_EVENT_CLASS_SET_NAME_STATUS_OK;
        for (size_t i = 0; well && i < N; i++) {
            bt_field_class *field = is_text(fields[i])                 ? bt_field_class_string_create(trace)
                                    : strcmp(fields[i], "status") == 0 ? bt_field_class_integer_signed_create(trace)
                                                                       : bt_field_class_integer_unsigned_create(trace);
            well = field != nullptr && bt_field_class_structure_append_member(payload, fields[i], field) ==
                                           BT_FIELD_CLASS_STRUCTURE_APPEND_MEMBER_STATUS_OK;
            bt_field_class_put_ref(field);
        }
        well = well && bt_event_class_set_payload_field_class(type, payload) == BT_EVENT_CLASS_SET_FIELD_CLASS_STATUS_OK;
        bt_field_class_put_ref(payload);
        if (well) return type;
        bt_event_class_put_ref(type);
        return nullptr;
    }

    bt_self_message_iterator *self_;
    bt_message_iterator *upstream_;
    bt_message_array_const messages_ = nullptr;
    uint64_t count_ = 0, at_ = 0, next_stream_ = 0;
    std::unordered_map<const bt_stream *, Out> streams_;
    std::unordered_map<const bt_stream_class *, Classes> classes_;
    std::unordered_map<const bt_event_class *, Kind> kinds_;
    std::unordered_map<uint64_t, uint64_t> process_of_; // by thread
    std::unordered_map<uint64_t, std::string> names_;   // by process and number
    std::string result_, arguments_;
};

} // namespace

bt_component_class_initialize_method_status calls_initialize(bt_self_component_filter *self,
                                                             bt_self_component_filter_configuration *, const bt_value *,
                                                             void *) {
    if (bt_self_component_filter_add_input_port(self, "in", nullptr, nullptr) != BT_SELF_COMPONENT_ADD_PORT_STATUS_OK ||
        bt_self_component_filter_add_output_port(self, "out", nullptr, nullptr) != BT_SELF_COMPONENT_ADD_PORT_STATUS_OK) {
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    }
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

bt_message_iterator_class_initialize_method_status calls_iterator_initialize(bt_self_message_iterator *self,
                                                                             bt_self_message_iterator_configuration *,
                                                                             bt_self_component_port_output *) {
    auto *component = reinterpret_cast<bt_self_component_filter *>(bt_self_message_iterator_borrow_component(self));
    bt_message_iterator *upstream = nullptr;
    if (bt_message_iterator_create_from_message_iterator(
            self, bt_self_component_filter_borrow_input_port_by_index(component, 0), &upstream) !=
        BT_MESSAGE_ITERATOR_CREATE_FROM_MESSAGE_ITERATOR_STATUS_OK) {
        return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    }
    bt_self_message_iterator_set_data(self, new Calls(self, upstream));
    return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

void calls_iterator_finalize(bt_self_message_iterator *self) {
    delete static_cast<Calls *>(bt_self_message_iterator_get_data(self));
}

bt_message_iterator_class_next_method_status calls_next(bt_self_message_iterator *self, bt_message_array_const messages,
                                                        uint64_t capacity, uint64_t *count) {
    return static_cast<Calls *>(bt_self_message_iterator_get_data(self))->next(messages, capacity, count);
}
