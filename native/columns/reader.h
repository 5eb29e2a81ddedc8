// Reads all CTF traces below a folder: chooses each trace's decoder, runs the workers, gives batches to one consumer.
#pragma once

#include "source.h"

#include <thread>

namespace occatrace::columns {

struct ReaderOptions {
    unsigned threads = 0; // 0: one per processor that this process may use
    size_t batch_rows = 1'000'000;
    std::vector<std::string> events;
    DecoderChoice decoder = DecoderChoice::Automatic;
    Spans spans;
    bool raw = false; // text of unsigned characters is a list of bytes
};

class Reader {
  public:
    // Throws TraceError if there is no trace below `path`, or none can be read.
    Reader(const std::string &path, const ReaderOptions &options);
    ~Reader();
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;

    // The next batch, after at most `milliseconds`. Null: all is read if done(), else nothing was ready yet. The workers start
    // with the first call.
    std::unique_ptr<Batch> next(unsigned milliseconds);
    bool done() const { return closed_ || (started_ && output_.done()); }
    void close();
    // What part of the traces has been taken so far, 0 to 1; negative where no decoder knows.
    double progress() const;

    const std::vector<TraceInfo> &traces() const { return traces_; }
    const Output &output() const { return output_; }
    Output &output() { return output_; }
    unsigned threads() const { return workers_; }

  private:
    void start();

    Output output_;
    unsigned workers_;
    std::vector<std::unique_ptr<Source>> sources_;
    std::vector<TraceInfo> traces_;
    std::vector<std::thread> threads_;
    bool started_ = false;
    bool closed_ = false;
};

// Folders at and below `path` that hold a CTF trace, sorted.
std::vector<std::string> find_traces(const std::string &path);

} // namespace occatrace::columns
