// The fast decoder: LTTng-UST's packets straight into columns, along layouts compiled from the metadata. Packets stand on their
// own (each says its time), so that workers take them in pieces, and damage costs no more than the packet it is in.
#include "lttng_layout.h"
#include "source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace occatrace::columns {

namespace {

using lttng::EventLayout;
using lttng::Layout;
using lttng::Step;
using lttng::StreamLayout;

constexpr uint32_t stream_magic = 0xc1fc1fc1;
constexpr uint64_t piece_bytes = 16u << 20; // of packets that a worker takes at once
constexpr uint64_t most_read = 16u << 20;   // a larger packet is mapped, not read into a buffer
constexpr size_t search_chunk = 1u << 20;

class File {
  public:
    explicit File(const std::string &path, uint64_t end = UINT64_MAX) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        struct stat status{};
        if (fd_ >= 0 && fstat(fd_, &status) == 0) size_ = std::min(static_cast<uint64_t>(status.st_size), end);
    }
    ~File() {
        if (fd_ >= 0) close(fd_);
    }
    File(const File &) = delete;
    File &operator=(const File &) = delete;

    bool is_open() const { return fd_ >= 0; }
    int fd() const { return fd_; }
    uint64_t size() const { return size_; }

    // How much of it could be read.
    size_t read(uint64_t place, uint8_t *into, size_t count) const {
        size_t done = 0;
        while (done < count) {
            const ssize_t got = pread(fd_, into + done, count - done, static_cast<off_t>(place + done));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            done += static_cast<size_t>(got);
        }
        return done;
    }

  private:
    int fd_;
    uint64_t size_ = 0;
};

// A packet's bytes: read into a buffer rather than mapped, for a mapped file that is cut while we read ends the program. Only
// packets too large to be worth a buffer are mapped.
class Window {
  public:
    ~Window() { unmap(); }
    Window() = default;
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;

    const uint8_t *get(const File &file, uint64_t place, size_t &size) {
        unmap();
        if (size <= most_read) {
            if (buffer_.size() < size) buffer_.resize(size);
            size = file.read(place, buffer_.data(), size);
            return buffer_.data();
        }
        const uint64_t page = place & ~uint64_t(4095) & ~uint64_t(sysconf(_SC_PAGESIZE) - 1);
        mapped_ = size + (place - page);
        map_ = mmap(nullptr, mapped_, PROT_READ, MAP_PRIVATE, file.fd(), static_cast<off_t>(page));
        if (map_ == MAP_FAILED) {
            map_ = nullptr;
            size = 0;
            return nullptr;
        }
        madvise(map_, mapped_, MADV_SEQUENTIAL);
        return static_cast<const uint8_t *>(map_) + (place - page);
    }

  private:
    void unmap() {
        if (map_ != nullptr) munmap(map_, mapped_);
        map_ = nullptr;
    }
    std::vector<uint8_t> buffer_;
    void *map_ = nullptr;
    size_t mapped_ = 0;
};

struct Packet {
    uint64_t place = 0; // in its file
    uint64_t size = 0;  // bytes of header, context and events that can be read
    uint32_t stream = 0;
    bool cut = false; // the file or another packet begins before its end
};

// Finds the packets of one file, going on after damage at the next place that looks like a packet of this trace.
class Scanner {
  public:
    Scanner(const Layout &layout, const File &file, std::string name, Output &output)
        : layout_(layout), file_(file), name_(std::move(name)), output_(output) {}

