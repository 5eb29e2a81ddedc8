// Which decoder reads a trace (see source.h).
#include "source.h"

#include "lttng_layout.h"

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

} // namespace

std::unique_ptr<Source> open_trace(const std::string &path, DecoderChoice choice, const SourceOptions &options,
                                   Output &output) {
    std::string declined;
    try {
        // For both decoders: babeltrace 2.0 does not return from metadata that is cut within a packet.
        const std::string text = tsdl::text_of(content_of(path + "/metadata"));
        if (choice != DecoderChoice::Babeltrace) {
            try {
                return open_lttng(path, tsdl::parse(text), options, output);
            } catch (const lttng::Declined &error) {
                declined = error.what();
            } catch (const tsdl::SyntaxError &error) {
                declined = error.what();
            }
        }
    } catch (const tsdl::MetadataError &error) {
        throw TraceError("cannot read the trace " + path + ": " + error.what());
    }
    std::unique_ptr<Source> source = open_babeltrace(path, options, output);
    source->set_declined(declined);
    return source;
}

} // namespace occatrace::columns
