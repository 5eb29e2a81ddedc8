// Fields of libbabeltrace2 into columns: what becomes of each field class, and the values.
#pragma once

#include "source.h"

#include <babeltrace2/babeltrace.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <unordered_map>

namespace occatrace::columns {

namespace {

// How one field class goes into columns.
struct Node {
    enum class Op {
        Unsigned,
        Signed,
        Bool,
        Bits,
        Single,
        Double,
        Text,
        Structure,
        List,
    } op = Op::Structure;
    uint64_t member = 0; // place in the enclosing structure
    size_t column = 0;
    uint8_t width = 8;
    std::vector<Node> inner; // members of a structure, or the one element of a list
};

struct Plan {
    Builder *builder = nullptr; // null: this event is not wanted
    Node common, specific, payload;
};

struct Scalar {
    Node::Op op;
    Kind kind;
};

// False: neither a number nor a text.
bool scalar_of(const bt_field_class *type, Scalar &scalar) {
    const bt_field_class_type number = bt_field_class_get_type(type);
    if (bt_field_class_type_is(number, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)) {
        scalar = {Node::Op::Unsigned, integer_kind(bt_field_class_integer_get_field_value_range(type), false)};
    } else if (bt_field_class_type_is(number, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER)) {
        scalar = {Node::Op::Signed, integer_kind(bt_field_class_integer_get_field_value_range(type), true)};
    } else if (number == BT_FIELD_CLASS_TYPE_BOOL) {
        scalar = {Node::Op::Bool, Kind::U8};
    } else if (number == BT_FIELD_CLASS_TYPE_BIT_ARRAY) {
        scalar = {Node::Op::Bits, Kind::U64};
    } else if (number == BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL) {
        scalar = {Node::Op::Single, Kind::F32};
    } else if (number == BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL) {
        scalar = {Node::Op::Double, Kind::F64};
    } else if (number == BT_FIELD_CLASS_TYPE_STRING) {
        scalar = {Node::Op::Text, Kind::String};
    } else {
        return false;
    }
    return true;
}

class Planner {
  public:
    Planner(std::string event, Output &output) : schema_(event), event_(std::move(event)), output_(output) {}

    Node structure(const bt_field_class *type, const std::string &prefix) {
        Node node;
        if (type == nullptr) return node;
        const uint64_t count = bt_field_class_structure_get_member_count(type);
        for (uint64_t i = 0; i < count; i++) {
            const auto *member = bt_field_class_structure_borrow_member_by_index_const(type, i);
            const std::string name = bt_field_class_structure_member_get_name(member);
            if (i + 1 < count) {
                const auto *next = bt_field_class_structure_borrow_member_by_index_const(type, i + 1);
                if (is_length_of(name, bt_field_class_structure_member_get_name(next))) continue;
            }
            add(node, i, bt_field_class_structure_member_borrow_field_class_const(member), join_name(prefix, name));
        }
        return node;
    }

    Schema take() { return schema_.take(); }

  private:
    void add(Node &parent, uint64_t member, const bt_field_class *type, const std::string &name) {
        const bt_field_class_type number = bt_field_class_get_type(type);
        Scalar scalar{};
        Node node;
        node.member = member;
        if (scalar_of(type, scalar)) {
            node.op = scalar.op;
            node.width = static_cast<uint8_t>(width_of(scalar.kind));
            node.column = schema_.add(name, scalar.kind, false);
        } else if (number == BT_FIELD_CLASS_TYPE_STRUCTURE) {
            Node inner = structure(type, name);
            inner.member = member;
            node = std::move(inner);
        } else if (bt_field_class_type_is(number, BT_FIELD_CLASS_TYPE_ARRAY) &&
                   scalar_of(bt_field_class_array_borrow_element_field_class_const(type), scalar)) {
            node.op = Node::Op::List;
            node.column = schema_.add(name, scalar.kind, true);
            Node element;
            element.op = scalar.op;
            element.width = static_cast<uint8_t>(width_of(scalar.kind));
            node.inner.push_back(element);
        } else {
            output_.problem("field " + name + " of " + event_ + " is left out: it is a variant, an option or a nested list");
            return;
        }
        parent.inner.push_back(std::move(node));
    }

