// The one interface of all decoders: a source is one CTF trace that several workers read at once into their outputs.
#pragma once

#include "output.h"
#include "tsdl.h"

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace occatrace::columns {

// A trace cannot be read at all; the text says which and why.
class TraceError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct TraceInfo {
    std::string path;
    std::string decoder;
    std::string declined; // why the fast decoder left this trace to babeltrace2; empty if it did not, or was not asked
    std::map<std::string, std::string> env;
    int64_t clock_offset = 0; // ns to add to the clock for the time since 1970
    uint64_t clock_frequency = 1'000'000'000;
};

// Of which stream files only a part is read: from a packet's begin to one's end, in bytes. Of a trace that still grows.
struct Span {
    uint64_t begin = 0;
    uint64_t end = UINT64_MAX;
};
using Spans = std::map<std::string, Span>; // by the file's path

struct SourceOptions {
    size_t trace = 0;     // number of this trace in its reader
    unsigned workers = 1; // how many will call work()
    EventFilter filter{{}};
    Spans spans;          // known to the fast decoder alone
    bool raw = false;     // likewise: text of unsigned characters is a list of bytes
    bool doubtful = false; // its layout is not known to us: it may be damage that a library dies of
};

class Source {
  public:
    virtual ~Source() = default;
    const TraceInfo &info() const { return info_; }
    void set_declined(const std::string &why) { info_.declined = why; }

    // Called once by each worker, by all at the same time: takes pieces of the trace until none is left or nobody reads any
    // more. What cannot be read is reported by Output::problem(), never thrown.
    virtual void work(WorkerOutput &output) = 0;

    // Pieces of the trace, and how many of them have been taken; no pieces where the decoder does not know.
    virtual size_t pieces() const { return 0; }
    virtual size_t taken() const { return 0; }

  protected:
    TraceInfo info_;
};

// A file of a trace folder that holds a stream.
struct StreamFile {
    std::string name;
    uint64_t size; // bytes
};
// All of them, by name; none where the folder cannot be read.
std::vector<StreamFile> stream_files(const std::string &path);

// The version of libbabeltrace2, "2.0.4"; it reads CTF 2 from 2.1 on.
std::string babeltrace_version();
bool babeltrace_reads_ctf2();

// Any CTF trace, through libbabeltrace2. Throws TraceError if not even its metadata can be read.
std::unique_ptr<Source> open_babeltrace(const std::string &path, const SourceOptions &options, Output &output);

// LTTng-UST's own layout, without a library. Throws lttng::Declined for what it does not know.
std::unique_ptr<Source> open_lttng(const std::string &path, const tsdl::Trace &trace, const SourceOptions &options,
                                   Output &output);

// The decoder of choice for a trace: the fast one where it knows the layout. Babeltrace asks for babeltrace2, and gets it unless
// the fast decoder finds the trace damaged. Throws TraceError if the trace cannot be read at all.
enum class DecoderChoice {
    Automatic,
    Fast,
    Babeltrace,
};
std::unique_ptr<Source> open_trace(const std::string &path, DecoderChoice choice, const SourceOptions &options,
                                   Output &output);

} // namespace occatrace::columns
