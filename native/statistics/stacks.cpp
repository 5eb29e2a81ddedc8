#include "stacks.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace occatrace {

namespace {

uint64_t pair(uint32_t high, uint32_t low) { return static_cast<uint64_t>(high) << 32 | low; }

} // namespace

uint32_t StackTree::node(uint32_t above, uint32_t name) {
    const auto [found, fresh] = nodes_.try_emplace(pair(above, name), static_cast<uint32_t>(parent.size()));
    if (fresh) {
        parent.push_back(above);
        text.push_back(name);
        calls.push_back(0);
        time.push_back(0);
        idle.push_back(0);
    }
    return found->second;
}

StackFolding::StackFolding(std::vector<uint32_t> owners, std::vector<Frame> texts)
    : owners_(std::move(owners)), texts_(std::move(texts)), threads_(owners_.size()) {}

void StackFolding::busy(size_t rows, const uint32_t *process, const uint64_t *start, const uint64_t *end) {
    for (size_t row = 0; row < rows; row++) {
        if (end[row] <= start[row]) continue;
        Busy &work = busy_[process[row]];
        if (!work.start.empty() && start[row] <= work.end.back()) {
            work.end.back() = std::max(work.end.back(), end[row]);
            continue;
        }
        work.before.push_back(work.start.empty() ? 0 : work.before.back() + work.end.back() - work.start.back());
        work.start.push_back(start[row]);
        work.end.push_back(end[row]);
    }
}

void StackFolding::line(uint32_t process, uint32_t number, std::vector<uint32_t> texts) {
    lines_[pair(process, number)] = std::move(texts);
}

void StackFolding::path(uint32_t process, uint32_t number, uint32_t line, std::vector<uint32_t> texts) {
    paths_[{process, number, line}] = std::move(texts);
}

void StackFolding::mark(size_t rows, const uint32_t *thread, const uint32_t *seq) {
    for (size_t row = 0; row < rows; row++) {
        if (thread[row] >= threads_.size()) throw std::invalid_argument("thread: there is no such thread");
        std::vector<uint32_t> &seqs = threads_[thread[row]].seqs;
        if (!seqs.empty() && seqs.back() >= seq[row]) throw std::invalid_argument("marked calls are not in order");
        seqs.push_back(seq[row]);
        threads_[thread[row]].nodes.push_back(NO_NODE);
    }
}

StackFolding::Marked StackFolding::take_marked() {
    Marked out;
    size_t most = 0;
    for (const Thread &thread : threads_) most += thread.seqs.size();
    for (auto *column : {&out.thread, &out.seq, &out.node}) column->reserve(most);
    for (size_t number = 0; number < threads_.size(); number++) {
        const std::vector<uint32_t> seqs = std::exchange(threads_[number].seqs, {}), nodes = std::exchange(threads_[number].nodes, {});
        for (size_t at = 0; at < seqs.size(); at++) {
            if (nodes[at] == NO_NODE) continue;
            out.thread.push_back(static_cast<uint32_t>(number));
            out.seq.push_back(seqs[at]);
            out.node.push_back(nodes[at]);
        }
    }
    return out;
}

void StackFolding::found(Thread &thread, uint32_t seq, uint32_t node) {
    size_t &at = thread.at;
    if (at >= thread.seqs.size() || thread.seqs[at] != seq) {
        const auto next = std::lower_bound(thread.seqs.begin(), thread.seqs.end(), seq);
        at = static_cast<size_t>(next - thread.seqs.begin());
        if (next == thread.seqs.end() || *next != seq) return;
    }
    thread.nodes[at++] = node;
}

uint64_t StackFolding::until(const Busy &work, uint64_t moment, size_t &near) {
    // The number of intervals that began: most often that of the last frame, or few more.
    constexpr size_t steps = 8;
    size_t at = near;
    if (at == 0 || work.start[at - 1] <= moment) {
        const size_t last = std::min(at + steps, work.start.size());
        while (at < last && work.start[at] <= moment) at++;
        if (at == last && at < work.start.size() && work.start[at] <= moment) at = SIZE_MAX;
    } else {
        at = SIZE_MAX;
    }
    if (at == SIZE_MAX)
        at = static_cast<size_t>(std::upper_bound(work.start.begin(), work.start.end(), moment) - work.start.begin());
    near = at;
    if (at == 0) return 0;
    return work.before[at - 1] + std::min(moment, work.end[at - 1]) - work.start[at - 1];
}

int64_t StackFolding::idle(const Busy &work, uint64_t start, uint64_t end, size_t &near) {
    if (end <= start) return 0;
    const uint64_t before = until(work, start, near);
    size_t after = near; // the next frame begins nearer to this one's start
    return static_cast<int64_t>(end - start - (until(work, end, after) - before));
}

void StackFolding::add(const FrameColumns &batch) {
    for (size_t i = 0; i < batch.rows; i++)
        if (batch.thread[i] >= threads_.size() || batch.text[i] >= texts_.size())
            throw std::invalid_argument("thread or text: there is no such one");
    uint32_t process = 0;
    StackTree *tree = nullptr;
    const Busy *work = nullptr;
    for (size_t i = 0; i < batch.rows; i++) {
        const size_t row = batch.order != nullptr ? static_cast<size_t>(batch.order[i]) : i;
        Thread &thread = threads_[batch.thread[row]];
        const uint32_t owner = owners_[batch.thread[row]];
        if (tree == nullptr || owner != process) {
            process = owner;
            tree = &trees_[process];
            const auto there = busy_.find(process);
            work = there != busy_.end() ? &there->second : nullptr;
        }
        const uint64_t start = batch.start[row], end = std::max(batch.end[row], start);
        std::vector<Open> &open = thread.open;
        while (!open.empty() && open.back().end <= start) open.pop_back();
        const Open around = open.empty() ? Open{0, NO_NODE, false, false} : open.back();
        uint32_t above = around.node;
        const uint32_t line = batch.line != nullptr ? batch.line[row] : 0, path = batch.path != nullptr ? batch.path[row] : 0;
        const std::vector<uint32_t> *outer = nullptr;
        if (path != 0 && !around.call) {
            const auto known = paths_.find({process, path, line});
            if (known != paths_.end()) outer = &known->second;
        } else if (line != 0 && !around.lines) {
            const auto known = lines_.find(pair(process, line));
            if (known != lines_.end()) outer = &known->second;
        }
        if (outer != nullptr)
            for (const uint32_t text : *outer) above = tree->node(above, text);
        const uint32_t node = tree->node(above, batch.text[row]);
        const bool within = around.node != NO_NODE;
        tree->calls[node]++;
        tree->time[node] += static_cast<int64_t>(end - start);
        if (within) tree->time[around.node] -= static_cast<int64_t>(std::min(end, around.end) - start);
        if (work != nullptr) {
            tree->idle[node] += idle(*work, start, end, thread.interval);
            if (within) tree->idle[around.node] -= idle(*work, start, std::min(end, around.end), thread.interval);
        }
        const Frame kind = texts_[batch.text[row]];
        if (kind == Frame::call && !thread.seqs.empty()) found(thread, batch.seq[row], node);
        open.push_back(Open{end, node, around.lines || line != 0, around.call || kind != Frame::range});
    }
}

} // namespace occatrace
