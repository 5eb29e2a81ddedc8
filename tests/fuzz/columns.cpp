// libFuzzer target of the fast decoder: metadata and one stream of any bytes give rows or an error, never a crash, an endless
// loop or unbounded memory; what is delivered is consistent. Input: metadata size (u16, little-endian), metadata, stream.
// Run by tests/fuzz/run.
#include "../../native/columns/ctf2.h"
#include "../../native/columns/lttng_layout.h"
#include "../../native/columns/source.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace occatrace::columns;

// The other decoder is not linked; nothing here asks for it.
namespace occatrace::columns {
std::unique_ptr<Source> open_babeltrace(const std::string &, const SourceOptions &, Output &) { abort(); }
std::string babeltrace_version() { abort(); }
bool babeltrace_reads_ctf2() { abort(); }
} // namespace occatrace::columns

namespace {

const std::string &folder() {
    static const std::string path = [] {
        std::string made = "/dev/shm/occatrace-fuzz-XXXXXX";
        if (mkdtemp(made.data()) == nullptr) abort();
        return made;
    }();
    return path;
}

void check(bool holds) {
    if (!holds) abort();
}

void check_batch(const Batch &batch, size_t strings) {
    check(batch.columns.size() == batch.schema->fields.size());
    for (size_t i = 0; i < batch.columns.size(); i++) {
        const Column &column = batch.columns[i];
        const Field &field = batch.schema->fields[i];
        const size_t values = field.sequence ? column.values : batch.rows;
        if (field.sequence) {
            const auto *offsets = reinterpret_cast<const uint32_t *>(column.offsets.data());
            check(offsets[0] == 0 && offsets[batch.rows] == values);
            for (size_t row = 0; row < batch.rows; row++) check(offsets[row] <= offsets[row + 1]);
        }
        check(column.data.capacity() >= values * width_of(field.kind));
        if (field.kind != Kind::String) continue;
        for (size_t value = 0; value < values; value++) {
            check(reinterpret_cast<const uint32_t *>(column.data.data())[value] < strings);
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const size_t metadata = std::min<size_t>(data[0] | data[1] << 8, size - 2);
    const std::string_view content(reinterpret_cast<const char *>(data + 2), metadata);
    FILE *file = fopen((folder() + "/stream").c_str(), "wb");
    if (file == nullptr) abort();
    fwrite(data + 2 + metadata, 1, size - 2 - metadata, file);
    fclose(file);

    Limits limits;
    limits.batch_rows = 64;
    limits.waiting_bytes = SIZE_MAX / 2; // the one thread here both writes and reads
    Output output(limits);
    try {
        const std::string text = tsdl::text_of(content);
        const tsdl::Trace trace = ctf2::is_sequence(text) ? ctf2::parse(text) : tsdl::parse(text);
        const std::unique_ptr<Source> source = open_lttng(folder(), trace, SourceOptions(), output);
        WorkerOutput worker(output, 1);
        source->work(worker);
        worker.flush();
    } catch (const tsdl::MetadataError &) {
    } catch (const tsdl::SyntaxError &) {
    } catch (const lttng::Declined &) {
    }
    while (const std::unique_ptr<Batch> batch = output.take(0)) check_batch(*batch, output.strings().size());
    return 0;
}
