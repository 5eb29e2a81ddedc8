"""What the first pass made of one piece of a trace after the other: sums that add up, kept in a file between the pieces.

Rows (device work, kernel calls, …) and records are not here: they are files of their own, piece by piece (occatrace/store/stream).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from occatrace.ingest.host import Host, Tally
from occatrace.ingest.threads import ThreadMap

Array = npt.NDArray[Any]
_NEVER = np.iinfo(np.uint64).max
# How columns by thread add up, and what a thread has of which nothing is known.
_THREADS = {"seen": (np.add, 0), "max_seq": (np.maximum, -1), "start": (np.minimum, _NEVER), "end": (np.maximum, 0)}
_BUCKETS = 1 << 12  # more than a histogram has
_SUMS = ("calls", "failed", "total", "bytes")
_CALLS: Mapping[str, tuple[Any, Any]] = {
    **dict.fromkeys(_SUMS, (np.add, 0)),
    "min": (np.minimum, _NEVER),
    "max": (np.maximum, 0),
    "max_seq": (np.maximum, -1),
}
_MOMENTS = {"mean": 0.0, "m2": 0.0, "begin_seq": -1, "begin_ts": 0}
_TALLY = ("count", "failed", "total", "min", "max")


def _longer(values: Array, length: int, missing: Any) -> Array:
    if len(values) >= length:
        return values
    out = np.full(length, missing, values.dtype)
    out[: len(values)] = values
    return out


@dataclass
class Calls:
    """Statistics of one function by thread, as `_native.CallStatistics` shows them."""

    by_thread: dict[str, Array]
    slots: Array
    buckets: Array
    amounts: Array

    def columns(self) -> dict[str, Array]:
        """By thread."""
        return self.by_thread

    def histogram(self) -> tuple[Array, Array, Array]:
        """Thread, bucket and calls of every bucket that has any."""
        return self.slots, self.buckets, self.amounts

    def plus(self, columns: Mapping[str, Array], histogram: tuple[Array, Array, Array]) -> Calls:
        """With those of another piece."""
        a, b = self.by_thread, columns
        count = max(len(a["calls"]), len(b["calls"]))
        a = {name: _longer(a[name], count, _missing(name)) for name in a}
        b = {name: _longer(b[name], count, _missing(name)) for name in a}
        out = {name: add(a[name], b[name]) for name, (add, _) in _CALLS.items()}
        both = np.maximum(out["calls"], 1).astype(np.float64)
        apart = b["mean"] - a["mean"]
        out["mean"] = (a["mean"] * a["calls"] + b["mean"] * b["calls"]) / both
        out["m2"] = a["m2"] + b["m2"] + apart * apart * a["calls"].astype(np.float64) * b["calls"] / both
        later = b["begin_seq"] > a["begin_seq"]
        for name in ("begin_seq", "begin_ts"):
            out[name] = np.where(later, b[name], a[name])
        slots, buckets, amounts = (np.concatenate(pair) for pair in zip(self.histogram(), histogram, strict=True))
        keys, place = np.unique(slots * _BUCKETS + buckets, return_inverse=True)
        sums = np.zeros(len(keys), np.int64)
        np.add.at(sums, place, amounts)
        return Calls(out, keys // _BUCKETS, keys % _BUCKETS, sums)


def _used(columns: Mapping[str, Array]) -> dict[str, Array]:
    """Without the room for threads to come."""
    used = np.flatnonzero((columns["calls"] > 0) | (columns["begin_seq"] >= 0))
    return {name: values[: int(used[-1]) + 1 if len(used) else 0] for name, values in columns.items()}


def _missing(name: str) -> Any:
    return _CALLS[name][1] if name in _CALLS else _MOMENTS[name]


@dataclass
class Threads:
    """What is known of each thread, as `_native.ThreadStatistics` shows it."""

    by_thread: dict[str, Array]

    def columns(self) -> dict[str, Array]:
        """By thread."""
        return self.by_thread


def _no_threads() -> dict[str, Array]:
    kinds = {"seen": np.int64, "max_seq": np.int64, "start": np.uint64, "end": np.uint64}
    return {name: np.empty(0, kinds[name]) for name in _THREADS}


@dataclass
class Folded:
    """The sums of the pieces read so far."""

    threads: ThreadMap
    stats: dict[str, Array] = field(default_factory=_no_threads)
    calls: dict[str, Calls] = field(default_factory=dict)
    next_seq: dict[int, int] = field(default_factory=dict)
    tallies: dict[tuple[int, int], Tally] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    first_ns: int | None = None

    def add(self, piece: Host) -> None:
        """Fold in what was read with our threads."""
        new = piece.stats.columns()
        count = max(len(self.stats["seen"]), len(new["seen"]))
        self.stats = {
            name: add(_longer(self.stats[name], count, missing), _longer(new[name], count, missing))
            for name, (add, missing) in _THREADS.items()
        }
        for event, statistics in piece.calls.items():
            columns, histogram = _used(statistics.columns()), statistics.histogram()
            known = self.calls.get(event)
            self.calls[event] = known.plus(columns, histogram) if known else Calls(columns, *histogram)
        for slot, number in piece.next_seq.items():
            self.next_seq[slot] = max(number, self.next_seq.get(slot, 0))
        for key, tally in piece.tallies.items():
            before = self.tallies.get(key)
            if before is None or tally.ts >= before.ts:
                self.tallies[key] = tally
        self.problems += (problem for problem in piece.problems if problem not in self.problems)
        for event, number in piece.unknown.items():
            self.unknown[event] = self.unknown.get(event, 0) + number
        if piece.first_ns is not None:
            self.first_ns = piece.first_ns if self.first_ns is None else min(self.first_ns, piece.first_ns)

    def host(self, name: str, records: dict[str, list[dict[str, Any]]]) -> Host:
        """As if all had been read at once."""
        return Host(
            name,
            self.threads,
            Threads(self.stats),
            dict(self.calls),
            dict(self.next_seq),
            records,
            dict(self.tallies),
            list(self.problems),
            dict(self.unknown),
            self.first_ns,
        )

    # ---- in a file ----

    def save(self, path: Path) -> None:
        """As arrays; the file is on the disk when this returns."""
        events = sorted(self.calls)
        arrays: dict[str, Array] = {
            "tids": np.array(self.threads.tids, np.int64),
            "starts": np.array(self.threads.starts, np.uint64),
            "next_seq": np.array(sorted(self.next_seq.items()), np.int64).reshape(-1, 2),
            **{f"thread_{name}": values for name, values in self.stats.items()},
        }
        for name in (*_CALLS, *_MOMENTS):
            arrays[f"calls_{name}"] = _joined([self.calls[event].by_thread[name] for event in events])
        histograms = [self.calls[event].histogram() for event in events]
        for place, name in enumerate(("slots", "buckets", "amounts")):
            arrays[f"hist_{name}"] = _joined([entry[place] for entry in histograms])
        tallies = sorted(self.tallies.items())
        arrays["tally"] = np.array(
            [(*key, t.ts, t.ticks_hz, *(t.values[n] for n in _TALLY), len(t.buckets)) for key, t in tallies], np.uint64
        ).reshape(-1, 5 + len(_TALLY))
        arrays["tally_buckets"] = _joined([t.buckets for _, t in tallies])
        arrays["tally_counts"] = _joined([t.counts for _, t in tallies])
        rest = {
            "events": events,
            "lengths": [len(self.calls[event].by_thread["calls"]) for event in events],
            "buckets": [len(entry[0]) for entry in histograms],
            "problems": self.problems,
            "unknown": self.unknown,
            "first_ns": self.first_ns,
        }
        arrays["rest"] = np.frombuffer(json.dumps(rest).encode(), np.uint8)
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def load(cls, path: Path, first: int = 0) -> Folded:
        """What `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        rest = json.loads(arrays["rest"].tobytes())
        threads = ThreadMap.known(first, list(zip(arrays["tids"].tolist(), arrays["starts"].tolist(), strict=True)))
        calls: dict[str, Calls] = {}
        row = bucket = 0
        for event, length, buckets in zip(rest["events"], rest["lengths"], rest["buckets"], strict=True):
            calls[event] = Calls(
                {name: arrays[f"calls_{name}"][row : row + length] for name in (*_CALLS, *_MOMENTS)},
                *(arrays[f"hist_{name}"][bucket : bucket + buckets] for name in ("slots", "buckets", "amounts")),
            )
            row, bucket = row + length, bucket + buckets
        tallies, at = {}, 0
        for slot, function, ts, ticks, *values, length in arrays["tally"].tolist():
            piece = slice(at, at + length)
            at += length
            tallies[slot, function] = Tally(
                ts,
                dict(zip(_TALLY, values, strict=True)),
                ticks,
                arrays["tally_buckets"][piece],
                arrays["tally_counts"][piece],
            )
        return cls(
            threads,
            {name: arrays[f"thread_{name}"] for name in _THREADS},
            calls,
            dict(arrays["next_seq"].tolist()),
            tallies,
            rest["problems"],
            rest["unknown"],
            rest["first_ns"],
        )


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
