"""What the first pass reads: a trace as batches of columns, host by host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Columns = Mapping[str, npt.NDArray[Any]]
Slots = npt.NDArray[np.int32]  # the thread of each event


class Batch(Protocol):
    """Columns of one kind of event (`occatrace._native.Batch`)."""

    @property
    def event(self) -> str: ...
    @property
    def columns(self) -> Columns: ...


class Reader(Protocol):
    """A trace as batches (`occatrace._native.Reader`)."""

    @property
    def strings(self) -> Sequence[bytes | str]: ...
    @property
    def schema(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def problems(self) -> Sequence[str]: ...

    def __iter__(self) -> Iterator[Batch]: ...


OpenReader = Callable[[Sequence[str] | None], Reader]
"""Opens one host's trace from its beginning, all events or the given ones."""


def text_of(value: bytes | str) -> str:
    """Valid text from a string of the trace, whatever its bytes are."""
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def occurring(numbers: npt.NDArray[Any], most: int) -> npt.NDArray[np.intp]:
    """Which of the numbers below `most` occur, in order: as numpy.unique, which loads numpy.ma first, 20 ms."""
    there = np.zeros(most, bool)
    there[numbers] = True
    return np.flatnonzero(there)


def texts_of(indexes: npt.NDArray[Any], reader: Reader) -> npt.NDArray[Any]:
    """The texts of a column of strings."""
    used, inverse = np.unique(indexes, return_inverse=True)
    texts = np.empty(len(used), object)
    strings = reader.strings
    texts[:] = [text_of(strings[i]) for i in used.tolist()]
    result: npt.NDArray[Any] = texts[inverse]
    return result
