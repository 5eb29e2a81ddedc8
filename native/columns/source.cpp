// Which decoder reads a trace (see source.h).
#include "source.h"

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
        struct stat status {};
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
    try {
        // For both decoders: babeltrace 2.0 does not return from metadata that is cut within a packet.
        const std::string text = tsdl::text_of(content_of(path + "/metadata"));
        try {
            const tsdl::Trace trace = tsdl::parse(text);
            // libbabeltrace2 ends the process, or takes all memory, at a damaged sequence length (seen in 2.0.4).
            const bool fast = choice != DecoderChoice::Babeltrace || is_damaged(path, trace);
            if (fast) return open_lttng(path, trace, options, output);
        } catch (const lttng::Declined &error) {
            declined = error.what();
        } catch (const tsdl::SyntaxError &error) {
            declined = error.what();
        }
    } catch (const tsdl::MetadataError &error) {
        throw TraceError("cannot read the trace " + path + ": " + error.what());
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
