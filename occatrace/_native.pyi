"""Types of the native module: traces as columns."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypedDict, final

import numpy as np
from numpy.typing import NDArray

class TraceError(RuntimeError):
    """No trace there, or one that cannot be read at all."""

class TraceInfo(TypedDict):
    path: str
    decoder: str  # "fast" or "babeltrace2"
    declined: str  # why the fast decoder left this trace to babeltrace2; "" if it did not, or was not asked
    env: dict[str, str]
    clock_offset: int
    clock_frequency: int

@final
class Batch:
    """Rows of one event of one trace, in the order of a stream; batches come in no particular order."""

    @property
    def event(self) -> str: ...
    @property
    def trace(self) -> int:
        """Index into Reader.traces."""
    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """
        Arrays without a copy, which keep the batch's memory alive.

        "ts" (u64, the trace's clock), "ctx.NAME" for event contexts, then the payload; nested structures are "OUTER.INNER".
        A string is an index into Reader.strings. A list field F is two arrays: F, u32 offsets (rows + 1), and "F.values".
        """
    def __len__(self) -> int: ...

@final
class Reader:
    """
    Reads the CTF traces in a folder and below as batches, with bounded memory.

    events: names or shell patterns of the events wanted; None for all. decoder: "fast" or "babeltrace2"; None for what
    OCCATRACE_DECODER says, or the fast one where it knows the trace's layout. spans: of these files (paths as `path` has
    them) only the bytes from the first number to the second, packets of a trace that still grows; the fast decoder alone
    knows them. raw: text of unsigned characters is a list of bytes, as other tools write structures (fast decoder alone).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int = 0,
        batch_rows: int = 1_000_000,
        events: Sequence[str] | None = None,
        decoder: str | None = None,
        spans: Mapping[str, tuple[int, int]] = ...,
        raw: bool = False,
    ) -> None: ...
    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def __enter__(self) -> Reader: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def strings(self) -> list[str | bytes]:
        """Interned texts, bytes where one is not UTF-8; the same list each time, which grows while reading."""
    @property
    def schema(self) -> dict[str, dict[str, str]]:
        """Kinds of the columns per event: u8 … i64, f32, f64, str, seq<kind>; complete when all is read."""
    @property
    def traces(self) -> list[TraceInfo]: ...
    @property
    def trace_env(self) -> dict[str, str]:
        """Of the first trace."""
    @property
    def clock_offset(self) -> int:
        """Nanoseconds from the first trace's clock to the time since 1970."""
    @property
    def problems(self) -> list[str]:
        """What was damaged or could not be read; all else was delivered."""
    @property
    def threads(self) -> int: ...
    @property
    def progress(self) -> float | None:
        """What part of the traces has been taken so far, 0 to 1; None where no decoder knows."""

def has_sqlite() -> bool:
    """Whether SqliteNumbers works: it needs the system's libsqlite3."""

@final
class SqliteNumbers:
    """
    The rows of a query over an SQLite file, so many at a time: an array for each column, all values whole numbers.

    `uri` opens the file, `settings` are statements before the query. Raises a RuntimeError with SQLite's words, and a ValueError
    for a value that is no whole number.
    """

    def __init__(self, uri: str, settings: Sequence[str], query: str, rows: int) -> None: ...
    def __iter__(self) -> Iterator[list[NDArray[np.int64]]]: ...
    def __next__(self) -> list[NDArray[np.int64]]: ...
    def close(self) -> None: ...

@final
class ThreadStatistics:
    """What is known of each thread from all of its events. A thread is its number, 0 and up."""

    def add(self, thread: NDArray[np.int32], seq: NDArray[np.uint32], ts: NDArray[np.uint64]) -> None: ...
    def columns(self) -> dict[str, NDArray[Any]]:
        """By thread: seen, max_seq (-1: none), start, end."""

