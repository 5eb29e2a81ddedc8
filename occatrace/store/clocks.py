"""How far apart the clocks of nodes are, from what cannot be otherwise: nothing is received before it was sent.

Pure functions over columns of times. A message from A to B that was sent at `s` by A's clock and received at `r` by
B's says: B's clock is ahead of A's by at most `r - s`. Messages in both directions leave an interval; its middle is
the estimate, half of it the uncertainty. A collective in which nobody leaves before all have come is such a message
from everybody to everybody.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

STEEPEST = 1e-3  # clocks that drift faster than a thousandth are none


@dataclass(frozen=True)
class Offset:
    """What a clock shows, less what the reference shows: `at` + `drift` · (t - `since`), t on this clock."""

    at_ns: float
    uncertainty_ns: float | None  # None: nothing but the wall clocks is known
    drift: float = 0.0
    since_ns: int = 0
    edges: int = 0  # messages and collectives behind it

    def remove(self, times: Times) -> Times:
        """Times of this clock on the reference's."""
        ahead: Times = np.rint(self.at_ns + self.drift * (times - self.since_ns)).astype(np.int64)
        return np.subtract(times, ahead, dtype=np.int64)


@dataclass(frozen=True)
class Edges:
    """Messages between hosts: sent (begin of the sending call) and received (end of the receiving call)."""

    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    sent: Times
    received: Times

    @classmethod
    def concat(cls, parts: Sequence[Edges]) -> Edges:
        """All of them."""
        names = ("source", "target", "sent", "received")
        return cls(*(np.concatenate([np.asarray(getattr(p, n), np.int64) for p in parts] or [_EMPTY]) for n in names))


_EMPTY = np.empty(0, np.int64)


def of_collectives(instance: npt.NDArray[np.int64], host: npt.NDArray[np.int64], enter: Times, leave: Times) -> Edges:
    """Collectives as messages: of each instance, the last to enter on one host and the first to leave on another."""
    if not len(instance):
        return Edges(_EMPTY, _EMPTY, _EMPTY, _EMPTY)
    order = np.lexsort((host, instance))
    instance, host, enter, leave = instance[order], host[order], enter[order], leave[order]
    first = np.flatnonzero(np.r_[True, (instance[1:] != instance[:-1]) | (host[1:] != host[:-1])])
    last_enter, first_leave = np.maximum.reduceat(enter, first), np.minimum.reduceat(leave, first)
    instance, host = instance[first], host[first]
    parts = []
    begin = np.flatnonzero(np.r_[True, instance[1:] != instance[:-1]])
    end = np.r_[begin[1:], len(instance)]
    widest = int((end - begin).max())
    for step in range(1, widest):  # every pair of hosts of an instance, in both directions
        a = np.arange(len(instance) - step)
        a = a[instance[a] == instance[a + step]]
        b = a + step
        parts += [
            Edges(host[a], host[b], last_enter[a], first_leave[b]),
            Edges(host[b], host[a], last_enter[b], first_leave[a]),
        ]
    return Edges.concat(parts)


def between(forth: tuple[Times, Times], back: tuple[Times, Times]) -> Offset | None:
    """How far B is ahead of A, from (sent, received) of the messages from A to B and from B to A. None where messages go
    one way only, or contradict each other by more than a drift explains."""
    if not len(forth[0]) or not len(back[0]):
        return None
    edges = len(forth[0]) + len(back[0])
    # Everything by B's clock, from the middle of what is there, so that floating point is exact enough.
    since = int(np.median(np.concatenate([forth[1], back[0]])))
    high_t, high = forth[1] - since, forth[1] - forth[0]
    low_t, low = back[0] - since, back[0] - back[1]
    upper, lower = int(high.min()), int(low.max())
    if upper >= lower:
        return Offset((upper + lower) / 2, (upper - lower) / 2, 0.0, since, edges)
    return _line(high_t, high, low_t, low, since, edges)


