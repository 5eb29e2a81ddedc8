"""Clock offsets from messages: against clocks whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from occatrace.store import clocks
from occatrace.store.clocks import Edges


def messages(
    seed: int,
    theta: dict[int, float],
    n: int = 200,
    span: float = 1e9,
    least: int = 2_000,
    drift: dict[int, float] | None = None,
) -> Edges:
    """Messages between all hosts; a host's clock shows true time + theta + drift · true time."""
    random = np.random.default_rng(seed)
    hosts = np.array(sorted(theta))
    source = random.choice(hosts, n)
    target = random.choice(hosts, n)
    keep = source != target
    source, target = source[keep], target[keep]
    sent = random.uniform(0, span, len(source)) + 1e12
    received = sent + least + random.exponential(20_000, len(source))
    rate = drift or {}

    def shown(host: np.ndarray, true: np.ndarray) -> np.ndarray:
        ahead = np.array([theta[int(h)] for h in host])
        fast = np.array([rate.get(int(h), 0.0) for h in host])
        clock: np.ndarray[Any, Any] = np.rint(true + ahead + fast * (true - 1e12)).astype(np.int64)
        return clock

    return Edges(source, target, shown(source, sent), shown(target, received))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ahead=st.floats(-1e12, 1e12))
def test_the_truth_is_within_the_uncertainty(seed: int, ahead: float) -> None:
    found = clocks.offsets(2, messages(seed, {0: 0.0, 1: ahead}), {})[1]
    assert found.uncertainty_ns is not None
    assert abs(found.at_ns - ahead) <= found.uncertainty_ns + 2
    # The quickest of about a hundred messages each way is not far above the least delay.
    assert 1_900 < found.uncertainty_ns < 12_000
    assert found.drift == 0.0


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    ahead=st.floats(-1e12, 1e12),
    drift=st.floats(2e-5, 1e-4),
    sign=st.sampled_from([-1, 1]),
)
def test_drift(seed: int, ahead: float, drift: float, sign: int) -> None:
    """100 s in which one clock gains milliseconds: no constant fits, the line does, at all times."""
    drift *= sign
    edges = messages(seed, {0: 0.0, 1: ahead}, 2000, 1e11, drift={1: drift})
    found = clocks.offsets(2, edges, {})[1]
    assert found.uncertainty_ns is not None and found.uncertainty_ns < 30_000
    assert found.drift == pytest.approx(drift, abs=2e-6)
    true = np.linspace(1e12, 1e12 + 1e11, 50)
    shown = np.rint(true + ahead + drift * (true - 1e12)).astype(np.int64)
    assert np.abs(found.remove(shown) - true).max() < 100_000
    # No message is received before it was sent, once all are on one clock.
    at = {0: clocks.Offset(0.0, 0.0), 1: found}
    for a, b in ((0, 1), (1, 0)):
        of = (edges.source == a) & (edges.target == b)
        assert (at[b].remove(edges.received[of]) - at[a].remove(edges.sent[of])).min() >= -1


def test_many_hosts_along_the_surest_way() -> None:
    """A chain: only neighbours exchange messages, and the uncertainty adds up."""
    theta = {host: 1e6 * host * (-1) ** host for host in range(6)}
    parts = []
    for a in range(5):
        pair = messages(a, {0: theta[a], 1: theta[a + 1]})
        parts.append(Edges(pair.source + a, pair.target + a, pair.sent, pair.received))
    found = clocks.offsets(6, Edges.concat(parts), {})
    doubts = []
    for host, ahead in theta.items():
        doubt = found[host].uncertainty_ns
        assert doubt is not None and abs(found[host].at_ns - ahead) <= doubt + 2
        doubts.append(doubt)
    assert doubts == sorted(doubts) and doubts[0] == 0 and doubts[-1] < 60_000
    turned = clocks.offsets(6, Edges.concat(parts), {}, reference=5)
    assert abs(turned[0].at_ns + theta[5]) <= (turned[0].uncertainty_ns or 0) + 2


def test_a_drift_along_a_chain() -> None:
    parts = []
    for a, (fast_a, fast_b) in enumerate([(0.0, 5e-5), (5e-5, -3e-5)]):
        pair = messages(a, {0: 1e6 * a, 1: 1e6 * (a + 1)}, 3000, 1e11, drift={0: fast_a, 1: fast_b})
        parts.append(Edges(pair.source + a, pair.target + a, pair.sent, pair.received))
    for reference, fast in ((0, (0.0, 5e-5, -3e-5)), (2, (3e-5, 8e-5, 0.0))):
        found = clocks.offsets(3, Edges.concat(parts), {}, reference)
        for host in range(3):
            assert found[host].drift == pytest.approx(fast[host], abs=2e-6)


def test_collectives() -> None:
    """Nobody leaves before all have come."""
    random = np.random.default_rng(1)
    theta = np.array([0, 5_000_000, -3_000_000])
    rows = []
    for instance in range(100):
        host = np.repeat(np.arange(3), 4)
        enter = 1e9 * instance + random.exponential(50_000, 12)
        leave = enter.max() + 3_000 + random.exponential(5_000, 12)
        rows.append((np.full(12, instance), host, enter + theta[host], leave + theta[host]))
    columns = [np.concatenate(c).astype(np.int64) for c in zip(*rows, strict=True)]
    shuffled = random.permutation(len(columns[0]))
    edges = clocks.of_collectives(*(c[shuffled] for c in columns))
    assert len(edges.sent) == 100 * 6
    found = clocks.offsets(3, edges, {})
    for known in (1, 2):
        doubt = found[known].uncertainty_ns
        assert doubt is not None and doubt < 40_000
        assert abs(found[known].at_ns - theta[known]) <= doubt + 2


def test_one_way_only_and_contradictions() -> None:
    edges = messages(3, {0: 0.0, 1: 7e6})
    forth = edges.source == 0
    one_way = Edges(*(getattr(edges, n)[forth] for n in ("source", "target", "sent", "received")))
    # Only the wall clocks are left: host 1's own clock is 7 ms ahead of host 0's, its wall clock right.
    found = clocks.offsets(2, one_way, {0: 50.0, 1: 50.0 - 7e6})
    assert found[1].uncertainty_ns is None and found[1].at_ns == pytest.approx(7e6)
    assert clocks.offsets(2, one_way, {}) == {0: clocks.Offset(0.0, 0.0)}
    # A clock that jumps by a second in the middle fits no line.
    jump = np.where((edges.target == 1) & (edges.received > np.median(edges.received)), 10**9, 0)
    back = np.where((edges.source == 1) & (edges.sent > np.median(edges.received)), 10**9, 0)
    assert 1 not in clocks.offsets(2, Edges(edges.source, edges.target, edges.sent + back, edges.received + jump), {})


def test_many_messages_are_quick() -> None:
    edges = messages(4, {0: 0.0, 1: 1e6}, 1_000_000, 1e11, drift={1: 4e-5})
    found = clocks.offsets(2, edges, {})[1]
    assert found.drift == pytest.approx(4e-5, abs=1e-6)


def test_no_collectives() -> None:
    none = np.empty(0, np.int64)
    assert len(clocks.of_collectives(none, none, none, none).sent) == 0
