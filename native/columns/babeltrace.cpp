// Any CTF trace into columns through libbabeltrace2: graphs of source.ctf.fs and one simple sink per port, without the muxer
// (merging streams by time costs more than decoding them). Each worker builds graphs of its own over some of the ports.
#include "babeltrace_fields.h"

namespace occatrace::columns {

namespace {

// libbabeltrace2 keeps lists of plug-ins and component classes for the whole process: graphs are made and ended one at a
// time, and run at the same time.
std::mutex library;

constexpr uint64_t most_ports_per_graph = 32; // each port keeps files open
constexpr unsigned trial_step_ms = 1, most_trial_ms = 10'000;

// What the library has to say about the failure that this thread just met, the cause first.
std::string take_error() {
    const bt_error *error = bt_current_thread_take_error();
    if (error == nullptr) return "unknown error";
    std::string text;
    // The first cause is the innermost: what happened; the others say who asked for it.
    if (bt_error_get_cause_count(error) > 0) {
        text = bt_error_cause_get_message(bt_error_borrow_cause_by_index(error, 0));
    }
    bt_error_release(error);
    return text.empty() ? "unknown error" : text;
}

[[noreturn]] void fail(const char *what) { throw TraceError(std::string(what) + ": " + take_error()); }

std::string text_of(const bt_value *value) {
    switch (bt_value_get_type(value)) {
    case BT_VALUE_TYPE_STRING:
        return bt_value_string_get(value);
    case BT_VALUE_TYPE_UNSIGNED_INTEGER:
        return std::to_string(bt_value_integer_unsigned_get(value));
    case BT_VALUE_TYPE_SIGNED_INTEGER:
        return std::to_string(bt_value_integer_signed_get(value));
    default:
        return "";
    }
}

// The CTF plug-in that a wheel brings beside this module (tools/wheel); null where there is none.
const bt_plugin *bundled_plugin() {
    static const char here = 0;
    Dl_info info{};
    if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return nullptr;
    const std::string module = info.dli_fname;
    const std::string file = module.substr(0, module.rfind('/') + 1) + "bundle/plugins/babeltrace-plugin-ctf.so";
    if (access(file.c_str(), R_OK) != 0) return nullptr;
    const bt_plugin_set *plugins = nullptr;
    if (bt_plugin_find_all_from_file(file.c_str(), BT_FALSE, &plugins) != BT_PLUGIN_FIND_ALL_FROM_FILE_STATUS_OK) return nullptr;
    const bt_plugin *plugin = bt_plugin_set_borrow_plugin_by_index_const(plugins, 0);
    bt_plugin_get_ref(plugin);
    bt_plugin_set_put_ref(plugins);
    return plugin;
}

// One input of source.ctf.fs with its graph.
class Graph {
  public:
    explicit Graph(const std::string &path) {
        const std::lock_guard<std::mutex> lock(library);
        try {
            open(path);
        } catch (...) {
            release();
            throw;
        }
    }

    // Throws TraceError if the library ends the process, or does not come back, when it opens this trace: tried in a child.
    static void try_to_open(const std::string &path) {
        const std::lock_guard<std::mutex> lock(library); // nobody holds it in the child
        const pid_t child = fork();
        if (child == 0) try_in_child(path);
        if (child < 0) return; // no processes left: better a risk than no report
        for (unsigned waited = 0; waited < most_trial_ms; waited += trial_step_ms) {
            int status = 0;
            const pid_t ended = waitpid(child, &status, WNOHANG);
            // Who reaps all children may have been faster than we.
            if ((ended < 0 && errno != EINTR) || (ended == child && WIFEXITED(status))) return;
            if (ended == child) throw TraceError("babeltrace2 dies of its metadata");
            usleep(trial_step_ms * 1000);
        }
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        throw TraceError("babeltrace2 does not come back from its metadata");
    }
    ~Graph() {
        const std::lock_guard<std::mutex> lock(library);
        release();
    }
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;

    uint64_t ports() const { return bt_component_source_get_output_port_count(source_); }

    std::string port_name(uint64_t index) const {
        return bt_port_get_name(
            bt_port_output_as_port_const(bt_component_source_borrow_output_port_by_index_const(source_, index)));
    }