    std::vector<Packet> run(uint64_t place) {
        std::vector<Packet> packets;
        std::vector<uint8_t> head(layout_.most_head);
        while (place < file_.size()) {
            const size_t got = file_.read(place, head.data(), head.size());
            Packet packet;
            uint64_t size = 0;
            const char *wrong = look(head.data(), got, place, packet, size);
            if (wrong == nullptr && size <= file_.size() - place) {
                packets.push_back(packet);
                place += size;
                continue;
            }
            const uint64_t next = search(place + 1);
            std::string text = name_ + ": ";
            if (wrong == nullptr) {
                // A packet that reaches over the end, or (a damaged size) over packets that follow.
                packet.size = std::min(packet.size, next - place);
                packet.cut = true;
                packets.push_back(packet);
                text += "truncated: the packet at byte " + std::to_string(place) + " has " + std::to_string(next - place) +
                        " of " + std::to_string(size) + " bytes";
            } else {
                text += std::string(wrong) + " at byte " + std::to_string(place) + ", " + std::to_string(next - place) +
                        " bytes are lost";
            }
            output_.problem(text);
            place = next;
        }
        return packets;
    }

  private:
    // What is wrong with the packet at `place`, or null.
    const char *look(const uint8_t *head, size_t got, uint64_t place, Packet &packet, uint64_t &size) const {
        if (got < layout_.header_size) return "truncated within a packet's header";
        if (layout_.magic.read(head) != stream_magic) return "damaged: no packet begins";
        if (layout_.has_uuid && memcmp(head + layout_.uuid_offset, layout_.uuid.data(), 16) != 0) {
            return "damaged, or of another trace: a packet with another identifier";
        }
        const uint64_t id = layout_.stream_id.width > 0 ? layout_.stream_id.read(head) : layout_.streams.front().id;
        size_t number = 0;
        while (number < layout_.streams.size() && layout_.streams[number].id != id) number++;
        if (number == layout_.streams.size()) return "damaged: a packet of an unknown stream";
        const StreamLayout &stream = layout_.streams[number];
        if (got < stream.head_size) return "truncated within a packet's header";
        const uint64_t content = stream.content_size.read(head) / 8;
        size = stream.packet_size.read(head) / 8;
        if (content < stream.head_size || size < content) return "damaged: a packet of impossible size";
        packet.place = place;
        packet.size = content;
        packet.stream = static_cast<uint32_t>(number);
        return nullptr;
    }

    // The next place from `place` on where magic and identifier stand; else the file's end.
    uint64_t search(uint64_t place) const {
        uint8_t pattern[4 + 16];
        memcpy(pattern, &stream_magic, 4);
        // Without the identifier right after it, four bytes have to do.
        const bool whole = layout_.has_uuid && layout_.uuid_offset == layout_.magic.offset + 4;
        if (whole) memcpy(pattern + 4, layout_.uuid.data(), 16);
        const size_t length = whole ? 20 : 4;
        std::vector<uint8_t> chunk(search_chunk);
        for (uint64_t from = place + layout_.magic.offset; from < file_.size();) {
            const size_t got = file_.read(from, chunk.data(), chunk.size());
            if (got < length) break;
            const void *found = memmem(chunk.data(), got, pattern, length);
            if (found != nullptr) {
                return from + static_cast<uint64_t>(static_cast<const uint8_t *>(found) - chunk.data()) -
                       layout_.magic.offset;
            }
            from += got - (length - 1);
        }
        return file_.size();
    }

    const Layout &layout_;
    const File &file_;
    const std::string name_;
    Output &output_;
};

// One worker's decoding of packets.
class Decoder {
  public:
    Decoder(const Layout &layout, size_t trace, WorkerOutput &output) : layout_(layout), trace_(trace), output_(output) {
        for (const StreamLayout &stream : layout.streams) builders_.emplace_back(stream.events.size(), nullptr);
    }

