#include "graph.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace occatrace {

Longest longest(std::vector<double> base, const Edges &edges) {
    const size_t nodes = base.size();
    if (edges.count >= NO_EDGE) throw std::invalid_argument("too many edges");
    // Edges by their target: where those of each node begin, and the edges in that order unless they are in it.
    std::vector<uint32_t> first(nodes + 1), order;
    bool ordered = true;
    for (size_t i = 0; i < edges.count; i++) {
        if (edges.target[i] >= nodes || edges.source[i] >= edges.target[i])
            throw std::invalid_argument("an edge does not lead to a higher node");
        first[edges.target[i] + 1]++;
        ordered &= i == 0 || edges.target[i - 1] <= edges.target[i];
    }
    for (size_t n = 0; n < nodes; n++) first[n + 1] += first[n];
    if (!ordered) {
        order.resize(edges.count);
        std::vector<uint32_t> next(first.begin(), first.end() - 1);
        for (size_t i = 0; i < edges.count; i++) order[next[edges.target[i]]++] = static_cast<uint32_t>(i);
    }
    Longest out{std::move(base), std::vector<uint32_t>(nodes, NO_EDGE)};
    for (size_t n = 0; n < nodes; n++) {
        for (uint32_t at = first[n]; at < first[n + 1]; at++) {
            const uint32_t edge = ordered ? at : order[at];
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

namespace {

// Call `each` with kind, source and target of each edge.
template <typename Each> void visit(const Unsorted &edges, Each each) {
    const auto all = [&](const std::vector<Part> &parts) {
        for (const Part &part : parts)
            for (size_t i = 0; i < part.count; i++) each(part.kind, part.source[i], part.target[i]);
    };
    all(edges.parts);
    const Chains &chains = edges.chains;
    uint32_t at = 0;
    for (size_t chain = 0; chain < chains.count; chain++)
        for (const uint32_t begin = at; at < chains.ends[chain]; at++)
            if (at > begin) each(chains.kind, chains.nodes[at - 1], chains.nodes[at]);
    all(edges.later);
}

} // namespace

std::vector<uint32_t> forward(size_t nodes, const Unsorted &edges) {
    std::vector<uint32_t> first(nodes + 1);
    size_t count = 0;
    visit(edges, [&](uint8_t, uint32_t source, uint32_t target) {
        if (source >= nodes || target >= nodes) throw std::invalid_argument("an edge leads to no node");
        if (source < target) first[target + 1]++;
        count++;
    });
    if (count >= NO_EDGE) throw std::invalid_argument("too many edges");
    for (size_t n = 0; n < nodes; n++) first[n + 1] += first[n];
    return first;
}

void sort_edges(std::vector<uint32_t> first, const Unsorted &edges, const Sorted &out) {
    visit(edges, [&](uint8_t kind, uint32_t source, uint32_t target) {
        if (source >= target) return;
        const uint32_t at = first[target]++;
        out.source[at] = source;
        out.target[at] = target;
        out.kind[at] = kind;
    });
}

std::vector<uint32_t> decided_path(uint32_t node, const Edges &edges, const uint8_t *decides) {
    std::vector<uint32_t> out;
    const uint32_t *end = edges.target + edges.count;
    for (;;) {
        auto edge = static_cast<size_t>(std::lower_bound(edges.target, end, node) - edges.target);
        while (edge < edges.count && edges.target[edge] == node && !decides[edge]) edge++;
        if (edge == edges.count || edges.target[edge] != node) break;
        if (edges.source[edge] >= node) throw std::invalid_argument("an edge does not lead to a higher node");
        out.push_back(static_cast<uint32_t>(edge));
        node = edges.source[edge];
        end = edges.target + edge;
    }
    std::reverse(out.begin(), out.end());
    return out;
}

std::vector<uint32_t> grouped(const int32_t *group, size_t rows) {
    if (rows >= NO_EDGE) throw std::invalid_argument("too many rows");
    int32_t last = -1;
    for (size_t row = 0; row < rows; row++) last = std::max(last, group[row]);
    std::vector<uint32_t> next(static_cast<size_t>(last) + 2);
    for (size_t row = 0; row < rows; row++)
        if (group[row] >= 0) next[static_cast<size_t>(group[row]) + 1]++;
    for (size_t n = 1; n < next.size(); n++) next[n] += next[n - 1];
    std::vector<uint32_t> out(next.back());
    for (size_t row = 0; row < rows; row++)
        if (group[row] >= 0) out[next[static_cast<size_t>(group[row])]++] = static_cast<uint32_t>(row);
    return out;
}

} // namespace occatrace