def _line(high_t: Times, high: Times, low_t: Times, low: Times, since: int, edges: int) -> Offset | None:
    """The line that stays farthest from all bounds: below the upper ones and above the lower ones. The gap is a concave
    function of the slope that is straight between the slopes of the hulls, so one of these is the best."""
    middle = (int(high.min()) + int(low.max())) // 2
    top = _hull(high_t, high - middle, lower=True)
    bottom = _hull(low_t, low - middle, lower=False)
    slopes = np.concatenate([np.diff(v) / np.maximum(np.diff(t), 1) for t, v in (top, bottom)])
    slopes = np.clip(np.append(slopes, 0.0), -STEEPEST, STEEPEST)
    above = (top[1][None, :] - slopes[:, None] * top[0][None, :]).min(axis=1)
    below = (bottom[1][None, :] - slopes[:, None] * bottom[0][None, :]).max(axis=1)
    best = int(np.argmax(above - below))
    if above[best] < below[best]:
        return None
    at, half = (above[best] + below[best]) / 2 + middle, (above[best] - below[best]) / 2
    return Offset(float(at), float(half), float(slopes[best]), since, edges)


def _hull(t: Times, v: Times, *, lower: bool) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The lower or the upper convex hull of points."""
    sign = 1.0 if lower else -1.0
    order = np.lexsort((sign * v, t))
    ts, vs = t[order].astype(np.float64), sign * v[order].astype(np.float64)
    keep = np.r_[True, ts[1:] != ts[:-1]]
    ts, vs = _thin(ts[keep], vs[keep])
    hull: list[int] = []
    for i in range(len(ts)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (vs[b] - vs[a]) * (ts[i] - ts[a]) < (vs[i] - vs[a]) * (ts[b] - ts[a]):
                break
            hull.pop()
        hull.append(i)
    return ts[hull], sign * vs[hull]


def _thin(
    ts: npt.NDArray[np.float64], vs: npt.NDArray[np.float64], parts: int = 4096
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The lowest point of each of many parts: a bound among them is enough, and a loop over millions takes too long."""
    if len(ts) <= parts:
        return ts, vs
    edges = np.linspace(0, len(ts), parts + 1).astype(int)[:-1]
    lowest = np.minimum.reduceat(vs, edges)
    which = np.repeat(np.arange(parts), np.diff(np.r_[edges, len(ts)]))
    hit = np.flatnonzero(vs == lowest[which])
    hit = hit[np.r_[True, which[hit][1:] != which[hit][:-1]]]
    return ts[hit], vs[hit]


def offsets(hosts: int, edges: Edges, wall: Mapping[int, float], reference: int = 0) -> dict[int, Offset]:
    """Of every host, how far its clock is ahead of the reference's, along the surest way from host to host. `wall`: wall
    clock less own clock, which serves where no message tells."""
    pairs: dict[tuple[int, int], Offset] = {}
    for a in range(hosts):
        for b in range(a + 1, hosts):
            forth = (edges.source == a) & (edges.target == b)
            back = (edges.source == b) & (edges.target == a)
            found = between((edges.sent[forth], edges.received[forth]), (edges.sent[back], edges.received[back]))
            if found:
                pairs[a, b] = found
    out = {reference: Offset(0.0, 0.0)}
    queue = [(0.0, reference, reference)]
    known: dict[int, float] = {reference: 0.0}
    done: set[int] = set()
    while queue:
        doubt, _, a = heapq.heappop(queue)
        if a in done:
            continue
        done.add(a)
        for b in range(hosts):
            pair = pairs.get((min(a, b), max(a, b)))
            if pair is None or b in done:
                continue
            total = doubt + (pair.uncertainty_ns or 0.0)
            if total < known.get(b, np.inf):
                known[b] = total
                out[b] = _chain(out[a], pair if a < b else _inverse(pair), total)
                heapq.heappush(queue, (total, a, b))
    for host in range(hosts):
        if host not in out and host in wall and reference in wall:
            # Both wall clocks right: own = wall - w, so own_b - own_a = w_a - w_b.
            out[host] = Offset(wall[reference] - wall[host], None)
    return out


def _inverse(pair: Offset) -> Offset:
    """A's clock ahead of B's, in terms of A's clock."""
    return Offset(
        -pair.at_ns, pair.uncertainty_ns, -pair.drift / (1 - pair.drift), round(pair.since_ns - pair.at_ns), pair.edges
    )


def _chain(first: Offset, second: Offset, doubt: float) -> Offset:
    """B against the reference: B against A and A against the reference, at the moment for which B's is stated."""
    on_a = second.since_ns - second.at_ns
    at = second.at_ns + first.at_ns + first.drift * (on_a - first.since_ns)
    # Drifts are some 1e-6: their product does not matter.
    return Offset(at, doubt, second.drift + first.drift * (1 - second.drift), second.since_ns, second.edges)
