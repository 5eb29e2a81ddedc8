"""Ranges, marks and counters of a Python program: `occatrace.annotate`, `mark`, `counter`, for use in the traced program.

Untraced, all of them do nothing: a decorated function is the function itself. Imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

try:
    from occatrace import _annotate

    _PRESENT = _annotate.present()
except ImportError:  # the native layer is not built: nothing of this process is traced either
    _PRESENT = False

_Function = TypeVar("_Function", bound=Callable[..., Any])

_COLORS = {
    "red": 0xFFE53935,
    "green": 0xFF43A047,
    "blue": 0xFF1E88E5,
    "yellow": 0xFFFDD835,
    "orange": 0xFFFB8C00,
    "purple": 0xFF8E24AA,
    "cyan": 0xFF00ACC1,
    "magenta": 0xFFD81B60,
    "brown": 0xFF6D4C41,
    "grey": 0xFF757575,
    "gray": 0xFF757575,
    "black": 0xFF000000,
    "white": 0xFFFFFFFF,
}


def _argb(color: str | int | None) -> int:
    """A colour as a number; one that cannot be understood is a warning, as tracing must not stop a program."""
    if color is None:
        return 0
    if isinstance(color, int):
        return color | 0xFF000000 if 0 <= color <= 0xFFFFFF else color & 0xFFFFFFFF
    known = _COLORS.get(color.lower())
    if known is not None:
        return known
    digits = color.removeprefix("#")
    try:
        if len(digits) in (6, 8):
            number = int(digits, 16)
            return number | 0xFF000000 if len(digits) == 6 else number
    except ValueError:
        pass
    warnings.warn(
        f"occatrace: {color!r} is no colour; write '#rrggbb', 0xrrggbb or one of {', '.join(_COLORS)}", stacklevel=3
    )
    return 0


def _text(values: dict[str, Any]) -> str | None:
    return ", ".join(f"{name}={value}" for name, value in values.items()) if values else None


def _in_event_loop() -> bool:
    # Looked up, not imported: a program without asyncio does not get it from us.
    loops = sys.modules.get("_asyncio")
    return loops is not None and loops._get_running_loop() is not None


class _Annotate:
    """A range, as a context or as a decorator; see `annotate`."""

    __slots__ = ("_argb", "_ids", "_name", "_values")

    def __init__(self, name: str | None = None, *, color: str | int | None = None, **values: object) -> None:
        self._name = name
        self._argb = _argb(color)
        self._values = _text(values)
        self._ids: dict[int, list[int]] | None = None  # of contexts that may overlap, by their frame

    def __enter__(self) -> _Annotate:
        name = self._name or "range"
        frame = sys._getframe(1)
        if frame.f_code.co_flags & _LEAVES or _in_event_loop():
            # Tasks and generators take turns in one thread: their ranges overlap instead of nesting.
            if self._ids is None:
                self._ids = {}
            self._ids.setdefault(id(frame), []).append(_annotate.begin(name, self._argb, self._values))
        else:
            _annotate.push(name, self._argb, self._values)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ids:
            frame = sys._getframe(1)
            key = id(frame)
            if key not in self._ids and (frame.f_code.co_flags & _LEAVES or _in_event_loop()):
                key = next(reversed(self._ids))  # left by another function than entered (contextlib.ExitStack)
            ids = self._ids.get(key)
            if ids:
                _annotate.end(ids.pop())
                if not ids:
                    del self._ids[key]
                return
        _annotate.pop()

    def __call__(self, function: _Function) -> _Function:
        name = self._name or str(getattr(function, "__qualname__", "range"))
        code = getattr(function, "__code__", None)
        kind = code.co_flags & _LEAVES if code else 0
        wrapper = _WRAPPERS.get(kind, _plain)(function, (name, self._argb, self._values))
        return cast(_Function, functools.update_wrapper(wrapper, function))


_Note = tuple[str, int, str | None]


def _plain(function: Callable[..., Any], note: _Note) -> Callable[..., Any]:
    push, pop = _annotate.push, _annotate.pop
    name, argb, values = note

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        push(name, argb, values)
        try:
            return function(*args, **kwargs)
        finally:
            pop()

    return wrapper


# What can be left and entered again lasts from its first step to its last, and may overlap others.


def _generator(function: Callable[..., Any], note: _Note) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        id_ = _annotate.begin(*note)
        try:
            return (yield from function(*args, **kwargs))
        finally:
            _annotate.end(id_)

    return wrapper


def _coroutine(function: Callable[..., Any], note: _Note) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        id_ = _annotate.begin(*note)
        try:
            return await function(*args, **kwargs)
        finally:
            _annotate.end(id_)

    return wrapper


def _async_generator(function: Callable[..., Any], note: _Note) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        id_ = _annotate.begin(*note)
        inner = function(*args, **kwargs)
        try:
            value = await inner.__anext__()
            while True:
                try:
                    sent = yield value
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:
                    value = await inner.athrow(error)
                else:
                    value = await inner.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            _annotate.end(id_)

    return wrapper


_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # of a function's code, as in inspect (slow to import)
_LEAVES = _GENERATOR | _COROUTINE | _ASYNC_GENERATOR  # whose frame may be left and entered again
_WRAPPERS = {_GENERATOR: _generator, _COROUTINE: _coroutine, _ASYNC_GENERATOR: _async_generator}


class _Nothing:
    """What `annotate` is in a process that is not traced."""

    __slots__ = ()

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, function: _Function) -> _Function:
        return function


_NOTHING = _Nothing()


def _annotate_nothing(name: str | None = None, *, color: str | int | None = None, **values: object) -> _Nothing:
    return _NOTHING


def mark(name: str, *, color: str | int | None = None, **values: object) -> None:
    """A moment: `occatrace.mark("converged", iteration=17)`."""
    if _PRESENT:
        _annotate.mark(name, _argb(color), _text(values))


def counter(name: str, value: float, unit: str = "") -> None:
    """The value of something from now on: `occatrace.counter("residual", r)`."""
    if _PRESENT:
        _annotate.counter(name, value, unit)


def capture_stop() -> None:
    """Record nothing of the process until `capture_start`."""
    if _PRESENT:
        _annotate.capture(False)


def capture_start() -> None:
    """Record again."""
    if _PRESENT:
        _annotate.capture(True)


@contextlib.contextmanager
def capture() -> Iterator[None]:
    """Record what runs inside: `with occatrace.capture(): …`, for programs run with --capture-range api."""
    capture_start()
    try:
        yield
    finally:
        capture_stop()


if TYPE_CHECKING:

    class annotate(_Annotate):
        """A range of the program.

        As a context, `with occatrace.annotate("solve", color="green", n=100):`, or as a decorator, `@occatrace.annotate()`
        (then the name may be left out). Coroutines and generators last from their first step to their last.
        """

else:
    annotate = _Annotate if _PRESENT else _annotate_nothing