    // Null, or what was wrong at `stopped` (bytes from the packet's start); what came before it is delivered.
    const char *packet(const uint8_t *data, size_t size, uint32_t number, size_t &stopped) {
        const StreamLayout &stream = layout_.streams[number];
        if (size < stream.head_size) return nullptr; // reported by the scanner
        start_ = data;
        end_ = data + size;
        const uint8_t *p = data + stream.head_size;
        uint64_t clock = stream.timestamp_begin.read(data);
        std::vector<Builder *> &builders = builders_[number];
        for (;;) {
            stopped = static_cast<size_t>(p - data);
            if (stream.header_align > 1) p = aligned(p, stream.header_align);
            if (p >= end_) return nullptr;
            uint64_t id = 0;
            switch (stream.header) {
            case StreamLayout::Header::Compact:
                p = compact_header(stream, p, id, clock);
                break;
            case StreamLayout::Header::Large:
                p = large_header(stream, p, id, clock);
                break;
            case StreamLayout::Header::Plain:
                p = plain_header(stream, p, id, clock);
                break;
            }
            if (p == nullptr) return "an event header is cut";
            if (id >= stream.events.size() || !stream.events[id].known) return "an event of an unknown kind";
            const EventLayout &event = stream.events[id];
            if (event.schema) {
                Builder *&builder = builders[id];
                if (builder == nullptr) builder = &output_.builder(event.schema, trace_);
                builder->begin();
                builder->set<uint64_t>(0, clock);
                p = steps(event, *builder, p);
                if (p == nullptr) return "an event is cut";
                builder->commit();
            } else {
                p = skip(event, p);
                if (p == nullptr) return "an event is cut";
            }
        }
    }

  private:
    size_t left(const uint8_t *p) const { return static_cast<size_t>(end_ - p); }

    const uint8_t *aligned(const uint8_t *p, uint64_t bytes) const {
        const uint64_t place = static_cast<uint64_t>(p - start_);
        const uint64_t up = (place + bytes - 1) & ~(bytes - 1);
        return up > static_cast<uint64_t>(end_ - start_) ? end_ : start_ + up;
    }

    template <typename T> static T load(const uint8_t *p) {
        T value;
        memcpy(&value, p, sizeof value);
        return value;
    }

    // The clock's low bits came with the event; it went over if they are smaller than before.
    static uint64_t advance(uint64_t clock, uint64_t low, unsigned bits) {
        const uint64_t mask = (uint64_t(1) << bits) - 1;
        if (low < (clock & mask)) clock += mask + 1;
        return (clock & ~mask) | low;
    }

    const uint8_t *compact_header(const StreamLayout &stream, const uint8_t *p, uint64_t &id, uint64_t &clock) const {
        if (left(p) < 4) return nullptr;
        const auto word = load<uint32_t>(p);
        id = word & 31;
        if (id == 31) return long_header(stream, p + 1, id, clock);
        clock = advance(clock, word >> 5, 27);
        return p + 4;
    }

    const uint8_t *large_header(const StreamLayout &stream, const uint8_t *p, uint64_t &id, uint64_t &clock) const {
        if (left(p) < 6) return nullptr;
        id = load<uint16_t>(p);
        p += 2;
        if (id == 65535) return long_header(stream, p, id, clock);
        if (stream.short_align > 1) p = aligned(p, stream.short_align);
        if (left(p) < 4) return nullptr;
        clock = advance(clock, load<uint32_t>(p), 32);
        return p + 4;
    }

    // Number and time at full length.
    const uint8_t *long_header(const StreamLayout &stream, const uint8_t *p, uint64_t &id, uint64_t &clock) const {
        p = aligned(p, stream.long_align);
        if (left(p) < 12) return nullptr;
        id = load<uint32_t>(p);
        p = aligned(p + 4, stream.long_time_align);
        if (left(p) < 8) return nullptr;
        clock = load<uint64_t>(p);
        return p + 8;
    }

    const uint8_t *plain_header(const StreamLayout &stream, const uint8_t *p, uint64_t &id, uint64_t &clock) const {
        if (left(p) < stream.header_size) return nullptr;
        id = stream.header_id.read(p);
        clock = stream.header_time.read(p);
        return p + stream.header_size;
    }

    static uint64_t length(const Step &step, const uint8_t *run) {
        lttng::Place place;
        place.offset = step.offset;
        place.width = step.width;
        place.swap = step.swap;
        return place.read(run);
    }

    static void copy_swapped(uint8_t *to, const uint8_t *from, uint64_t count, uint8_t width) {
        for (uint64_t i = 0; i < count; i++, to += width, from += width) std::reverse_copy(from, from + width, to);
    }

