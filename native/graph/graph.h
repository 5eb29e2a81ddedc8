// Longest paths in a graph without cycles. What the nodes and edges mean is told in occatrace/reports/path.py.
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
Longest longest(const std::vector<double> &base, const Edges &edges);

// The edges that decide, back from a node to the first that has none; in the order of time.
std::vector<uint32_t> path_to(uint32_t node, const Longest &found, const Edges &edges);

} // namespace occatrace
