// Longest paths in a graph without cycles. What the nodes and edges mean is told in occatrace/reports/critical/graph.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace occatrace {

// Edges, in any order. An edge leads from a node to one of a higher number.
struct Edges {
    size_t count = 0;
    const uint32_t *source = nullptr;
    const uint32_t *target = nullptr;
    const double *weight = nullptr;
};

struct Longest {
    std::vector<double> times;   // of each node: the latest of its sources with the weights of their edges, at least its base
    std::vector<uint32_t> edges; // of each node: the edge that decided; NO_EDGE: its base did
};

constexpr uint32_t NO_EDGE = UINT32_MAX;

// The earliest times at which nodes can be reached, and by which edges. Throws std::invalid_argument where an edge does not
// lead to a higher node.
Longest longest(std::vector<double> base, const Edges &edges);

// Edges of one kind, to be put in order.
struct Part {
    uint8_t kind = 0;
    size_t count = 0;
    const uint32_t *source = nullptr;
    const uint32_t *target = nullptr;
};

// Edges of one kind from node to node along each of several chains: where each ends in `nodes`, the next one begins.
struct Chains {
    uint8_t kind = 0;
    size_t count = 0;
    const uint32_t *ends = nullptr;
    const uint32_t *nodes = nullptr;
};

// Edges that are to be put in order: those of one target stay in this order.
struct Unsorted {
    std::vector<Part> parts;
    Chains chains;
    std::vector<Part> later;
};

// Where edges go when they are put in the order of their targets.
struct Sorted {
    uint32_t *source;
    uint32_t *target;
    uint8_t *kind;
};

// How many edges lead to a higher number of a node, by target: where those of each node begin, and at the end how many there are.
// Throws std::invalid_argument for a node that is not there.
std::vector<uint32_t> forward(size_t nodes, const Unsorted &edges);

// The edges that lead to a higher number, in the order of their targets. `first`: the result of forward, which is used up.
void sort_edges(std::vector<uint32_t> first, const Unsorted &edges, const Sorted &out);

// The edges by which a node was reached, back to the first that nothing leads to; in the order of time. Of the edges to one node,
// which are in the order of their targets, the first that decides counts.
std::vector<uint32_t> decided_path(uint32_t node, const Edges &edges, const uint8_t *decides);

// The numbers of rows that have a group (not below 0), group by group, each in the order of the rows.
std::vector<uint32_t> grouped(const int32_t *group, size_t rows);

// The edges that decide, back from a node to the first that has none; in the order of time.
std::vector<uint32_t> path_to(uint32_t node, const Longest &found, const Edges &edges);

} // namespace occatrace