@final
class CallStatistics:
    """Statistics of one function, per thread."""

    def add(
        self,
        thread: NDArray[np.int32],
        seq: NDArray[np.uint32],
        start: NDArray[np.uint64],
        end: NDArray[np.uint64],
        failed: NDArray[np.bool_] | None = None,
        bytes: NDArray[np.uint64] | None = None,
    ) -> None: ...
    def begin(self, thread: NDArray[np.int32], call_seq: NDArray[np.uint32], ts: NDArray[np.uint64]) -> None:
        """Beginnings of blocking calls."""
    def columns(self) -> dict[str, NDArray[Any]]:
        """By thread: calls, failed, total, mean, m2, min, max, bytes, max_seq, begin_seq, begin_ts."""
    def histogram(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Thread, bucket and calls of every bucket that has any."""

def fold_callers(
    thread: NDArray[np.int32],
    caller: NDArray[np.uint64],
    start: NDArray[np.uint64],
    end: NDArray[np.uint64],
    failed: NDArray[np.bool_] | None = None,
    bytes: NDArray[np.uint64] | None = None,
) -> dict[str, NDArray[Any]]:
    """
    Calls of one function by thread and place: slot, caller, since (when the first of them ended), calls, failed, total (ns), bytes.

    Calls of no known place (0) are left out; failed calls count no bytes.
    """

@final
class Sweep:
    """What is open at any moment: how long each set of kinds of spans was open in a place.

    Spans come in windows of time, so that memory is bounded by those of a window and those open at its end. `pieces`: keep the
    single times in which something was open, cut at each start and end, until they are taken.
    """

    def __init__(self, pieces: bool = False) -> None: ...
    def add(
        self,
        place: NDArray[np.uint32],
        kind: NDArray[np.uint32],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
    ) -> None:
        """Spans (ns) in any order; those without length are left out. Raises a ValueError for kinds of 32 and more, and for a span
        that starts before the last `advance`."""
    def advance(self, until: int) -> None:
        """No span that is still to come starts before `until`."""
    def finish(self) -> None:
        """All spans are there."""
    def times(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """By place: place, kinds as bits, and for how many ns exactly these were open, between its first and its last mark."""
    def take_pieces(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """What is done since the last time: place, kinds as bits, start and end (ns), place by place, in order."""

class StackFolding:
    """
    Calls and ranges, which nest within their threads → a tree of stacks per process. Threads, processes, texts and stacks are numbers.

    `owners`: the process of each thread; `kinds`: what each text names (0: a range, 1: a call, 2: one that never returned). Raises a
    ValueError where a number is that of none.
    """

    def __init__(self, owners: Sequence[int], kinds: Sequence[int]) -> None: ...
    def busy(self, process: NDArray[np.uint32], start: NDArray[np.uint64], end: NDArray[np.uint64]) -> None:
        """When devices had work, by process and start (ns). Intervals may overlap."""
    def line(self, process: int, number: int, texts: Sequence[int]) -> None:
        """A stack of lines of Python, outermost first."""
    def path(self, process: int, number: int, line: int, texts: Sequence[int]) -> None:
        """A stack of the program, with the lines of Python of the stack `line` in it (0: none)."""
    def mark(self, thread: NDArray[np.uint32], seq: NDArray[np.uint32]) -> None:
        """Calls of which the node is wanted, by thread and number, each once."""
    def add(
        self,
        thread: NDArray[np.uint32],
        start: NDArray[np.uint64],
        end: NDArray[np.uint64],
        seq: NDArray[np.uint32],
        text: NDArray[np.uint32],
        line: NDArray[np.uint32] | None = None,
        path: NDArray[np.uint32] | None = None,
    ) -> None:
        """Frames of a window of time, in any order, with the stacks around them (0: none). Windows come in the order of time."""
    def trees(self) -> dict[int, dict[str, NDArray[Any]]]:
        """By process and node: parent (0xFFFFFFFF: outermost), text, calls, time and idle (ns, without those of the nodes in it)."""
    def take_marked(self) -> dict[str, NDArray[np.uint32]]:
        """The marked calls that came: thread, seq and node. Afterwards none is marked."""

_Flows = tuple[NDArray[np.uint32], NDArray[np.uint64]]
_Argument = tuple[int, str, NDArray[Any], NDArray[np.bool_] | None]

@final
class Lanes:
    """One track as people see it; slices that overlap go to sibling tracks of the same name."""

    def add(
        self,
        start: NDArray[np.uint64],
        end: NDArray[np.uint64],
        name: NDArray[np.uint32],
        category: NDArray[np.uint32],
        flows: _Flows | None = None,
        arguments: Sequence[_Argument] = ...,
        instant: NDArray[np.bool_] | None = None,
    ) -> None:
        """
        Slices in the order of their starts, an outer one before those that it encloses.

        name, category and texts are numbers from Timeline.string. flows: offsets (rows + 1) and ids. arguments: number
        of the name, kind ("uint", "int", "float", "pointer", "text"), values, which rows have one. instant: which rows
        are moments, without an end.
        """
    def finish(self) -> None:
        """Ends the slices that are open. No slices may follow."""
    @property
    def count(self) -> int:
        """How many lanes were needed."""

@final
class Counter:
    """A track of values over time."""

    def add(self, times: NDArray[np.uint64], values: NDArray[np.int64] | NDArray[np.float64]) -> None:
        """Values in the order of their times; each holds until the next."""

@final
class StackSamples:
    """Stacks of the threads of a process at moments."""

    def frame(self, function: str, module: str, file: str, line: int) -> int:
        """The number of a new frame; an empty file: its line is not known."""
    def stack(self, frames: Sequence[int]) -> int:
        """The number of a new stack of frames, from the outermost on. ValueError: not the number of a frame."""
    def add(
        self,
        times: NDArray[np.uint64],
        threads: NDArray[np.uint32],
        stacks: NDArray[np.uint32],
        cpu: NDArray[np.uint64],
    ) -> None:
        """Samples in the order of their times (ns): ids of threads, numbers of stacks (0: not known), processor time (ns).

        ValueError: a time before the origin or the last one, or not the number of a stack."""
    def finish(self) -> None:
        """Write the lines of all frames."""

@final
class Sites:
    """Where calls were made, as numbers of texts: a return address in a process has one."""

    def __init__(self, process: NDArray[np.uint32], address: NDArray[np.uint64], text: NDArray[np.uint32]) -> None: ...
    def of(
        self, process_of: NDArray[np.uint32], thread: NDArray[np.uint32], address: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint32], bool]:
        """Of each call the number of its text, 0xFFFFFFFF where none is known; and whether all are. `process_of`: by thread."""

class Flows:
    """Which calls launched which device work: the arrows of a timeline. All work is added, then calls are tied, then work.

    Columns are numbers of files, threads, calls in their threads; 0xFFFFFFFF as the number of a call: none."""

    def __init__(self) -> None: ...
    def add(
        self,
        part: NDArray[np.uint32],
        thread: NDArray[np.uint32],
        seq: NDArray[np.uint32],
        run_seq: NDArray[np.uint32],
        wanted: NDArray[np.bool_] | None = None,
    ) -> None:
        """Device work by its call and by the OCCA kernel call; what is not wanted gets no arrows."""
    def calls(
        self, part: NDArray[np.uint32], thread: NDArray[np.uint32], seq: NDArray[np.uint32]
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint64]]:
        """The arrows of each row as offsets and ids, and what a call has in common with its work (0: nothing)."""
    def work(
        self,
        part: NDArray[np.uint32],
        thread: NDArray[np.uint32],
        seq: NDArray[np.uint32],
        run_seq: NDArray[np.uint32],
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint64]]:
        """Likewise of device work."""
    def correlations(self, thread: NDArray[np.uint32], seq: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """What each call has in common with its work."""
    @property
    def empty(self) -> bool: ...

@final
class Launched:
    """Which kernel each call launched: numbers of texts, 0xFFFFFFFF: none. Columns are numbers of threads, of calls in their
    threads, and of texts."""

    def __init__(self) -> None: ...
    def add(
        self,
        thread: NDArray[np.uint32],
        seq: NDArray[np.uint32],
        name: NDArray[np.uint32],
        grid: NDArray[np.uint32],
        block: NDArray[np.uint32],
    ) -> None:
        """Kernels by their calls. ValueError: columns of different lengths."""
    def of(self, thread: NDArray[np.uint32], seq: NDArray[np.uint32]) -> list[tuple[NDArray[np.uint32], bool]]:
        """Name, grid and block of the kernel of each call that launched exactly one, each with whether all calls have it."""

@final
class Changes:
    """How many of something there are over time, from when each comes and goes, in any order, of several owners. Times are kept
    in the file `path`, which is made, and gone with this. OSError: it cannot be made or written."""

    def __init__(self, path: str) -> None: ...
    def add(
        self,
        owner: NDArray[np.uint64],
        time: NDArray[np.uint64],
        step: int,
        part: NDArray[np.uint32] | None = None,
    ) -> None:
        """Rows with an owner, a time (ns, below 2^63) and a part (None: 0): `step` more of it from then on."""
    def series(self) -> list[tuple[int, int, int, int, int]]:
        """Of each part and owner: these two, the first time (ns), the number of rows, by how many there are more in the end."""
    def read(self, number: int, total: int) -> None:
        """Begin to read a series, of which there were `total` before. ValueError: there is no such one."""
    def next(self, most: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The next times (ns) and how many there are from then on, at most `most`; fewer: it ends there."""

@final
class Nesting:
    """How deep calls are within others of their thread, from one window of the run to the next."""

    def __init__(self) -> None: ...
    def depths(
        self,
        thread: NDArray[np.uint32],
        start: NDArray[np.uint64],
        end: NDArray[np.uint64],
        nests: NDArray[np.bool_],
    ) -> NDArray[np.uint32]:
        """Of rows in the order of their starts, which follow those given before. end: the largest number if it never returned;
        nests: whether a row encloses others."""

def call_lines(
    at: NDArray[np.uint64],
    took: NDArray[np.uint64],
    head: NDArray[np.uint32],
    heads: Sequence[str],
    depth: NDArray[np.uint32] | None,
    texts: list[str],
    places: list[str] | None,
    printable: Callable[[str], str],
) -> str:
    """
    Lines of `occa_prof trace`: time and duration (ns; the largest number: it never returned), heads[head], place, text.

    Texts are indented by their depth, and go through `printable` where they are more than plain ASCII. Raises a ValueError
    for columns of different lengths and a head beyond the heads.
    """

def spread(
    first: int,
    last: int,
    width: int,
    sums: NDArray[np.float64],
    steps: NDArray[np.float64],
    start: NDArray[np.uint64],
    end: NDArray[np.uint64],
    amount: NDArray[np.float64] | None,
    until: int,
) -> int:
    """
    Spread amounts evenly over intervals (ns) and add what lies in windows of `width` ns from `first` on to their `sums`.

    `steps` has by how much the sums of a window and all further ones are more. Without amounts an interval counts by its length
    after `until` and all intervals before it; the result is the end of the last one. What lies outside of `first` to `last`
    does not count. Raises a ValueError for columns of different lengths, and fewer sums than windows.
    """

def order(
    key: NDArray[np.uint64], start: NDArray[np.uint64], end: NDArray[np.uint64], number: NDArray[np.uint64]
) -> NDArray[np.int64] | None:
    """The rows by key, start, end (descending) and number; None: they are so already."""

@final
class Timeline:
    """Writes a Perfetto trace. Times are of one clock and at least `origin`, at which CLOCK_REALTIME was `realtime`."""

    def __init__(self, path: str, origin: int, realtime: int, gzip: bool = False) -> None: ...
    def string(self, text: str) -> int:
        """The number of a text, the same for the same text."""
    def machine(self, id: int) -> None:
        """Tracks made from here on belong to this machine; 0 is the first. Small numbers make small packets."""
    def process(self, uuid: int, pid: int, name: str, cmdline: Sequence[str], labels: Sequence[str]) -> None: ...
    def thread(self, uuid: int, pid: int, tid: int, name: str) -> None: ...
    def group(self, uuid: int, parent: int, name: str, order: int) -> None: ...
    def lanes(self, uuid: int, parent: int, name: str, order: int, nested: bool, announced: bool = False) -> Lanes:
        """A track. nested: slices may enclose each other. announced: the first lane is described already."""
    def counter(self, uuid: int, parent: int, name: str, order: int, unit: str) -> Counter:
        """unit: "count", "bytes", or what to show."""
    def add(
        self,
        lanes: Sequence[Lanes],
        bounds: NDArray[np.uint64],
        start: NDArray[np.uint64],
        end: NDArray[np.uint64],
        name: NDArray[np.uint32],
        category: NDArray[np.uint32],
        flows: _Flows | None = None,
        arguments: Sequence[_Argument] = ...,
        instant: NDArray[np.bool_] | None = None,
    ) -> None:
        """
        Slices of many tracks: those from bounds[i] to bounds[i + 1] (exclusive) belong to lanes[i], else as Lanes.add.

        Raises a ValueError where bounds descend or exceed the slices, or lanes are another timeline's.
        """
    def samples(self, pid: int) -> StackSamples:
        """Samples of the stacks of a process, on the machine of the last one described."""
    def close(self) -> None: ...
    @property
    def bytes(self) -> int:
        """Written so far, before compression."""
    @property
    def slices(self) -> int: ...
    @property
    def counter_values(self) -> int: ...

def babeltrace_version() -> str:
    """The version of libbabeltrace2, as "2.0.4"; it reads CTF 2 from 2.1 on."""

def papi_refused(events: str) -> list[tuple[str, str]]:
    """Of a list of events with commas: those that cannot be counted here and why; ("", why): none of them."""

def longest_path(
    base: NDArray[np.float64],
    source: NDArray[np.uint32],
    target: NDArray[np.uint32],
    weight: NDArray[np.float64],
    end: int,
) -> tuple[NDArray[np.float64], NDArray[np.uint32]]:
    """Times of the nodes: the latest of their sources with the weights of the edges, or their base; and the edges that decide
    the time of `end`, in their order. Edges lead to nodes of higher numbers."""

def decided_path(
    source: NDArray[np.uint32], target: NDArray[np.uint32], decides: NDArray[np.bool_], end: int
) -> NDArray[np.uint32]:
    """The edges by which the node `end` was reached, in their order: to each node the first edge that decides its time. The edges
    are in the order of their targets. ValueError: an edge of the path does not lead to a higher node."""

def sort_edges(
    nodes: int,
    parts: Sequence[tuple[int, NDArray[np.uint32], NDArray[np.uint32]]],
    chains: tuple[int, NDArray[np.uint32], NDArray[np.uint32]],
    later: Sequence[tuple[int, NDArray[np.uint32], NDArray[np.uint32]]],
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint8]]:
    """Sources, targets and kinds of the edges that lead to a higher node, in the order of their targets: edges of `parts` (kind,
    sources, targets), from node to node along `chains` (kind, nodes, where each chain ends there), and of `later`; those of one
    target stay in this order. ValueError: a node is not below `nodes`, a chain ends behind the nodes."""

def grouped(group: NDArray[np.int32]) -> NDArray[np.uint32]:
    """The numbers of the rows of which the group is not below 0: group by group, each in the order of the rows."""

def outermost(
    thread: NDArray[np.int32], start: NDArray[np.int64], end: NDArray[np.int64], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Threads, starts, ends and labels of the spans that begin in no other span of their thread, by thread and start. Of those that
    begin together the longest one counts, of equally long ones the first. ValueError: a thread below 0, columns of different
    lengths."""
