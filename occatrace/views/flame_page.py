"""Trees of stacks as one HTML file: a flame graph to zoom, search and point at, and a table of its functions.

The drawing is done by html_flame.js from the numbers in the page; the page itself is that of html.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from occatrace.render import Flame, html
from occatrace.reports import Column, Definition, Report
from occatrace.store.losses import Losses
from occatrace.views.flamegraph import MEASURES, Stacks

NODES = 20_000  # of the graph; the smallest beyond are drawn together
SMALLER = "(smaller)"

_COLUMNS = (
    Column("name", "text", "Function", ""),
    Column("share", "percent", "Self", ""),
    Column("self_ns", "ns", "Self time", "without what it called"),
    Column("total_ns", "ns", "Total time", "with what it called; a function within itself counts once"),
    Column("calls", "count", "Calls", ""),
    Column("bytes", "bytes", "Allocated", "by it, without what it called"),
    Column("api", "text", "API", ""),
)
_ABOUT = "functions and ranges by the time spent in themselves; single calls only, not those that were merely counted"


def render(found: Sequence[Stacks], run: Mapping[str, Any], losses: Losses, out: TextIO) -> None:
    """Write the page."""
    program = " ".join(map(str, run.get("program", ()))) or "a run"
    style = html.asset("html_style.css") + html.asset("html_flame.css")
    script = html.asset("html_script.js") + html.asset("html_flame.js")
    out.write(html.head(f"occatrace flame graph: {program}", style, script))
    out.write('<body>\n<nav aria-label="Parts of the page"><ul><li><a class="brand" href="#top">occatrace</a></li>')
    out.write('<li><a href="#graph">Flame graph</a></li><li><a href="#t0">Functions</a></li></ul></nav>\n')
    out.write(f'<main id="top">\n<h1>{html.text(program)}</h1>\n')
    out.writelines(html.preface(run, losses))
    content = flame(found)
    if content:
        out.writelines(html.flame(content))
    else:
        out.write('<section id="graph"><h2>Flame graph</h2>\n')
        out.write(
            '<p class="note">No single calls were recorded (they are merely counted in mode tally).</p>\n</section>\n'
        )
    report = functions(found)
    wholes = html.Wholes()
    out.writelines(html.table(0, report.definition.title, report.rows, report, wholes, more=None))
    out.write(f"</main>\n{wholes.block()}<script>{script}</script>\n</body>\n</html>\n")


def flame(found: Sequence[Stacks], most: int = NODES, first: str | None = None) -> Flame | None:
    """The graph as pages have it, with at most about `most` frames; `first`: the measure that it shows first, if it has it. None:
    there is nothing to show."""
    tree = graph(found, most)
    there = sorted((name for name in MEASURES if tree["totals"][name]), key=lambda name: name != first)
    return Flame(tree, {name: MEASURES[name].title for name in there}) if there else None


def graph(found: Sequence[Stacks], most: int | None = None) -> dict[str, Any]:
    """The numbers of the graph: a node per stack with parent, name, category, calls and own weights; 0 is everything."""
    names: dict[str, int] = {}
    categories: dict[str, int] = {}

    def entry(parent: int, name: str, category: str, calls: int, weights: Sequence[int]) -> list[int]:
        shown = html.shortened(name)
        return [
            parent,
            names.setdefault(shown, len(names)),
            categories.setdefault(category, len(categories)),
            calls,
            *weights,
        ]

    nodes = [entry(-1, "all", "", 0, [0] * len(MEASURES))]
    least = _least(found, NODES if most is None else most)
    for tree in found:
        totals = [tree.totals(measure) for measure in MEASURES]
        root = len(nodes)
        nodes.append(entry(0, tree.name, "", 0, [0] * len(MEASURES)))
        places: list[int] = []
        rests: dict[int, int] = {}
        for number, parent in enumerate(tree.parents):
            above = root if parent < 0 else places[parent]
            own = [tree.weights[measure][number] for measure in MEASURES]
            if above in rests.values():
                # Within what is too small: its weights are there already.
                places.append(above)
            elif all(total[number] < limit for total, limit in zip(totals, least, strict=True)):
                whole = [total[number] for total in totals]
                if above in rests:
                    rest = nodes[rests[above]]
                    rest[3] += tree.calls[number]
                    rest[4:] = [a + b for a, b in zip(rest[4:], whole, strict=True)]
                else:
                    rests[above] = len(nodes)
                    nodes.append(entry(above, SMALLER, "", tree.calls[number], whole))
                places.append(rests[above])
            else:
                places.append(len(nodes))
                nodes.append(entry(above, tree.names[number], tree.categories[number], tree.calls[number], own))
    totals_of_all = {m: sum(node[4 + i] for node in nodes) for i, m in enumerate(MEASURES)}
    return {
        "names": list(names),
        "categories": list(categories),
        "measures": {name: {"title": m.title, "unit": m.unit, "about": m.about} for name, m in MEASURES.items()},
        "totals": totals_of_all,
        "nodes": nodes,
    }


def _least(found: Sequence[Stacks], most: int) -> list[int]:
    """Of each measure, what a node must come to in order to be drawn, so that there are not more than `most`."""
    if sum(len(tree.names) for tree in found) <= most:
        return [0] * len(MEASURES)
    out = []
    for measure in MEASURES:
        totals = sorted((total for tree in found for total in tree.totals(measure)), reverse=True)
        out.append(max(totals[min(most // len(MEASURES), len(totals) - 1)], 1))
    return out


def functions(found: Sequence[Stacks]) -> Report:
    """Self and total time of each name."""
    own: dict[tuple[str, str], list[int]] = {}
    for tree in found:
        totals = tree.totals("time")
        above: list[frozenset[tuple[str, str]]] = []
        for number, parent in enumerate(tree.parents):
            key = (tree.names[number], tree.categories[number])
            if not (totals[number] or tree.calls[number] or tree.weights["memory"][number]):
                above.append(above[parent] if parent >= 0 else frozenset())
                continue  # there for another measure only
            outer = above[parent] if parent >= 0 else frozenset()
            above.append(outer | {key})
            row = own.setdefault(key, [0, 0, 0, 0])
            row[0] += tree.weights["time"][number]
            row[1] += 0 if key in outer else totals[number]
            row[2] += tree.calls[number]
            row[3] += tree.weights["memory"][number]
    whole = sum(row[0] for row in own.values())
    rows = [
        (name, 100 * row[0] / whole if whole else 0.0, *row, api)
        for (name, api), row in sorted(own.items(), key=lambda item: (-item[1][0], item[0]))
    ]
    definition = Definition(
        "flamegraph", "Functions", _ABOUT, "of the host time of all of them", None, True, _COLUMNS, ""
    )
    return Report(definition, rows)