    // `data` lives until run() has returned.
    void add_sink(uint64_t port, bt_graph_simple_sink_component_consume_func consume, void *data) {
        const std::lock_guard<std::mutex> lock(library);
        const bt_component_sink *sink = nullptr;
        const std::string name = "columns-" + std::to_string(port);
        if (bt_graph_add_simple_sink_component(graph_, name.c_str(), nullptr, consume, nullptr, data, &sink) !=
            BT_GRAPH_ADD_COMPONENT_STATUS_OK) {
            fail("cannot add a sink");
        }
        if (bt_graph_connect_ports(graph_, bt_component_source_borrow_output_port_by_index_const(source_, port),
                                   bt_component_sink_borrow_input_port_by_index_const(sink, 0),
                                   nullptr) != BT_GRAPH_CONNECT_PORTS_STATUS_OK) {
            fail("cannot connect a stream");
        }
    }

    // Until all sinks have ended. An empty text, or what went wrong.
    std::string run() {
        const bt_graph_run_status status = bt_graph_run(graph_);
        return status == BT_GRAPH_RUN_STATUS_OK || status == BT_GRAPH_RUN_STATUS_AGAIN ? std::string() : take_error();
    }

  private:
    Graph() = default;

    [[noreturn]] static void try_in_child(const std::string &path) {
        const rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        // Its last words are for its authors.
        const int nowhere = ::open("/dev/null", O_WRONLY);
        if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
        for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) signal(number, SIG_DFL);
        try {
            (new Graph)->open(path); // never deleted: the lock that it would take is held, and the end is near
            _exit(0);
        } catch (...) {
            _exit(0); // an error in words is the parent's to meet again
        }
    }

    void open(const std::string &path) {
        plugin_ = bundled_plugin();
        if (plugin_ == nullptr &&
            bt_plugin_find("ctf", BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, &plugin_) != BT_PLUGIN_FIND_STATUS_OK) {
            throw TraceError("babeltrace2's CTF plug-in is not found (install the package babeltrace2 or libbabeltrace2-0)");
        }
        const bt_component_class_source *fs = bt_plugin_borrow_source_component_class_by_name_const(plugin_, "fs");
        if (fs == nullptr) throw TraceError("babeltrace2's CTF plug-in has no component class source.ctf.fs");
        graph_ = bt_graph_create(0);
        params_ = bt_value_map_create();
        bt_value *inputs = nullptr;
        if (graph_ == nullptr || params_ == nullptr ||
            bt_value_map_insert_empty_array_entry(params_, "inputs", &inputs) != BT_VALUE_MAP_INSERT_ENTRY_STATUS_OK ||
            bt_value_array_append_string_element(inputs, path.c_str()) != BT_VALUE_ARRAY_APPEND_ELEMENT_STATUS_OK) {
            fail("babeltrace2 has no memory");
        }
        if (bt_graph_add_source_component(graph_, fs, "source", params_, BT_LOGGING_LEVEL_NONE, &source_) !=
            BT_GRAPH_ADD_COMPONENT_STATUS_OK) {
            throw TraceError(take_error());
        }
    }

    void release() {
        bt_graph_put_ref(graph_);
        bt_value_put_ref(params_);
        bt_plugin_put_ref(plugin_);
    }

    const bt_plugin *plugin_ = nullptr;
    bt_graph *graph_ = nullptr;
    bt_value *params_ = nullptr;
    const bt_component_source *source_ = nullptr;
};

// What a stream's beginning says of its trace.
struct Probe {
    TraceInfo &info;
    const EventFilter &filter;
    Output &output;

    static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator, void *data) {
        auto &probe = *static_cast<Probe *>(data);
        bt_message_array_const messages = nullptr;
        uint64_t count = 0;
        if (bt_message_iterator_next(iterator, &messages, &count) != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK) {
            bt_current_thread_clear_error(); // reading proper will meet it again, and report it
            return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
        }
        for (uint64_t i = 0; i < count; i++) {
            if (bt_message_get_type(messages[i]) == BT_MESSAGE_TYPE_STREAM_BEGINNING) {
                probe.stream(bt_message_stream_beginning_borrow_stream_const(messages[i]));
            }
            bt_message_put_ref(messages[i]);
        }
        return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
    }