    SchemaBuilder schema_;
    std::string event_;
    Output &output_;
};

std::shared_ptr<const Schema> plan_event(const bt_event_class *type, Output &output, Plan *plan) {
    const bt_stream_class *stream = bt_event_class_borrow_stream_class_const(type);
    const char *name = bt_event_class_get_name(type);
    Planner planner(name != nullptr ? name : "", output);
    Node common = planner.structure(bt_stream_class_borrow_event_common_context_field_class_const(stream), "ctx");
    Node specific = planner.structure(bt_event_class_borrow_specific_context_field_class_const(type), "ctx");
    Node payload = planner.structure(bt_event_class_borrow_payload_field_class_const(type), "");
    if (plan != nullptr) {
        plan->common = std::move(common);
        plan->specific = std::move(specific);
        plan->payload = std::move(payload);
    }
    return std::make_shared<const Schema>(planner.take());
}

void store(uint8_t *place, uint8_t width, uint64_t value) {
    // Little and big endian alike: each width through its own type.
    switch (width) {
    case 1: {
        const auto narrow = static_cast<uint8_t>(value);
        memcpy(place, &narrow, 1);
        break;
    }
    case 2: {
        const auto narrow = static_cast<uint16_t>(value);
        memcpy(place, &narrow, 2);
        break;
    }
    case 4: {
        const auto narrow = static_cast<uint32_t>(value);
        memcpy(place, &narrow, 4);
        break;
    }
    default:
        memcpy(place, &value, 8);
    }
}

void store_scalar(const Node &node, const bt_field *field, uint8_t *place, StringCache &strings) {
    switch (node.op) {
    case Node::Op::Unsigned:
        store(place, node.width, bt_field_integer_unsigned_get_value(field));
        break;
    case Node::Op::Signed:
        store(place, node.width, static_cast<uint64_t>(bt_field_integer_signed_get_value(field)));
        break;
    case Node::Op::Bool:
        *place = bt_field_bool_get_value(field) != BT_FALSE ? 1 : 0;
        break;
    case Node::Op::Bits:
        store(place, 8, bt_field_bit_array_get_value_as_integer(field));
        break;
    case Node::Op::Single: {
        const float value = bt_field_real_single_precision_get_value(field);
        memcpy(place, &value, sizeof value);
        break;
    }
    case Node::Op::Double: {
        const double value = bt_field_real_double_precision_get_value(field);
        memcpy(place, &value, sizeof value);
        break;
    }
    case Node::Op::Text: {
        // By its length: the bytes of an empty text are those of an earlier one (seen in 2.0.4).
        store(place, 4, strings.intern(bt_field_string_get_value(field), bt_field_string_get_length(field)));
        break;
    }
    default:
        break;
    }
}

void store_structure(const Node &structure, const bt_field *field, Builder &builder, StringCache &strings) {
    for (const Node &node : structure.inner) {
        const bt_field *member = bt_field_structure_borrow_member_field_by_index_const(field, node.member);
        if (node.op == Node::Op::Structure) {
            store_structure(node, member, builder, strings);
        } else if (node.op == Node::Op::List) {
            const Node &element = node.inner.front();
            const uint64_t count = bt_field_array_get_length(member);
            uint8_t *place = builder.append(node.column, count);
            for (uint64_t i = 0; i < count; i++) {
                const bt_field *value = bt_field_array_borrow_element_field_by_index_const(member, i);
                store_scalar(element, value, place + i * element.width, strings);
            }
        } else {
            store_scalar(node, member, builder.place(node.column, node.width), strings);
        }
    }
}

}  // namespace

}  // namespace occatrace::columns
