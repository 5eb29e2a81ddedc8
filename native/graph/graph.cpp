#include "graph.h"

#include <algorithm>
#include <stdexcept>

namespace occatrace {

Longest longest(const std::vector<double> &base, const Edges &edges) {
    const size_t nodes = base.size();
    if (edges.count >= NO_EDGE) throw std::invalid_argument("too many edges");
    // Edges by their target: where those of each node begin, and the edges in that order.
    std::vector<uint32_t> first(nodes + 1), order(edges.count);
    for (size_t i = 0; i < edges.count; i++) {
        if (edges.target[i] >= nodes || edges.source[i] >= edges.target[i])
            throw std::invalid_argument("an edge does not lead to a higher node");
        first[edges.target[i] + 1]++;
    }
    for (size_t n = 0; n < nodes; n++) first[n + 1] += first[n];
    {
        std::vector<uint32_t> next(first.begin(), first.end() - 1);
        for (size_t i = 0; i < edges.count; i++) order[next[edges.target[i]]++] = static_cast<uint32_t>(i);
    }
    Longest out{base, std::vector<uint32_t>(nodes, NO_EDGE)};
    for (size_t n = 0; n < nodes; n++) {
        for (uint32_t at = first[n]; at < first[n + 1]; at++) {
            const uint32_t edge = order[at];
            const double time = out.times[edges.source[edge]] + edges.weight[edge];
            // An edge decides against the base, which is where a node begins that nothing leads to.
            if (out.edges[n] == NO_EDGE ? time >= out.times[n] : time > out.times[n]) {
                out.times[n] = time;
                out.edges[n] = edge;
            }
        }
    }
    return out;
}

std::vector<uint32_t> path_to(uint32_t node, const Longest &found, const Edges &edges) {
    std::vector<uint32_t> out;
    for (uint32_t edge = found.edges.at(node); edge != NO_EDGE; edge = found.edges[edges.source[edge]]) out.push_back(edge);
    std::reverse(out.begin(), out.end());
    return out;
}

} // namespace occatrace