    void stream(const bt_stream *stream) {
        const bt_trace *trace = bt_stream_borrow_trace_const(stream);
        for (uint64_t i = 0; i < bt_trace_get_environment_entry_count(trace); i++) {
            const char *name = nullptr;
            const bt_value *value = nullptr;
            bt_trace_borrow_environment_entry_by_index_const(trace, i, &name, &value);
            info.env[name] = text_of(value);
        }
        const bt_stream_class *type = bt_stream_borrow_class_const(stream);
        const bt_clock_class *clock = bt_stream_class_borrow_default_clock_class_const(type);
        if (clock != nullptr) {
            int64_t seconds = 0;
            uint64_t cycles = 0;
            bt_clock_class_get_offset(clock, &seconds, &cycles);
            info.clock_frequency = bt_clock_class_get_frequency(clock);
            const auto fraction = static_cast<int64_t>(static_cast<unsigned __int128>(cycles) * 1'000'000'000u /
                                                       std::max<uint64_t>(1, info.clock_frequency));
            info.clock_offset = static_cast<int64_t>(static_cast<uint64_t>(seconds) * 1'000'000'000u) + fraction;
        }
        for (uint64_t i = 0; i < bt_stream_class_get_event_class_count(type); i++) {
            const bt_event_class *event = bt_stream_class_borrow_event_class_by_index_const(type, i);
            const char *name = bt_event_class_get_name(event);
            if (filter.accepts(name != nullptr ? name : "")) output.declare(plan_event(event, output, nullptr));
        }
    }
};

// One worker's graph at work: its plans, and the rows that they fill.
class Decoder {
  public:
    Decoder(const SourceOptions &options, WorkerOutput &output,
            std::vector<std::shared_ptr<const Schema>> &schemas, std::mutex &schemas_mutex)
        : options_(options), output_(output), schemas_(schemas), schemas_mutex_(schemas_mutex) {}

    // False: nobody reads any more.
    bool closed() const { return output_.closed(); }
    void problem(const std::string &text) { output_.output().problem(text); }

    void event(const bt_message *message) {
        const bt_event *event = bt_message_event_borrow_event_const(message);
        const bt_event_class *type = bt_event_borrow_class_const(event);
        if (type != last_type_) {
            last_plan_ = &plan(type);
            last_type_ = type;
        }
        const Plan &plan = *last_plan_;
        if (plan.builder == nullptr) return;
        Builder &builder = *plan.builder;
        builder.begin();
        uint64_t time = 0;
        if (has_clock_) {
            time = bt_clock_snapshot_get_value(bt_message_event_borrow_default_clock_snapshot_const(message));
        }
        builder.set<uint64_t>(0, time);
        StringCache &strings = output_.strings();
        if (!plan.common.inner.empty()) {
            store_structure(plan.common, bt_event_borrow_common_context_field_const(event), builder, strings);
        }
        if (!plan.specific.inner.empty()) {
            store_structure(plan.specific, bt_event_borrow_specific_context_field_const(event), builder, strings);
        }
        if (!plan.payload.inner.empty()) {
            store_structure(plan.payload, bt_event_borrow_payload_field_const(event), builder, strings);
        }
        builder.commit();
    }

    void stream(const bt_stream *stream) {
        has_clock_ = bt_stream_class_borrow_default_clock_class_const(bt_stream_borrow_class_const(stream)) != nullptr;
    }

  private:
    Plan &plan(const bt_event_class *type) {
        const auto found = plans_.find(type);
        if (found != plans_.end()) return found->second;
        Plan &plan = plans_[type];
        const char *name = bt_event_class_get_name(type);
        if (!options_.filter.accepts(name != nullptr ? name : "")) return plan;
        std::shared_ptr<const Schema> schema = plan_event(type, output_.output(), &plan);
        plan.builder = &output_.builder(shared(std::move(schema)), options_.trace);
        output_.output().declare(plan.builder->schema());
        return plan;
    }

