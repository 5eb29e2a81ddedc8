// sink.occatrace.summary: a table of the calls in any trace of occatrace, for the stock `babeltrace2` command. One pass, no run
// folder and no Python; for real reports there is `occa_prof report`.
//   babeltrace2 --plugin-path=DIR TRACE --component=sink.occatrace.summary
#include <babeltrace2/babeltrace.h>

#include "calls.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

// What is known of one event class.
struct Row {
    std::string name;
    int64_t start = -1; // the payload's member that holds the call's start; -1: the event is no call
    uint64_t count = 0;
    uint64_t total = 0;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
};

class Summary {
  public:
    ~Summary() { bt_message_iterator_put_ref(iterator_); }

    void connect(bt_message_iterator *iterator) { iterator_ = iterator; }

    bt_component_class_sink_consume_method_status consume() {
        bt_message_array_const messages = nullptr;
        uint64_t count = 0;
        switch (bt_message_iterator_next(iterator_, &messages, &count)) {
        case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
            break;
        case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
            print();
            return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_END;
        case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
            return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_AGAIN;
        case BT_MESSAGE_ITERATOR_NEXT_STATUS_MEMORY_ERROR:
            return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_MEMORY_ERROR;
        default:
            print(); // what could be read
            return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_ERROR;
        }
        for (uint64_t i = 0; i < count; i++) {
            if (bt_message_get_type(messages[i]) == BT_MESSAGE_TYPE_EVENT) add(messages[i]);
            bt_message_put_ref(messages[i]);
        }
        return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_OK;
    }

  private:
    void add(const bt_message *message) {
        const bt_event *event = bt_message_event_borrow_event_const(message);
        const bt_event_class *type = bt_event_borrow_class_const(event);
        Row &row = row_of(type);
        row.count++;
        if (row.start < 0) return;
        const bt_field *payload = bt_event_borrow_payload_field_const(event);
        const uint64_t start = bt_field_integer_unsigned_get_value(
            bt_field_structure_borrow_member_field_by_index_const(payload, static_cast<uint64_t>(row.start)));
        const uint64_t end = bt_clock_snapshot_get_value(bt_message_event_borrow_default_clock_snapshot_const(message));
        const uint64_t time = end > start ? end - start : 0;
        row.total += time;
        row.least = std::min(row.least, time);
        row.most = std::max(row.most, time);
    }

    Row &row_of(const bt_event_class *type) {
        const auto found = rows_.find(type);
        if (found != rows_.end()) return found->second;
        Row &row = rows_[type];
        const char *name = bt_event_class_get_name(type);
        row.name = name != nullptr ? name : "(no name)";
        const bt_stream_class *stream = bt_event_class_borrow_stream_class_const(type);
        const bt_field_class *payload = bt_event_class_borrow_payload_field_class_const(type);
        // A device's activity has a start too, and an end of its own: it is no call.
        if (bt_stream_class_borrow_default_clock_class_const(stream) == nullptr || payload == nullptr ||
            bt_field_class_structure_borrow_member_by_name_const(payload, "seq") == nullptr ||
            bt_field_class_structure_borrow_member_by_name_const(payload, "end") != nullptr ||
            row.name.rfind("occatrace_process:", 0) == 0 || row.name.rfind("occatrace_annotation:", 0) == 0) {
            return row;
        }
        for (uint64_t i = 0; i < bt_field_class_structure_get_member_count(payload); i++) {
            const auto *member = bt_field_class_structure_borrow_member_by_index_const(payload, i);
            const bt_field_class *field = bt_field_class_structure_member_borrow_field_class_const(member);
            if (strcmp(bt_field_class_structure_member_get_name(member), "start") == 0 &&
                bt_field_class_get_type(field) == BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER) {
                row.start = static_cast<int64_t>(i);
            }
        }
        return row;
    }

