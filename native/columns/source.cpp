// Which decoder reads a trace (see source.h).
#include "source.h"

#include "ctf2.h"
#include "lttng_layout.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace occatrace::columns {

namespace {

std::string content_of(const std::string &path) {
    FILE *file = fopen(path.c_str(), "re");
    if (file == nullptr) throw TraceError("cannot read " + path + ": " + strerror(errno));
    std::string content;
    char block[65536];
    size_t got = 0;
    while ((got = fread(block, 1, sizeof block, file)) > 0) content.append(block, got);
    const bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) throw TraceError("cannot read " + path);
    return content;
}

// Begin of a packet of LTTng-UST up to its sizes, in bits. A packet without events ends with what else it says of itself.
struct PacketHead {
    uint32_t magic;
    unsigned char uuid[16];
    uint32_t stream;
    uint64_t instance, begin, end, content_size, packet_size;
};
constexpr uint32_t packet_magic = 0xC1FC1FC1;
constexpr uint64_t empty_packet = 84 * 8;

// Are there events in a stream, or what may be some?
bool has_events(const std::string &path, uint64_t size) {
    const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path.c_str(), "re"), &fclose);
    if (!file) return true;
    PacketHead head;
    for (uint64_t at = 0; at < size; at += head.packet_size / 8) {
        if (fseeko(file.get(), static_cast<off_t>(at), SEEK_SET) != 0 || fread(&head, sizeof head, 1, file.get()) != 1) return true;
        if (head.magic != packet_magic || head.content_size > empty_packet || head.packet_size < empty_packet) return true;
    }
    return false;
}

// A program that ended as LTTng came to know of it: metadata without a stream, and packets without an event.
bool is_empty(const std::string &path, const tsdl::Trace &trace) {
    const std::vector<StreamFile> files = stream_files(path);
    return trace.streams.empty() && std::none_of(files.begin(), files.end(), [&](const StreamFile &file) {
               return has_events(path + "/" + file.name, file.size);
           });
}

class NothingToRead : public Source {
  public:
    explicit NothingToRead(const std::string &path) {
        info_.path = path;
        info_.decoder = "fast";
    }
    void work(WorkerOutput &) override {}
};

// Is something wrong with the packets of a trace whose layout we know? Costs a pass over it without columns.
bool is_damaged(const std::string &path, const tsdl::Trace &trace) {
    Output nowhere{Limits()};
    SourceOptions nothing;
    nothing.filter = EventFilter({""});
    const std::unique_ptr<Source> source = open_lttng(path, trace, nothing, nowhere);
    WorkerOutput output(nowhere, 1);
    source->work(output);
    return !nowhere.problems().empty();
}

} // namespace

std::vector<StreamFile> stream_files(const std::string &path) {
    std::vector<StreamFile> files;
    DIR *folder = opendir(path.c_str());
    if (folder == nullptr) return files;
    while (const dirent *entry = readdir(folder)) {
        const std::string name = entry->d_name;
        struct stat status{};
        if (name[0] == '.' || name == "metadata") continue;
        if (stat((path + "/" + name).c_str(), &status) == 0 && S_ISREG(status.st_mode))
            files.push_back({name, static_cast<uint64_t>(status.st_size)});
    }
    closedir(folder);
    std::sort(files.begin(), files.end(), [](const StreamFile &a, const StreamFile &b) { return a.name < b.name; });
    return files;
}

std::unique_ptr<Source> open_trace(const std::string &path, DecoderChoice choice, const SourceOptions &options,
                                   Output &output) {
    std::string declined;
    bool is_ctf2 = false;
    try {
        // For both decoders: babeltrace 2.0 does not return from metadata that is cut within a packet.
        const std::string text = tsdl::text_of(content_of(path + "/metadata"));
        try {
            is_ctf2 = ctf2::is_sequence(text);
            const tsdl::Trace trace = is_ctf2 ? ctf2::parse(text) : tsdl::parse(text);
            if (is_empty(path, trace)) return std::make_unique<NothingToRead>(path);
            if (trace.streams.empty() && trace.events.empty()) throw tsdl::MetadataError("the metadata ends before any event is declared: the recording was killed before it was written, or the file was cut");
            // libbabeltrace2 ends the process, or takes all memory, at a damaged sequence length (seen in 2.0.4).
            const bool fast = choice != DecoderChoice::Babeltrace || is_damaged(path, trace);
            if (fast) return open_lttng(path, trace, options, output);
        } catch (const lttng::Declined &error) {
            declined = error.what();
        } catch (const tsdl::SyntaxError &error) {
            declined = error.what();
        }
    } catch (const tsdl::MetadataError &error) {
        throw TraceError("cannot read the trace " + path + ": " + error.what() +
                         "; copy the run again if this is a copy, otherwise record it again");
    }
    if (is_ctf2 && !babeltrace_reads_ctf2()) {
        throw TraceError("cannot read the trace " + path + ": it is in CTF 2, which babeltrace2 knows from version 2.1 on (here: " +
                         babeltrace_version() + ")" + (declined.empty() ? "" : "; the fast decoder says: " + declined));
    }
    SourceOptions library = options;
    library.doubtful = !declined.empty();
    try {
        std::unique_ptr<Source> source = open_babeltrace(path, library, output);
        source->set_declined(declined);
        return source;
    } catch (const TraceError &error) {
        if (declined.empty()) throw;
        throw TraceError(std::string(error.what()) + " (the fast decoder says: " + declined + ")");
    }
}

} // namespace occatrace::columns