    // The same event in several graphs is one schema, so that rows of one worker's graphs meet in one builder.
    std::shared_ptr<const Schema> shared(std::shared_ptr<const Schema> schema) {
        const std::lock_guard<std::mutex> lock(schemas_mutex_);
        for (const auto &known : schemas_) {
            if (*known == *schema) return known;
        }
        schemas_.push_back(schema);
        return schema;
    }

    const SourceOptions &options_;
    WorkerOutput &output_;
    std::vector<std::shared_ptr<const Schema>> &schemas_;
    std::mutex &schemas_mutex_;
    std::unordered_map<const bt_event_class *, Plan> plans_;
    const bt_event_class *last_type_ = nullptr;
    Plan *last_plan_ = nullptr;
    bool has_clock_ = false;
};

// One port: all of a stream, in one call of the graph.
struct Port {
    Decoder *decoder;
    std::string name;

    static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator, void *data) {
        auto &port = *static_cast<Port *>(data);
        try {
            port.read(iterator);
        } catch (const std::exception &error) {
            // An exception must not pass through the library's C code.
            port.decoder->problem(port.name + ": " + error.what());
        }
        return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
    }

    void read(bt_message_iterator *iterator) {
        while (!decoder->closed()) {
            bt_message_array_const messages = nullptr;
            uint64_t count = 0;
            const bt_message_iterator_next_status status = bt_message_iterator_next(iterator, &messages, &count);
            if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN) continue;
            if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_END) return;
            if (status != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK) {
                // Ending this sink only: the other streams of the graph are read on.
                decoder->problem(name + ": damaged or truncated, read up to there: " + take_error());
                return;
            }
            for (uint64_t i = 0; i < count; i++) {
                switch (bt_message_get_type(messages[i])) {
                case BT_MESSAGE_TYPE_EVENT:
                    decoder->event(messages[i]);
                    break;
                case BT_MESSAGE_TYPE_STREAM_BEGINNING:
                    decoder->stream(bt_message_stream_beginning_borrow_stream_const(messages[i]));
                    break;
                default:
                    break;
                }
                bt_message_put_ref(messages[i]);
            }
        }
    }
};

// A folder of links to the metadata and one stream, for traces of which babeltrace2 refuses all because of one stream.
class StreamFolder {
  public:
    StreamFolder(const std::string &trace, const std::string &stream) {
        const char *base = getenv("TMPDIR");
        folder_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/occatrace-stream-XXXXXX";
        if (mkdtemp(folder_.data()) == nullptr) throw TraceError("cannot make a folder in " + folder_);
        char *absolute = realpath(trace.c_str(), nullptr);
        const std::string from = absolute != nullptr ? absolute : trace;
        free(absolute);
        stream_ = stream;
        if (symlink((from + "/metadata").c_str(), (folder_ + "/metadata").c_str()) != 0 ||
            symlink((from + "/" + stream).c_str(), (folder_ + "/" + stream).c_str()) != 0) {
            remove();
            throw TraceError("cannot make links in " + folder_);
        }
    }
    ~StreamFolder() { remove(); }
    StreamFolder(const StreamFolder &) = delete;
    StreamFolder &operator=(const StreamFolder &) = delete;
    const std::string &path() const { return folder_; }

  private:
    void remove() {
        unlink((folder_ + "/metadata").c_str());
        unlink((folder_ + "/" + stream_).c_str());
        rmdir(folder_.c_str());
    }
    std::string folder_, stream_;
};

class BabeltraceSource final : public Source {
  public:
    BabeltraceSource(const std::string &path, const SourceOptions &options, Output &output) : options_(options) {
        info_.path = path;
        info_.decoder = "babeltrace2";
        // The library's own log would go to stderr, beside the problems that we report.
        bt_logging_set_global_level(BT_LOGGING_LEVEL_NONE);
        try {
            if (options.doubtful) Graph::try_to_open(path);
            Graph graph(path);
            ports_ = graph.ports();
            pieces_.push_back({path, ""});
            probe(graph, output);
        } catch (const TraceError &error) {
            open_apart(error.what(), output);
        }
    }

