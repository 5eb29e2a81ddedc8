// Folds calls and ranges, which nest within their threads, into a tree of stacks per process, in the order of time and one
// batch at a time. Bounded in memory by the nodes of the trees and the open frames. Names are numbers here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace occatrace {

constexpr uint32_t NO_NODE = UINT32_MAX;

// Frames by their start, of which none of a later batch begins before those of an earlier one.
struct FrameColumns {
    size_t rows = 0;
    const uint32_t *thread = nullptr, *seq = nullptr, *text = nullptr;
    const uint64_t *start = nullptr, *end = nullptr;
    const uint32_t *line = nullptr, *path = nullptr; // stacks of Python and of the program around them, or null; 0: none
    const int64_t *order = nullptr; // rows by thread, start, end (the later first) and number, or null: they are so already
};

// What a text is the name of.
enum class Frame : uint8_t {
    range,
    call,
    unfinished,
};

// A node's parent comes before it; NO_NODE: it is outermost. Times are without those of the frames right within, in ns.
struct StackTree {
    std::vector<uint32_t> parent, text;
    std::vector<int64_t> calls, time, idle;
    uint32_t node(uint32_t above, uint32_t name);

  private:
    std::unordered_map<uint64_t, uint32_t> nodes_;
};

class StackFolding {
  public:
    // The process of each thread, and the kind of each text, both by number.
    StackFolding(std::vector<uint32_t> owners, std::vector<Frame> texts);

    // When devices had work, by process and start. Intervals may overlap.
    void busy(size_t rows, const uint32_t *process, const uint64_t *start, const uint64_t *end);
    // Texts of a stack of lines of Python, outermost first.
    void line(uint32_t process, uint32_t number, std::vector<uint32_t> texts);
    // Texts of a stack of the program, with the lines of Python of the stack `line` in it, if that is not 0.
    void path(uint32_t process, uint32_t number, uint32_t line, std::vector<uint32_t> texts);
    // Calls of which the node is wanted, by thread and number, each once.
    void mark(size_t rows, const uint32_t *thread, const uint32_t *seq);

    void add(const FrameColumns &batch);

    const std::map<uint32_t, StackTree> &trees() const { return trees_; }
    // The marked calls that came: their threads, numbers and nodes. Afterwards none is marked.
    struct Marked {
        std::vector<uint32_t> thread, seq, node;
    };
    Marked take_marked();

  private:
    struct Open {
        uint64_t end;
        uint32_t node;
        bool lines, call; // whether lines of Python, or a call, are around what is within
    };
    struct Thread {
        std::vector<Open> open;
        std::vector<uint32_t> seqs, nodes; // marked
        size_t at = 0;                     // in `seqs`: the calls come nearly in their order
        size_t interval = 0;               // of the process's work, near the last frame
    };
    struct Busy {
        std::vector<uint64_t> start, end, before; // `before`: how long there was work until then
    };

    static uint64_t until(const Busy &work, uint64_t moment, size_t &near);
    static int64_t idle(const Busy &work, uint64_t start, uint64_t end, size_t &near);
    void found(Thread &thread, uint32_t seq, uint32_t node);

    std::vector<uint32_t> owners_;
    std::vector<Frame> texts_;
    std::vector<Thread> threads_;
    std::map<uint32_t, StackTree> trees_;
    std::unordered_map<uint32_t, Busy> busy_;
    std::unordered_map<uint64_t, std::vector<uint32_t>> lines_;
    std::map<std::array<uint32_t, 3>, std::vector<uint32_t>> paths_; // by process, path and line
};

} // namespace occatrace
