// Field numbers are those of perfetto/trace/trace_packet.proto, profiling/profile_common.proto and profile_packet.proto.
#include "samples.h"

#include <stdexcept>

namespace occatrace {
namespace {

namespace packet {
constexpr uint32_t kInterned = 12, kFlags = 13, kModuleSymbols = 61, kSample = 66;
constexpr uint32_t kNeedsState = 2;
}  // namespace packet
constexpr uint32_t kDefaultsSample = 12;
namespace interned {
constexpr uint32_t kFunctions = 5, kFrames = 6, kStacks = 7, kPaths = 17, kFiles = 18, kMappings = 19;
}
namespace frame_field {
constexpr uint32_t kId = 1, kFunction = 2, kMapping = 3, kAddress = 4, kFile = 5, kLine = 6;
}
namespace sample {
constexpr uint32_t kPid = 2, kTid = 3, kStack = 4, kMode = 5, kCount = 6, kError = 16;
constexpr uint32_t kUser = 2, kUnknown = 1;
}  // namespace sample

// Perfetto knows a frame's line by its module and address. Frames of functions that were inlined have the address of their caller;
// so each has an address made of what it is, the same in every file.
uint64_t address_of(std::string_view function, std::string_view file, uint32_t line) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (char byte : function) add(static_cast<unsigned char>(byte));
  add(0);
  for (char byte : file) add(static_cast<unsigned char>(byte));
  for (int shift = 0; shift < 32; shift += 8) add(static_cast<unsigned char>(line >> shift));
  return hash >> 16;
}

void defaults(Message &out) {
  size_t d = out.open(kDefaultsSample);
  size_t timebase = out.open(1);
  out.integer(4, 2);  // the counter SW_TASK_CLOCK
  out.text(10, "sampled CPU time (ns)");
  out.close(timebase);
  out.close(d);
}

}  // namespace

StackSamples::StackSamples(Timeline &timeline, int32_t pid)
    : timeline_(timeline), machine_(timeline.machine_), pid_(pid), sequence_(timeline, defaults) {}

uint32_t StackSamples::text(std::unordered_map<std::string, uint32_t> &known, uint32_t field, std::string_view text) {
  const auto [at, added] = known.emplace(text, static_cast<uint32_t>(known.size() + 1));
  if (added) {
    size_t entry = interned_.open(field);
    interned_.integer(1, at->second);
    interned_.text(2, text);
    interned_.close(entry);
  }
  return at->second;
}

uint32_t StackSamples::frame(std::string_view function, std::string_view module, std::string_view file, uint32_t line) {
  const uint32_t name = text(functions_, interned::kFunctions, function);
  const uint32_t path = text(paths_, interned::kPaths, module);
  const auto [mapping, added] = mappings_.emplace(module, static_cast<uint32_t>(mappings_.size() + 1));
  if (added) {
    size_t entry = interned_.open(interned::kMappings);
    interned_.integer(1, mapping->second);
    interned_.integer(7, path);
    interned_.close(entry);
  }
  const uint64_t address = address_of(function, file, line);
  const uint32_t source = file.empty() ? 0 : text(files_, interned::kFiles, file);
  size_t entry = interned_.open(interned::kFrames);
  interned_.integer(frame_field::kId, ++frames_);
  interned_.integer(frame_field::kFunction, name);
  interned_.integer(frame_field::kMapping, mapping->second);
  interned_.integer(frame_field::kAddress, address);
  if (source) {
    interned_.integer(frame_field::kFile, source);
    interned_.integer(frame_field::kLine, line);
    symbols_[std::string(module)].push_back({address, std::string(function), std::string(file), line});
  }
  interned_.close(entry);
  return frames_;
}

uint32_t StackSamples::stack(const std::vector<uint32_t> &frames) {
  for (uint32_t number : frames)
    if (number == 0 || number > frames_) throw std::invalid_argument("stack: not the number of a frame");
  size_t entry = interned_.open(interned::kStacks);
  interned_.integer(1, ++stacks_);
  for (uint32_t number : frames) interned_.integer(2, number);
  interned_.close(entry);
  return stacks_;
}

void StackSamples::add(size_t count, const uint64_t *times, const uint32_t *threads, const uint32_t *stacks, const uint64_t *cpu) {
  timeline_.machine_ = machine_;
  Message &out = timeline_.buffer_;
  for (size_t row = 0; row < count; row++) {
    size_t p = sequence_.open_packet(times[row]);
    out.integer(packet::kFlags, packet::kNeedsState);
    if (interned_.size() > 0) {
      out.text(packet::kInterned, {reinterpret_cast<const char *>(interned_.data()), interned_.size()});
      interned_.clear();
    }
    size_t s = out.open(packet::kSample);
    out.integer(sample::kPid, static_cast<uint64_t>(static_cast<int64_t>(pid_)));
    out.integer(sample::kTid, threads[row]);
    if (stacks[row] != kNoStack) out.integer(sample::kStack, stacks[row]);
    else out.integer(sample::kError, sample::kUnknown);
    out.integer(sample::kMode, sample::kUser);
    out.integer(sample::kCount, cpu_ += cpu[row]);
    out.close(s);
    timeline_.close_packet(p);
  }
}

void StackSamples::finish() {
  timeline_.machine_ = machine_;
  Message &out = timeline_.buffer_;
  for (const auto &[module, found] : symbols_) {
    size_t p = sequence_.open_packet();
    size_t m = out.open(packet::kModuleSymbols);
    out.text(1, module);
    out.text(2, "");  // the build id, which the mappings do not have either
    for (const Symbol &symbol : found) {
      size_t entry = out.open(3);
      out.integer(1, symbol.address);
      size_t line = out.open(2);
      out.text(1, symbol.function);
      out.text(2, symbol.file);
      out.integer(3, symbol.line);
      out.close(line);
      out.close(entry);
    }
    out.close(m);
    timeline_.close_packet(p);
  }
  symbols_.clear();
}

}  // namespace occatrace