    // The event's fields into the builder's row; the first byte after them, or null where they do not end within the packet.
    const uint8_t *steps(const EventLayout &event, Builder &builder, const uint8_t *p) {
        uint64_t slots[lttng::most_slots];
        const uint8_t *run = p;
        for (const Step &step : event.steps) {
            switch (step.what) {
            case Step::What::Run:
                if (left(p) < step.count) return nullptr;
                run = p;
                p += step.count;
                break;
            case Step::What::Copy1:
                builder.set<uint8_t>(step.column, run[step.offset]);
                break;
            case Step::What::Copy2:
                builder.set(step.column, load<uint16_t>(run + step.offset));
                break;
            case Step::What::Copy4:
                builder.set(step.column, load<uint32_t>(run + step.offset));
                break;
            case Step::What::Copy8:
                builder.set(step.column, load<uint64_t>(run + step.offset));
                break;
            case Step::What::Swap2:
                builder.set(step.column, __builtin_bswap16(load<uint16_t>(run + step.offset)));
                break;
            case Step::What::Swap4:
                builder.set(step.column, __builtin_bswap32(load<uint32_t>(run + step.offset)));
                break;
            case Step::What::Swap8:
                builder.set(step.column, __builtin_bswap64(load<uint64_t>(run + step.offset)));
                break;
            case Step::What::Length:
                slots[step.slot] = length(step, run);
                break;
            case Step::What::String: {
                const void *nul = memchr(p, 0, left(p));
                if (nul == nullptr) return nullptr;
                const auto *stop = static_cast<const uint8_t *>(nul);
                text(builder, step, p, static_cast<size_t>(stop - p));
                p = stop + 1;
                break;
            }
            case Step::What::TextArray:
            case Step::What::TextSequence: {
                const uint64_t count = step.what == Step::What::TextArray ? step.count : slots[step.slot];
                if (left(p) < count) return nullptr;
                text(builder, step, p, strnlen(reinterpret_cast<const char *>(p), count));
                p += count;
                break;
            }
            case Step::What::Array:
            case Step::What::Sequence: {
                const uint64_t count = step.what == Step::What::Array ? step.count : slots[step.slot];
                if (left(p) / step.width < count) return nullptr;
                uint8_t *to = builder.append(step.column, count);
                if (step.swap) {
                    copy_swapped(to, p, count, step.width);
                } else if (count > 0) { // no memory may be there for none
                    memcpy(to, p, count * step.width);
                }
                p += count * step.width;
                break;
            }
            case Step::What::Align:
                p = aligned(p, step.count);
                break;
            }
        }
        return p;
    }

    void text(Builder &builder, const Step &step, const uint8_t *p, size_t size) {
        builder.set<uint32_t>(step.column, output_.strings().intern(reinterpret_cast<const char *>(p), size));
    }

    // As steps(), for an event that nobody wants.
    const uint8_t *skip(const EventLayout &event, const uint8_t *p) const {
        uint64_t slots[lttng::most_slots];
        const uint8_t *run = p;
        for (const Step &step : event.steps) {
            switch (step.what) {
            case Step::What::Run:
                if (left(p) < step.count) return nullptr;
                run = p;
                p += step.count;
                break;
            case Step::What::Length:
                slots[step.slot] = length(step, run);
                break;
            case Step::What::String: {
                const void *nul = memchr(p, 0, left(p));
                if (nul == nullptr) return nullptr;
                p = static_cast<const uint8_t *>(nul) + 1;
                break;
            }
            case Step::What::TextArray:
            case Step::What::Array:
                if (left(p) / step.width < step.count) return nullptr;
                p += step.count * step.width;
                break;
            case Step::What::TextSequence:
            case Step::What::Sequence:
                if (left(p) / step.width < slots[step.slot]) return nullptr;
                p += slots[step.slot] * step.width;
                break;
            case Step::What::Align:
                p = aligned(p, step.count);
                break;
            default:
                break;
            }
        }
        return p;
    }

