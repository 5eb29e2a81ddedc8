// The encoding itself. Field numbers are those of perfetto/trace/trace_packet.proto and the messages it holds.
#include "timeline.h"

#include <stdexcept>

namespace occatrace {
namespace {

// Ids from 64 to 127 are clocks of one sequence; the interface knows 65 by no other name.
constexpr uint32_t kClock = 65;
constexpr uint32_t kRealtime = 1;
constexpr uint32_t kFirstSequence = 1;

namespace trace {
constexpr uint32_t kPacket = 1;
}
namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInterned = 12, kFlags = 13,
                   kDefaultClock = 58, kDefaults = 59, kDescriptor = 60, kMachine = 98;
constexpr uint32_t kCleared = 1, kNeedsState = 2;
}  // namespace packet
namespace event {
constexpr uint32_t kCategory = 3, kArgument = 4, kType = 9, kName = 10, kTrack = 11, kCounterValue = 30, kDoubleValue = 44, kFlow = 47;
constexpr uint32_t kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4;
}  // namespace event
namespace interned {
constexpr uint32_t kCategories = 1, kNames = 2, kArgumentNames = 3, kTexts = 29;
}
namespace argument {
constexpr uint32_t kName = 1, kUnsigned = 3, kSigned = 4, kDouble = 5, kPointer = 7, kText = 17;
}
namespace descriptor {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8, kChildOrder = 11, kRank = 12;
constexpr uint32_t kExplicit = 3;
constexpr uint32_t kUnit = 3, kUnitName = 6;       // of a counter
constexpr uint32_t kUnitCount = 2, kUnitBytes = 3;
}  // namespace descriptor
constexpr uint32_t kDefaultsEvent = 11;

uint64_t scramble(uint64_t x) {  // splitmix64: uuids of further lanes, far from any other
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Clocks begin at zero together. One that is incremental counts from packet to packet.
void clock_at_zero(Message &out, uint32_t clock, bool incremental) {
  size_t reading = out.open(1);
  out.integer(1, clock);
  out.integer(2, 0);
  if (incremental) out.integer(3, 1);
  out.close(reading);
}

}  // namespace

Timeline::Timeline(const std::string &path, uint64_t origin, uint64_t realtime, bool gzip)
    : output_(Output::open(path, gzip)), origin_(origin), realtime_(realtime) {
  // A file without any slice is a trace too.
  size_t p = open_packet(kFirstSequence);
  buffer_.integer(packet::kFlags, packet::kCleared);
  close_packet(p);
}

uint32_t Timeline::string(std::string_view text) {
  auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  auto number = static_cast<uint32_t>(strings_.size());
  strings_.push_back(std::make_unique<std::string>(text));
  numbers_.emplace(*strings_.back(), number);
  return number;
}

size_t Timeline::open_packet(uint32_t sequence) {
  if (buffer_.size() > kFlush) flush();
  size_t begin = buffer_.open(trace::kPacket);
  buffer_.integer(packet::kSequence, sequence);
  if (machine_) buffer_.integer(packet::kMachine, machine_);
  return begin;
}

void Timeline::close_packet(size_t begin) { buffer_.close(begin); }

void Timeline::flush() {
  if (!output_) throw std::logic_error("the timeline is closed");
  output_->write(buffer_.data(), buffer_.size());
  written_ += buffer_.size();
  buffer_.clear();
}

void Timeline::close() {
  flush();
  std::unique_ptr<Output> output = std::move(output_);
  output->close();
}

void Timeline::process(uint64_t uuid, int32_t pid, std::string_view name, const std::vector<std::string> &cmdline,
                       const std::vector<std::string> &labels) {
  size_t p = open_packet(kFirstSequence);
  size_t d = buffer_.open(packet::kDescriptor);
  buffer_.integer(descriptor::kUuid, uuid);
  size_t process = buffer_.open(descriptor::kProcess);
  buffer_.integer(1, static_cast<uint64_t>(static_cast<int64_t>(pid)));
  for (const auto &word : cmdline) buffer_.text(2, word);
  buffer_.text(6, name);
  for (const auto &label : labels) buffer_.text(8, label);
  buffer_.close(process);
  buffer_.integer(descriptor::kChildOrder, descriptor::kExplicit);
  buffer_.close(d);
  close_packet(p);
}

void Timeline::thread(uint64_t uuid, int32_t pid, int64_t tid, std::string_view name) {
  size_t p = open_packet(kFirstSequence);
  size_t d = buffer_.open(packet::kDescriptor);
  buffer_.integer(descriptor::kUuid, uuid);
  size_t thread = buffer_.open(descriptor::kThread);
  buffer_.integer(1, static_cast<uint64_t>(static_cast<int64_t>(pid)));
  buffer_.integer(2, static_cast<uint64_t>(tid));
  if (!name.empty()) buffer_.text(5, name);
  buffer_.close(thread);
  buffer_.close(d);
  close_packet(p);
}

void Timeline::group(uint64_t uuid, uint64_t parent, std::string_view name, int32_t order) {
  size_t p = open_packet(kFirstSequence);
  size_t d = open_descriptor(uuid, parent, name, order);
  buffer_.integer(descriptor::kChildOrder, descriptor::kExplicit);
  buffer_.close(d);
  close_packet(p);
}

void Timeline::track(uint64_t uuid, uint64_t parent, std::string_view name, int32_t order) {
  size_t p = open_packet(kFirstSequence);
  buffer_.close(open_descriptor(uuid, parent, name, order));
  close_packet(p);
}

size_t Timeline::open_descriptor(uint64_t uuid, uint64_t parent, std::string_view name, int32_t order) {
  size_t d = buffer_.open(packet::kDescriptor);
  buffer_.integer(descriptor::kUuid, uuid);
  if (parent) buffer_.integer(descriptor::kParent, parent);
  buffer_.text(descriptor::kName, name);
  buffer_.integer(descriptor::kRank, static_cast<uint64_t>(static_cast<int64_t>(order)));
  return d;
}

Sequence::Sequence(Timeline &timeline, uint64_t uuid)
    : Sequence(timeline, [uuid](Message &out) {
        size_t event = out.open(kDefaultsEvent);
        out.integer(event::kTrack, uuid);
        out.close(event);
      }) {}

Sequence::Sequence(Timeline &timeline, const std::function<void(Message &)> &defaults)
    : timeline_(timeline), number_(++timeline.sequences_), origin_(timeline.origin_), realtime_(timeline.realtime_) {
  uint8_t *head = wire::open(head_, trace::kPacket);
  head = wire::integer(head, packet::kSequence, number_);
  if (timeline_.machine_) head = wire::integer(head, packet::kMachine, timeline_.machine_);
  head = wire::varint(head, packet::kTimestamp << 3);
  head_bytes_ = static_cast<size_t>(head - head_);
  Message &out = timeline_.buffer_;
  size_t p = timeline_.open_packet(number_);
  out.integer(packet::kFlags, packet::kCleared);
  size_t all = out.open(packet::kDefaults);
  defaults(out);
  out.integer(packet::kDefaultClock, kClock);
  out.close(all);
  // The same in every file and on every machine: a snapshot that is earlier than another one is an error to Perfetto.
  size_t snapshot = out.open(packet::kClockSnapshot);
  clock_at_zero(out, kRealtime, false);
  clock_at_zero(out, kClock, true);
  out.integer(2, kRealtime);  // the primary clock of the trace
  out.close(snapshot);
  timeline_.close_packet(p);
}

size_t Sequence::open_packet(uint64_t time) {
  const uint64_t now = time - timeline_.origin_ + timeline_.realtime_;
  size_t p = timeline_.open_packet(number_);
  timeline_.buffer_.integer(packet::kTimestamp, now - last_);
  last_ = now;
  return p;
}

Counter::Counter(Timeline &timeline, uint64_t uuid, uint64_t parent, std::string_view name, int32_t order, Unit unit,
                 std::string_view unit_name)
    : timeline_(timeline), machine_(timeline.machine_), sequence_(timeline, uuid) {
  Message &out = timeline_.buffer_;
  size_t p = timeline_.open_packet(kFirstSequence);
  size_t d = timeline_.open_descriptor(uuid, parent, name, order);
  size_t counter = out.open(descriptor::kCounter);
  if (unit == Unit::kCount) out.integer(descriptor::kUnit, descriptor::kUnitCount);
  if (unit == Unit::kBytes) out.integer(descriptor::kUnit, descriptor::kUnitBytes);
  if (unit == Unit::kOther) out.text(descriptor::kUnitName, unit_name);
  out.close(counter);
  out.close(d);
  timeline_.close_packet(p);
}

template <typename Write>
void Counter::add_all(size_t count, const uint64_t *times, Write write) {
  timeline_.machine_ = machine_;
  Message &out = timeline_.buffer_;
  for (size_t row = 0; row < count; row++) {
    size_t p = sequence_.open_packet(times[row]);
    out.integer(packet::kFlags, packet::kNeedsState);
    size_t e = out.open(packet::kTrackEvent);
    out.integer(event::kType, event::kCounter);
    write(row);
    out.close(e);
    timeline_.close_packet(p);
  }
  timeline_.values_ += count;
}

void Counter::add(size_t count, const uint64_t *times, const int64_t *values) {
  add_all(count, times, [&](size_t row) { timeline_.buffer_.integer(event::kCounterValue, static_cast<uint64_t>(values[row])); });
}

void Counter::add(size_t count, const uint64_t *times, const double *values) {
  add_all(count, times, [&](size_t row) { timeline_.buffer_.number(event::kDoubleValue, values[row]); });
}

Lane::Lane(Timeline &timeline, uint64_t uuid) : timeline_(timeline), sequence_(timeline, uuid) {}

bool Lane::fits(uint64_t start, uint64_t end, bool nested) {
  end_until(start);
  return open_.empty() || (nested && end <= open_.back());
}

void Lane::end(uint64_t time) {
  uint8_t *const packet = timeline_.room(Sequence::kHead + 2 * wire::kField);
  uint8_t *p = sequence_.head(packet, time);
  uint8_t *const event = p = wire::open(p, packet::kTrackEvent);
  p = wire::close(event, wire::integer(p, event::kType, event::kEnd));
  timeline_.buffer_.filled(wire::close(packet + Sequence::kBefore, p));
}

// Bytes that the definitions of what this sequence has not named yet take at most.
size_t Lane::unknown(const Slices &slices, size_t row) const {
  constexpr size_t kEntry = 2 * wire::kField + wire::kLength;
  size_t bytes = 0;
  auto look = [&](const Interned &known, uint32_t string) {
    if (!known.has(string)) bytes += kEntry + wire::kLength + timeline_.strings_[string]->size();
  };
  look(names_, slices.name[row]);
  look(categories_, slices.category[row]);
  for (const Argument &a : slices.arguments) {
    if (a.present && !a.present[row]) continue;
    look(argument_names_, a.name);
    if (a.kind == Argument::Kind::kText) look(texts_, static_cast<const uint32_t *>(a.values)[row]);
  }
  return bytes;
}

uint8_t *Lane::define(const Slices &slices, size_t row, uint8_t *p) {
  uint8_t *const table = p = wire::open(p, packet::kInterned);
  auto define = [&](Interned &known, uint32_t field, uint32_t string) {
    if (!known.add(string)) return;
    uint8_t *const entry = p = wire::open(p, field);
    p = wire::integer(p, 1, known.of(string));
    const std::string &text = *timeline_.strings_[string];
    p = wire::varint(wire::varint(p, 2 << 3 | 2), text.size());
    std::memcpy(p, text.data(), text.size());
    p = wire::close(entry, p + text.size());
  };
  define(names_, interned::kNames, slices.name[row]);
  define(categories_, interned::kCategories, slices.category[row]);
  for (const Argument &a : slices.arguments) {
    if (a.present && !a.present[row]) continue;
    define(argument_names_, interned::kArgumentNames, a.name);
    if (a.kind == Argument::Kind::kText) define(texts_, interned::kTexts, static_cast<const uint32_t *>(a.values)[row]);
  }
  return wire::close(table, p);
}

void Lane::begin(const Slices &slices, size_t row) {
  const bool instant = slices.instant && slices.instant[row];
  const size_t flows = slices.flow_offsets ? slices.flow_offsets[row + 1] - slices.flow_offsets[row] : 0;
  const size_t definitions = unknown(slices, row);
  uint8_t *const packet = timeline_.room(Sequence::kHead + definitions +
                                         (8 + 3 * slices.arguments.size() + flows) * wire::kField);
  uint8_t *p = sequence_.head(packet, slices.start[row]);
  p = wire::integer(p, packet::kFlags, packet::kNeedsState);
  if (definitions) p = define(slices, row, p);  // in front
  uint8_t *const event = p = wire::open(p, packet::kTrackEvent);
  p = wire::integer(p, event::kCategory, categories_.of(slices.category[row]));
  for (const Argument &a : slices.arguments) {
    if (a.present && !a.present[row]) continue;
    uint8_t *const entry = p = wire::open(p, event::kArgument);
    p = wire::integer(p, argument::kName, argument_names_.of(a.name));
    uint64_t value = 0;
    if (a.kind != Argument::Kind::kText) std::memcpy(&value, static_cast<const uint64_t *>(a.values) + row, sizeof value);
    switch (a.kind) {
      case Argument::Kind::kUnsigned: p = wire::integer(p, argument::kUnsigned, value); break;
      case Argument::Kind::kSigned: p = wire::integer(p, argument::kSigned, value); break;
      case Argument::Kind::kDouble: p = wire::fixed64(p, argument::kDouble, value); break;
      case Argument::Kind::kText:
        p = wire::integer(p, argument::kText, texts_.of(static_cast<const uint32_t *>(a.values)[row]));
        break;
      case Argument::Kind::kPointer: p = wire::integer(p, argument::kPointer, value); break;
    }
    entry[-1] = static_cast<uint8_t>(p - entry);  // short
  }
  p = wire::integer(p, event::kType, instant ? event::kInstant : event::kBegin);
  p = wire::integer(p, event::kName, names_.of(slices.name[row]));
  for (size_t f = 0; f < flows; f++) p = wire::fixed64(p, event::kFlow, slices.flows[slices.flow_offsets[row] + f]);
  p = wire::close(event, p);
  timeline_.buffer_.filled(wire::close(packet + Sequence::kBefore, p));
  timeline_.slices_++;
  if (!instant) open_.push_back(slices.end[row]);
}

void Lane::finish() { end_until(UINT64_MAX); }

Lanes::Lanes(Timeline &timeline, uint64_t uuid, uint64_t parent, std::string name, int32_t order, bool nested, bool announced)
    : timeline_(timeline),
      uuid_(uuid),
      parent_(parent),
      name_(std::move(name)),
      order_(order),
      nested_(nested),
      announced_(announced),
      machine_(timeline.machine_) {}

Lane &Lanes::lane_for(uint64_t start, uint64_t end) {
  for (auto &lane : lanes_)
    if (lane->fits(start, end, nested_)) return *lane;
  uint64_t uuid = uuid_;
  if (!lanes_.empty()) uuid = scramble(scramble(uuid_) + lanes_.size());
  if (!lanes_.empty() || !announced_) timeline_.track(uuid, parent_, name_, order_);
  lanes_.push_back(std::make_unique<Lane>(timeline_, uuid));
  return *lanes_.back();
}

void Lanes::add(const Slices &slices, size_t begin, size_t end) {
  timeline_.machine_ = machine_;
  for (size_t row = begin; row < end; row++) {
    if (slices.start[row] < last_start_) throw std::invalid_argument("start: not ascending");
    last_start_ = slices.start[row];
    lane_for(slices.start[row], slices.end[row]).begin(slices, row);
  }
}

void Lanes::finish() {
  timeline_.machine_ = machine_;
  for (auto &lane : lanes_) lane->finish();
}

}  // namespace occatrace
