"""Random event layouts: the fast decoder, babeltrace2 and what was written agree on every cell; damage never ends the process."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from occatrace import _native
from tests.support import ctf, traces

SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))

integers = st.builds(
    ctf.Integer,
    size=st.sampled_from([8, 16, 32, 64]),
    signed=st.booleans(),
    big_endian=st.booleans(),
    align=st.sampled_from([1, 1, 1, 2, 4, 8]),
)
little = st.builds(ctf.Integer, size=st.sampled_from([8, 16, 32, 64]), signed=st.booleans())
packed = st.builds(ctf.Integer, size=st.sampled_from([8, 16, 32, 64]), signed=st.booleans(), big_endian=st.booleans())
counters = st.builds(ctf.Integer, size=st.sampled_from([8, 16, 32]), align=st.sampled_from([1, 1, 2, 4]))
scalars: st.SearchStrategy[ctf.Type] = st.one_of(
    integers,
    integers.map(ctf.Enum),
    st.builds(ctf.Float, st.booleans()),
    st.just(ctf.String()),
    st.builds(ctf.Text, st.integers(0, 9)),
)
lists: st.SearchStrategy[ctf.Type] = st.builds(
    ctf.List,
    element=st.one_of(packed, st.builds(ctf.Float, st.booleans())),
    length=st.one_of(st.none(), st.integers(0, 5)),
    counter=counters,
)
NAMES = ["a", "b", "c", "ts", "id", "values", "length", "x_length"]


def structures(inner: st.SearchStrategy[ctf.Type], most: int) -> st.SearchStrategy[ctf.Struct]:
    members = st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=most, unique_by=lambda pair: pair[0])
    return members.map(lambda pairs: ctf.Struct(tuple(pairs)))


fields = st.one_of(scalars, lists)
payloads = structures(st.one_of(fields, structures(st.one_of(fields, structures(fields, 2)), 3)), 6)
fixed = st.one_of(integers, st.just(ctf.String()), st.builds(ctf.Text, st.integers(1, 9)))
contexts = st.one_of(st.just(ctf.Struct(())), structures(fixed, 3), structures(fields, 3))


def values(of: ctf.Type) -> st.SearchStrategy[Any]:
    match of:
        case ctf.Integer():
            low = -(1 << (of.size - 1)) if of.signed else 0
            return st.integers(low, low + (1 << of.size) - 1)
        case ctf.Enum():
            return values(of.integer)
        case ctf.Float():
            return st.floats(width=64 if of.double else 32, allow_nan=False)
        case ctf.String():
            return st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
        case ctf.Text():
            return st.text(st.characters(max_codepoint=127), max_size=12).map(str.encode)
        case ctf.List():
            bounds: dict[str, Any] = (
                {"max_size": 6} if of.length is None else {"min_size": of.length, "max_size": of.length}
            )
            return st.lists(values(of.element), **bounds)
        case ctf.Struct():
            return st.fixed_dictionaries({name: values(member) for name, member in of.members})
    raise AssertionError(of)


@st.composite
def stream_classes(draw: st.DrawFn) -> tuple[ctf.StreamClass, ...]:
    numbers = itertools.count()
    streams = []
    for stream in draw(st.lists(st.integers(0, 9), min_size=1, max_size=2, unique=True)):
        ids = draw(
            st.lists(
                st.sampled_from([0, 1, 2, 29, 30, 31, 40, 65534, 65535, 70000]), min_size=1, max_size=4, unique=True
            )
        )
        events = [
            ctf.EventClass(
                number, f"e:{next(numbers)}", draw(payloads), draw(st.one_of(st.just(ctf.Struct(())), contexts))
            )
            for number in ids
        ]
        compact, natural = draw(st.booleans()), draw(st.booleans())
        streams.append(ctf.StreamClass(stream, compact, draw(contexts), tuple(events), natural))
    return tuple(streams)


Written = tuple[tuple[ctf.StreamClass, ...], list[bytes], traces.Rows]


@st.composite
def written(draw: st.DrawFn) -> Written:
    streams = draw(stream_classes())
    files: list[bytes] = []
    rows: traces.Rows = {}
    for instance, stream in enumerate(streams):
        clock = draw(st.sampled_from([0, 1_000, (1 << 27) - 3, (1 << 32) - 3, 1 << 45]))
        data = b""
        for _ in range(draw(st.integers(1, 3))):
            begin = clock
            events = []
            for kind in draw(st.lists(st.sampled_from(stream.events), max_size=8)):
                clock += draw(st.sampled_from([0, 1, 2, 1000, (1 << 27) - 1, 1 << 27, (1 << 32) - 1, 1 << 32, 1 << 40]))
                event = ctf.Event(
                    clock, kind, draw(values(stream.context)), draw(values(kind.context)), draw(values(kind.fields))
                )
                events.append(event)
                rows.setdefault(kind.name, []).append(_unique(event.row(stream)))
            data += ctf.packet(stream, instance, begin, events, draw(st.sampled_from([0, 8, 100])))
        files.append(data)
    for each in rows.values():
        each.sort(key=repr)
    return streams, files, rows


def _unique(row: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    """A name that is taken gets underscores, as the columns do: a list takes its own name and NAME.values."""
    taken: set[str] = set()
    cells = []
    for name, value in row:
        while name in taken or (isinstance(value, tuple) and f"{name}.values" in taken):
            name += "_"
        taken.add(name)
        if isinstance(value, tuple):
            taken.add(f"{name}.values")
        cells.append((name, value))
    return tuple(cells)


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="occatrace-layouts-"))
    yield path
    shutil.rmtree(path)


def _write(folder: Path, made: Written, packets: bool = True, version: int = 1) -> Path:
    shutil.rmtree(folder / "trace", ignore_errors=True)
    return ctf.write(folder / "trace", made[0], made[1], packets, version)


def _has_sequence(structure: ctf.Struct) -> bool:
    return any(
        (isinstance(each, ctf.Text) and not each.length) or (isinstance(each, ctf.List) and each.length is None)
        for _, each in structure.members
    )


@SETTINGS
@given(made=written(), packets=st.booleans())
def test_random_layouts(folder: Path, made: Written, packets: bool) -> None:
    trace = _write(folder, made, packets)
    reader = _native.Reader(trace, decoder="fast", threads=1)
    assert reader.traces[0]["decoder"] == "fast", reader.traces[0]["declined"]
    found = traces.rows_of(reader)
    assert not reader.problems
    traces.assert_same(found, made[2])
    # babeltrace 2.0 ends the process (an assertion) at a sequence in an event context.
    if not any(
        _has_sequence(each) for stream in made[0] for each in (stream.context, *(e.context for e in stream.events))
    ):
        traces.assert_same(traces.columns(trace, decoder="babeltrace2", threads=1), made[2])


@SETTINGS
@given(made=written(), packets=st.booleans())
def test_random_layouts_of_ctf2(folder: Path, made: Written, packets: bool) -> None:
    """The same packets give the same rows where their metadata is that of CTF 2, as LTTng 2.15 writes it."""
    trace = _write(folder, made, packets, version=2)
    reader = _native.Reader(trace, decoder="fast", threads=1)
    assert reader.traces[0]["decoder"] == "fast", reader.traces[0]["declined"]
    assert reader.trace_env == {"hostname": "made", "answer": "42"}
    assert reader.clock_offset == 5
    found = traces.rows_of(reader)
    assert not reader.problems
    traces.assert_same(found, made[2])


@settings(SETTINGS, max_examples=60)
@given(made=written(), seed=st.randoms(use_true_random=False))
def test_damaged_metadata_of_ctf2(folder: Path, made: Written, seed: Any) -> None:
    """Cut or flipped: rows or one error, never the end of the process."""
    trace = _write(folder, made, packets=False, version=2)
    data = bytearray((trace / "metadata").read_bytes())
    if seed.random() < 0.5:
        del data[seed.randrange(1, len(data)) :]
    for _ in range(seed.choice([0, 1, 5])):
        data[seed.randrange(len(data))] ^= 1 << seed.randrange(8)
    (trace / "metadata").write_bytes(data)
    try:
        reader = _native.Reader(trace, decoder="fast", threads=1)
    except _native.TraceError as error:
        assert "\n" not in str(error)
        return
    for batch in reader:
        assert len(batch) > 0


@SETTINGS
@given(made=written(), seed=st.randoms(use_true_random=False))
def test_random_damage(folder: Path, made: Written, seed: Any) -> None:
    """Truncated at any byte and flipped at any bit: an end, and no row that does not exist where bytes were only cut."""
    trace = _write(folder, made)
    for file in trace.iterdir():
        data = bytearray(file.read_bytes())
        if file.name == "metadata" or not data:
            continue
        if seed.random() < 0.5:
            file.write_bytes(data[: seed.randrange(len(data))])
        else:
            for _ in range(seed.choice([1, 5, 50])):
                data[seed.randrange(len(data))] ^= 1 << seed.randrange(8)
            file.write_bytes(data)
    rows = traces.columns(trace, decoder="fast", threads=1)
    if all(file.stat().st_size <= len(data) for file, data in zip(sorted(trace.glob("s*")), made[1], strict=True)):
        assert rows.keys() <= {event.name for stream in made[0] for event in stream.events}


LAYOUT = (
    ctf.StreamClass(
        0,
        True,
        ctf.Struct((("vtid", ctf.Integer()),)),
        (ctf.EventClass(0, "e:0", ctf.Struct((("a", ctf.Integer()),))),),
    ),
)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("byte_order = le", "byte_order = be", "big-endian"),
        ("size = 27", "size = 26", "header"),
        ("30, extended", "29, extended", "header"),
        ("integer { size = 32; align = 8; signed = false; } __a;", "integer { size = 24; align = 8; } __a;", "bytes"),
        ("integer { size = 32; align = 8; signed = false; } __a;", "integer { size = 32; align = 1; } __a;", "bytes"),
        (
            "integer { size = 32; align = 8; signed = false; } __a;",
            "floating_point { exp_dig = 5; mant_dig = 11; } __a;",
            "",
        ),
        ("integer { size = 32; align = 8; signed = false; } __a;", "uint32_t __a[2][2];", "list"),
        ("integer { size = 32; align = 8; signed = false; } __a;", "uint32_clock_t __a;", "time stamp"),
        (
            "integer { size = 32; align = 8; signed = false; } __a;",
            "enum : uint8_t { x = 0, y = 1 } t; variant <t> { uint8_t x; uint32_t y; } __a;",
            "variant",
        ),
        ("clock {", 'clock { name = "other"; freq = 1; };\nclock {', "clock"),
        ("uint64_t packet_size;", "uint32_t packets;", "size"),
        ("uint32_t magic;", "uint32_t magi;", "magic"),
        ("env {", "unheard_of {", "unknown block"),
    ],
)
def test_declined(folder: Path, before: str, after: str, why: str) -> None:
    """What the fast decoder does not know it leaves to babeltrace2, and says why."""
    text = ctf.metadata(LAYOUT).replace("_a;", "__a;")
    assert before in text
    trace = folder / "trace"
    trace.mkdir()
    (trace / "metadata").write_text(text.replace(before, after))
    try:
        reader = _native.Reader(trace, decoder="fast")
    except _native.TraceError:
        return  # babeltrace2 does not know it either
    assert reader.traces[0]["decoder"] == "babeltrace2"
    assert why in reader.traces[0]["declined"]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('"version": 2', '"version": 3', "version 3"),
        ('"type": "fixed-length-unsigned-integer",\n          "length": 32', '"type": "odd"', "a field of type odd"),
        ('"length": 27', '"length": 26', "header"),
        ('"name": "a",', '"name": "a", "extra": 1,', None),
        ('"hostname": "made"', '"hostname": made', "damaged: fragment 2: expected a value at byte"),
        ('"packet-magic-number"', '"no-such-role"', "magic"),
        ('"type": "clock-class"', '"type": "unheard-of"', "unheard-of"),
    ],
)
def test_declined_of_ctf2(folder: Path, before: str, after: str, why: str | None) -> None:
    """What the fast decoder does not know of CTF 2: the message names it; what has no meaning is passed over."""
    text = ctf.metadata2(LAYOUT)
    trace = folder / "trace"
    trace.mkdir()
    (trace / "metadata").write_text(text.replace(before, after))
    if why is None:
        assert _native.Reader(trace, decoder="fast").traces[0]["decoder"] == "fast"
        return
    assert before in text
    try:
        reader = _native.Reader(trace, decoder="fast")
    except _native.TraceError as error:
        assert why in str(error)
        return
    assert reader.traces[0]["decoder"] == "babeltrace2"
    assert why in reader.traces[0]["declined"]


def test_names_that_are_no_text(folder: Path) -> None:
    """Bytes that are not UTF-8 in names, contents and paths."""
    text = ctf.metadata(LAYOUT).replace("e:0", "e:\xff").replace('"made"', '"\xfe"').encode("latin-1")
    kind = LAYOUT[0].events[0]
    event = ctf.Event(5, kind, {"vtid": 1}, {}, {"a": 2})
    trace = Path(os.fsdecode(os.fsencode(folder) + b"/trace-\xfd"))
    trace.mkdir()
    (trace / "metadata").write_bytes(text)
    (trace / "stream").write_bytes(ctf.packet(LAYOUT[0], 0, 1, [event], 0)[:-1])
    reader = _native.Reader(trace)
    assert [batch.event for batch in reader] == []
    assert "trace-\\xfd" in reader.problems[0]
    assert list(reader.schema) == ["e:\\xff"]
    assert reader.trace_env["hostname"] == "\\xfe"
    (trace / "metadata").unlink()
    with pytest.raises(_native.TraceError, match=r"xfd"):
        _native.Reader(trace)
