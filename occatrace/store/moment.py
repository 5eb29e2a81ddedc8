"""What a run that is still being recorded has at this moment, as traces to read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from occatrace.core.duck import duckdb
from occatrace.core.model import Model
from occatrace.ingest.host import HostTrace
from occatrace.ingest.live_buffers import HostWatch, OpenSpans, age, hosts_of
from occatrace.run.folder import RunInfo
from occatrace.store.stream import Held, Stream


class Moment:
    """What there is of all hosts of a run at this moment. Close it."""

    def __init__(self, run: Path, info: RunInfo, scratch: Path, open_spans: OpenSpans) -> None:
        self._open = open_spans
        self.held = Held(run)
        self._looks = [HostWatch(run, info, host, self.held).look(scratch) for host in hosts_of(run)]
        others = ", ".join(look.host for look in self._looks if not look.complete)
        self.words = f"PARTIAL: the program still runs; below are its first {age(info):,.1f} s" + (
            f" (of {others} what LTTng has written there)" if others else ""
        )

    def traces(self) -> list[HostTrace]:
        """As those of a run that has ended."""
        kept = [host for host, manifest in self.held.manifests.items() if manifest.parts]
        return [
            HostTrace(look.host, partial(look.open, self._open))
            for look in self._looks
            if look.spans or look.host in kept
        ]

    def close(self) -> None:
        """Let go of the files."""
        self.held.close()
        for look in self._looks:
            look.close()


def so_far(run: Path, host: str, moment: Moment, con: duckdb.DuckDBPyConnection, model: Model, apart: Path) -> Stream:
    """The tables of a host that is being recorded, with what the moment shows beside them."""
    stream = Stream(run, host, con, model, moment.held.manifests.get(host))
    stream.keep_apart(apart)
    stream.last = True
    for trace in moment.traces():
        if trace.host == host:
            stream.add(stream.manifest.consumed + 1, trace.open)
    return stream