    void work(WorkerOutput &output) override {
        for (;;) {
            std::string path, name;
            uint64_t first = 0, count = 0;
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                if (ports_ > 0 && !pieces_.empty()) {
                    path = pieces_.front().path;
                    const uint64_t share = (ports_ + options_.workers * 4 - 1) / (options_.workers * 4);
                    first = next_;
                    count = std::min({share, most_ports_per_graph, ports_ - next_});
                    next_ += count;
                    if (next_ == ports_) pieces_.clear();
                } else if (!pieces_.empty()) {
                    path = pieces_.back().path;
                    name = pieces_.back().name;
                    first = 0;
                    count = UINT64_MAX;
                    pieces_.pop_back();
                } else {
                    return;
                }
            }
            if (output.closed()) return;
            try {
                read(path, name, first, count, output);
            } catch (const TraceError &error) {
                output.output().problem(info_.path + ": " + error.what());
            }
        }
    }

  private:
    struct Piece {
        std::string path;
        std::string name; // of the stream's file, where streams are opened apart
    };

    void probe(Graph &graph, Output &output) {
        if (graph.ports() == 0) return;
        Probe probe{info_, options_.filter, output};
        graph.add_sink(0, Probe::consume, &probe);
        const std::string error = graph.run();
        if (!error.empty()) throw TraceError(error);
    }

    // One damaged stream makes babeltrace2 refuse the whole trace: each stream as a trace of its own then.
    void open_apart(const std::string &why, Output &output) {
        ports_ = 0;
        pieces_.clear();
        bool probed = false;
        std::vector<std::string> refused;
        for (const auto &[name, size] : stream_files(info_.path)) {
            if (size == 0) continue;
            try {
                folders_.push_back(std::make_unique<StreamFolder>(info_.path, name));
                if (options_.doubtful) Graph::try_to_open(folders_.back()->path());
                Graph graph(folders_.back()->path());
                if (!probed) probe(graph, output);
                probed = true;
                pieces_.push_back({folders_.back()->path(), name});
            } catch (const TraceError &error) {
                std::string text = error.what();
                if (folders_.size() > pieces_.size()) {
                    // The folder of links means nothing to the reader of the message.
                    const std::string &folder = folders_.back()->path();
                    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder)) {
                        text.replace(at, folder.size(), info_.path);
                    }
                    folders_.pop_back();
                }
                refused.push_back(info_.path + "/" + name + ": damaged or truncated, not read: " + text);
            }
        }
        if (pieces_.empty()) throw TraceError("cannot read the trace " + info_.path + ": " + why);
        for (const std::string &problem : refused) output.problem(problem);
    }

    void read(const std::string &path, const std::string &name, uint64_t first, uint64_t count, WorkerOutput &output) {
        Decoder decoder(options_, output, schemas_, schemas_mutex_);
        Graph graph(path);
        const uint64_t ports = graph.ports();
        const uint64_t end = std::min(ports, count > ports ? ports : first + count);
        std::vector<std::unique_ptr<Port>> sinks;
        for (uint64_t port = first; port < end; port++) {
            const std::string shown = name.empty() ? graph.port_name(port) : info_.path + "/" + name;
            sinks.push_back(std::make_unique<Port>(Port{&decoder, shown}));
            graph.add_sink(port, Port::consume, sinks.back().get());
        }
        if (sinks.empty()) return;
        const std::string error = graph.run();
        if (!error.empty()) output.output().problem(info_.path + ": " + error);
    }

    const SourceOptions options_;
    std::mutex mutex_;
    uint64_t ports_ = 0; // of the whole trace; 0 where streams are opened apart
    uint64_t next_ = 0;
    std::vector<Piece> pieces_;
    std::vector<std::unique_ptr<StreamFolder>> folders_;
    std::mutex schemas_mutex_;
    std::vector<std::shared_ptr<const Schema>> schemas_;
};

} // namespace

std::string babeltrace_version() {
    return std::to_string(bt_version_get_major()) + "." + std::to_string(bt_version_get_minor()) + "." +
           std::to_string(bt_version_get_patch());
}

bool babeltrace_reads_ctf2() { return bt_version_get_major() > 2 || bt_version_get_minor() >= 1; }

std::unique_ptr<Source> open_babeltrace(const std::string &path, const SourceOptions &options, Output &output) {
    return std::make_unique<BabeltraceSource>(path, options, output);
}

} // namespace occatrace::columns