    const Layout &layout_;
    const size_t trace_;
    WorkerOutput &output_;
    std::vector<std::vector<Builder *>> builders_; // by stream and event
    const uint8_t *start_ = nullptr;
    const uint8_t *end_ = nullptr;
};

class LttngSource final : public Source {
  public:
    LttngSource(const std::string &path, const tsdl::Trace &trace, const SourceOptions &options, Output &output)
        : number_(options.trace), layout_(lttng::compile(trace, options.filter, options.raw)) {
        info_.path = path;
        info_.decoder = "fast";
        info_.env = trace.env;
        const tsdl::Clock &clock = trace.clocks.front();
        if (clock.frequency == 0) throw lttng::Declined("a clock that stands still");
        info_.clock_frequency = clock.frequency;
        const auto part = static_cast<__int128>(clock.offset) * 1'000'000'000 / static_cast<__int128>(clock.frequency);
        info_.clock_offset = static_cast<int64_t>(static_cast<__int128>(clock.offset_seconds) * 1'000'000'000 + part);
        for (const StreamLayout &stream : layout_.streams) {
            for (const EventLayout &event : stream.events) {
                if (event.schema) output.declare(event.schema);
            }
        }
        for (const StreamFile &file : stream_files(path)) {
            const std::string name = path + "/" + file.name;
            const auto span = options.spans.find(name);
            scan(name, span == options.spans.end() ? Span{} : span->second, output);
        }
    }

    size_t pieces() const override { return pieces_.size(); }
    size_t taken() const override { return std::min(next_.load(std::memory_order_relaxed), pieces_.size()); }

    void work(WorkerOutput &output) override {
        Decoder decoder(layout_, number_, output);
        Window window;
        for (;;) {
            const size_t next = next_.fetch_add(1);
            if (next >= pieces_.size()) return;
            const Piece &piece = pieces_[next];
            const File file(piece.path);
            if (!file.is_open()) {
                output.output().problem(piece.path + ": " + strerror(errno));
                continue;
            }
            for (const Packet &packet : piece.packets) {
                if (output.closed()) return;
                decode(decoder, window, file, piece.path, packet, output.output());
            }
        }
    }

  private:
    struct Piece {
        std::string path;
        std::vector<Packet> packets;
    };

    void scan(const std::string &path, const Span &span, Output &output) {
        const File file(path, span.end);
        if (!file.is_open()) {
            output.problem(path + ": " + strerror(errno));
            return;
        }
        uint64_t bytes = piece_bytes;
        for (const Packet &packet : Scanner(layout_, file, path, output).run(span.begin)) {
            if (bytes >= piece_bytes) {
                pieces_.push_back({path, {}});
                bytes = 0;
            }
            pieces_.back().packets.push_back(packet);
            bytes += packet.size;
        }
    }

    static void decode(Decoder &decoder, Window &window, const File &file, const std::string &path, const Packet &packet,
                       Output &output) {
        size_t size = packet.size, stopped = 0;
        const uint8_t *data = window.get(file, packet.place, size);
        const char *wrong = size < packet.size ? "the file was cut while it was read" : nullptr;
        if (data != nullptr) {
            const char *in_packet = decoder.packet(data, size, packet.stream, stopped);
            // The end of a packet that is cut is reported already.
            if (wrong == nullptr && !packet.cut) wrong = in_packet;
        }
        if (wrong == nullptr) return;
        output.problem(path + ": damaged at byte " + std::to_string(packet.place + stopped) + ": " + wrong +
                       "; the rest of its packet is lost");
    }

    const size_t number_;
    const Layout layout_;
    std::vector<Piece> pieces_;
    std::atomic<size_t> next_{0};
};

} // namespace

std::unique_ptr<Source> open_lttng(const std::string &path, const tsdl::Trace &trace, const SourceOptions &options,
                                   Output &output) {
    return std::make_unique<LttngSource>(path, trace, options, output);
}

} // namespace occatrace::columns
