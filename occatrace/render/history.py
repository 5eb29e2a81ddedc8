"""The history of durations over versions as one page without scripts, a badge, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TextIO

from occatrace.core.units import duration
from occatrace.render.html import asset, head, text
from occatrace.reports.history import RECENT, Entry

SCHEMA = 1
ROWS = 200  # names on the page
_WIDTH, _HEIGHT, _EDGE = 260, 44, 4
_STYLE = """
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; vertical-align: middle; }
tr + tr td { border-top: 1px solid var(--line); } td.name { overflow-wrap: anywhere; font-family: ui-monospace, monospace; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto; }
section { padding: .8rem 1rem; } .slower { color: var(--warn); } .faster { color: var(--good); }
svg .line { fill: none; stroke: var(--muted); stroke-width: 1.5; } svg circle { fill: var(--accent); }
svg .slower { stroke: var(--warn); stroke-width: 2; } svg .faster { stroke: var(--good); stroke-width: 2; }
"""


def page(entries: Sequence[Entry], versions: Sequence[str], out: TextIO) -> None:
    """Write the page."""
    out.writelines(_page(entries, versions))


def _page(entries: Sequence[Entry], versions: Sequence[str]) -> Iterator[str]:
    yield head("occatrace: history", asset("html_style.css") + _STYLE, "")
    yield f"<body>\n<main>\n<h1>History over {len(versions)} versions</h1>\n"
    yield f'<p class="meta">{text(versions[0])} to {text(versions[-1])}. '
    yield f"Medians per call; a change is news in the newest {RECENT} versions.</p>\n"
    news = [entry for entry in entries if entry.news(len(versions))]
    yield from _table(
        "Changed recently", news, versions, f"No level changed by more than the noise in the newest {RECENT} versions."
    )
    yield from _table("All names, by total time", entries[:ROWS], versions, "")
    if len(entries) > ROWS:
        yield f'<p class="note">{len(entries) - ROWS:,} more are in history.json</p>\n'
    yield "</main>\n</body>\n</html>\n"


def _table(title: str, entries: Sequence[Entry], versions: Sequence[str], empty: str) -> Iterator[str]:
    yield f'<section><h2>{title}</h2>\n<div class="wide" tabindex="0" role="region" aria-label="{title}">\n'
    if not entries:
        yield f'<p class="about">{empty}</p>\n</div></section>\n'
        return
    yield "<table><tr><th>Name</th><th>Kind</th><th>Newest</th><th>History</th><th>Changes</th></tr>\n"
    for entry in entries:
        kind, name, mode = entry.key
        shown = f"{name} ({mode})" if mode else name
        yield f'<tr><td class="name">{text(shown)}</td><td>{text(kind)}</td><td class="number">{_newest(entry, versions)}</td>'
        yield f"<td>{''.join(_line(entry, versions))}</td><td>{'<br>'.join(_changes(entry, versions))}</td></tr>\n"
    yield "</table>\n</div></section>\n"


def _newest(entry: Entry, versions: Sequence[str]) -> str:
    """The value of the newest version; of a name that it does not have, which one had it last, with its value."""
    last = max((place for place, value in enumerate(entry.values) if value is not None), default=None)
    if last is None:
        return ""
    value = duration(entry.values[last] or 0.0)
    return value if last == len(versions) - 1 else f"gone<br>{value} at {text(versions[last])}"


def _changes(entry: Entry, versions: Sequence[str]) -> Iterator[str]:
    for change in reversed(entry.changes):
        word = "slower" if change.ratio > 1 else "faster"
        yield (
            f'<span class="{word}">{percent(change.ratio)} {word}</span> at {text(versions[change.version])}'
            f" ({duration(change.before_ns)} to {duration(change.after_ns)})"
        )


def percent(ratio: float) -> str:
    """How much slower or faster."""
    return f"{100 * abs(ratio - 1):.3g} %"


def _line(entry: Entry, versions: Sequence[str]) -> Iterator[str]:
    """A small picture, from 0; each point says its version and value."""
    known = [value for value in entry.values if value is not None]
    top, step = max(known) or 1.0, (_WIDTH - 2 * _EDGE) / max(len(versions) - 1, 1)
    at = [
        (_EDGE + step * place, _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * value / top, place, value)
        for place, value in enumerate(entry.values)
        if value is not None
    ]
    label = f"{duration(known[0])} to {duration(known[-1])}, {len(entry.changes)} changes"
    yield f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}">'
    for change in entry.changes:
        x = _EDGE + step * (change.version - 0.5)
        yield f'<line class="{"slower" if change.ratio > 1 else "faster"}" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT}"/>'
    yield f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in at)}"/>'
    for x, y, place, value in at:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{text(versions[place])}: {duration(value)}</title></circle>'
    yield "</svg>"


def verdict(entries: Sequence[Entry], versions: int) -> tuple[int, int]:
    """How many names became slower and faster recently."""
    ratios = [change.ratio for entry in entries if (change := entry.news(versions))]
    return sum(ratio > 1 for ratio in ratios), sum(ratio < 1 for ratio in ratios)


def badge(slower: int, faster: int, out: TextIO) -> None:
    """An SVG of one line for a README."""
    words = f"{slower} slower" if slower else f"{faster} faster" if faster else "no change"
    colour = "#b3261e" if slower else "#12704f"
    left, right = 92, 14 + 7 * len(words)
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="performance: {words}">'
        f'<title>performance: {words}</title><rect width="{left + right}" height="20" rx="3" fill="{colour}"/>'
        f'<path d="M3 0h{left - 3}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#444b54"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2}" y="14">performance</text><text x="{left + right / 2}" y="14">{words}</text></g></svg>\n'
    )


def as_json(entries: Sequence[Entry], versions: Sequence[str], out: TextIO) -> None:
    """The whole history."""
    names = [
        {
            **dict(zip(("kind", "name", "mode"), entry.key, strict=True)),
            "median_ns": list(entry.values),
            "changes": [
                {"version": versions[c.version], "before_ns": c.before_ns, "after_ns": c.after_ns}
                for c in entry.changes
            ],
        }
        for entry in entries
    ]
    json.dump({"schema": SCHEMA, "versions": list(versions), "names": names}, out, indent=1, ensure_ascii=False)
    out.write("\n")
