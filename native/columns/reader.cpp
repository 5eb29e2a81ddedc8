// Finding traces, choosing decoders, running workers (see reader.h).
#include "reader.h"

#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace occatrace::columns {

namespace {

unsigned usable_processors() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
    return std::max(1u, std::thread::hardware_concurrency());
}

Limits limits_of(const ReaderOptions &options) {
    Limits limits;
    limits.batch_rows = std::max<size_t>(1, options.batch_rows);
    return limits;
}

void find_below(const std::string &path, unsigned depth, std::vector<std::string> &found) {
    struct stat status{};
    if (stat((path + "/metadata").c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
        found.push_back(path);
        return; // what lies below a trace (index/) is the trace's
    }
    // Deeper than any layout of LTTng's; also ends loops of links.
    if (depth == 0) return;
    DIR *folder = opendir(path.c_str());
    if (folder == nullptr) return;
    std::vector<std::string> inner;
    while (const dirent *entry = readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        const std::string name = path + "/" + entry->d_name;
        if (stat(name.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) inner.push_back(name);
    }
    closedir(folder);
    for (const std::string &name : inner) find_below(name, depth - 1, found);
}

} // namespace

std::vector<std::string> find_traces(const std::string &path) {
    std::vector<std::string> found;
    find_below(path, 16, found);
    std::sort(found.begin(), found.end());
    return found;
}

Reader::Reader(const std::string &path, const ReaderOptions &options)
    : output_(limits_of(options)), workers_(options.threads > 0 ? std::min(options.threads, 1024u) : usable_processors()) {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) throw TraceError("cannot open " + path + ": " + strerror(errno));
    std::string last;
    for (const std::string &folder : find_traces(path)) {
        SourceOptions source;
        source.trace = sources_.size();
        source.workers = workers_;
        source.filter = EventFilter(options.events);
        source.spans = options.spans;
        source.raw = options.raw;
        try {
            sources_.push_back(open_trace(folder, options.decoder, source, output_));
            traces_.push_back(sources_.back()->info());
        } catch (const TraceError &error) {
            last = error.what();
            output_.problem(last);
        }
    }
    if (sources_.empty()) throw TraceError(last.empty() ? "no CTF trace in " + path + " or below" : last);
}

Reader::~Reader() { close(); }

void Reader::start() {
    started_ = true;
    output_.add_workers(workers_);
    for (unsigned i = 0; i < workers_; i++) {
        threads_.emplace_back([this] {
            std::exception_ptr failure;
            try {
                WorkerOutput output(output_, workers_);
                for (const auto &source : sources_) source->work(output);
                output.flush();
            } catch (...) {
                failure = std::current_exception();
            }
            output_.worker_done(failure);
        });
    }
}

std::unique_ptr<Batch> Reader::next(unsigned milliseconds) {
    if (closed_) return nullptr;
    if (!started_) start();
    return output_.take(milliseconds);
}

double Reader::progress() const {
    size_t pieces = 0, taken = 0;
    for (const auto &source : sources_) {
        pieces += source->pieces();
        taken += source->taken();
    }
    return pieces == 0 ? -1 : static_cast<double>(taken) / static_cast<double>(pieces);
}

void Reader::close() {
    closed_ = true;
    output_.close();
    for (std::thread &thread : threads_) thread.join();
    threads_.clear();
    sources_.clear();
}

} // namespace occatrace::columns