    void print() const {
        // Classes of one name in several traces or streams are one row.
        std::unordered_map<std::string, Row> by_name;
        for (const auto &item : rows_) {
            Row &row = by_name[item.second.name];
            row.name = item.second.name;
            row.start = std::max(row.start, item.second.start);
            row.count += item.second.count;
            row.total += item.second.total;
            row.least = std::min(row.least, item.second.least);
            row.most = std::max(row.most, item.second.most);
        }
        std::vector<Row> rows;
        uint64_t total = 0;
        for (auto &item : by_name) {
            total += item.second.total;
            rows.push_back(std::move(item.second));
        }
        std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
            return a.total != b.total ? a.total > b.total : a.count != b.count ? a.count > b.count
                                                                               : a.name < b.name;
        });
        printf("%7s %15s %11s %13s %13s %13s  %s\n", "time %", "total ns", "calls", "avg ns", "min ns", "max ns", "name");
        for (const Row &row : rows) {
            if (row.start < 0) {
                printf("%7s %15s %11" PRIu64 " %13s %13s %13s  %s\n", "", "", row.count, "", "", "", row.name.c_str());
                continue;
            }
            const double share = total > 0 ? 100.0 * static_cast<double>(row.total) / static_cast<double>(total) : 0;
            printf("%7.2f %15" PRIu64 " %11" PRIu64 " %13" PRIu64 " %13" PRIu64 " %13" PRIu64 "  %s\n", share, row.total,
                   row.count, row.total / row.count, row.least, row.most, row.name.c_str());
        }
        fflush(stdout);
    }

    bt_message_iterator *iterator_ = nullptr;
    std::unordered_map<const bt_event_class *, Row> rows_;
};

Summary *summary_of(bt_self_component_sink *self) {
    return static_cast<Summary *>(bt_self_component_get_data(bt_self_component_sink_as_self_component(self)));
}

bt_component_class_initialize_method_status initialize(bt_self_component_sink *self, bt_self_component_sink_configuration *,
                                                       const bt_value *, void *) {
    auto summary = std::make_unique<Summary>();
    if (bt_self_component_sink_add_input_port(self, "in", nullptr, nullptr) !=
        BT_SELF_COMPONENT_ADD_PORT_STATUS_OK) {
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    }
    bt_self_component_set_data(bt_self_component_sink_as_self_component(self), summary.release());
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

void finalize(bt_self_component_sink *self) { delete summary_of(self); }

bt_component_class_sink_graph_is_configured_method_status graph_is_configured(bt_self_component_sink *self) {
    bt_message_iterator *iterator = nullptr;
    if (bt_message_iterator_create_from_sink_component(
            self, bt_self_component_sink_borrow_input_port_by_index(self, 0), &iterator) !=
        BT_MESSAGE_ITERATOR_CREATE_FROM_SINK_COMPONENT_STATUS_OK) {
        return BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_ERROR;
    }
    summary_of(self)->connect(iterator);
    return BT_COMPONENT_CLASS_SINK_GRAPH_IS_CONFIGURED_METHOD_STATUS_OK;
}

bt_component_class_sink_consume_method_status consume(bt_self_component_sink *self) { return summary_of(self)->consume(); }

} // namespace

BT_PLUGIN_MODULE();
BT_PLUGIN(occatrace);
BT_PLUGIN_DESCRIPTION("Traces of occatrace");
BT_PLUGIN_LICENSE("BSD-3-Clause");
BT_PLUGIN_SINK_COMPONENT_CLASS(summary, consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_DESCRIPTION(summary, "Print a table of the calls: count, total, average, least and most time");
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(summary, initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(summary, finalize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(summary, graph_is_configured);

BT_PLUGIN_FILTER_COMPONENT_CLASS(calls, calls_next);
BT_PLUGIN_FILTER_COMPONENT_CLASS_DESCRIPTION(calls, "Calls and device work as plain events, whatever their layout in the trace");
BT_PLUGIN_FILTER_COMPONENT_CLASS_INITIALIZE_METHOD(calls, calls_initialize);
BT_PLUGIN_FILTER_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD(calls, calls_iterator_initialize);
BT_PLUGIN_FILTER_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_FINALIZE_METHOD(calls, calls_iterator_finalize);
