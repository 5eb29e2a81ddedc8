"""occatrace.annotate in all its forms, around results that must not change; and the packages nvtx and ittapi beside it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import time
from collections.abc import AsyncIterator, Iterator

import occatrace

PAUSE = 0.01


@occatrace.annotate(color="green", n=3)
def plain(x: int, *, y: int = 1) -> int:
    """Adds."""
    time.sleep(PAUSE)
    return x + y


@occatrace.annotate("generator")
def generator() -> Iterator[int]:
    got = yield 1
    assert got == "sent"
    try:
        yield 2
    except KeyError:
        yield 3
    return 4


@occatrace.annotate("coroutine")
async def coroutine(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@occatrace.annotate("async generator")
async def numbers() -> AsyncIterator[int]:
    for i in range(3):
        yield i
        await asyncio.sleep(0)


@occatrace.annotate("raises")
def raises() -> None:
    raise ValueError("x")


class Thing:
    @occatrace.annotate()
    def method(self) -> str:
        return "m"


@occatrace.annotate("recursive")
def recursive(n: int) -> int:
    return n if n == 0 else recursive(n - 1)


async def task(name: str, seconds: float) -> None:
    with occatrace.annotate(name, task=name):
        await asyncio.sleep(seconds)


async def main() -> None:
    done = await asyncio.gather(coroutine(3 * PAUSE), coroutine(PAUSE), task("one", 3 * PAUSE), task("two", PAUSE))
    assert done[:2] == [3 * PAUSE, PAUSE]
    assert [i async for i in numbers()] == [0, 1, 2]
    unfinished = numbers()
    assert await unfinished.__anext__() == 0
    await unfinished.aclose()


assert plain(1, y=2) == 3 and plain.__name__ == "plain" and plain.__doc__ == "Adds."
assert inspect.iscoroutinefunction(coroutine) and inspect.isgeneratorfunction(generator)
assert inspect.isasyncgenfunction(numbers)
steps = generator()
assert next(steps) == 1 and steps.send("sent") == 2 and steps.throw(KeyError()) == 3
try:
    next(steps)
except StopIteration as stop:
    assert stop.value == 4
with contextlib.suppress(ValueError):
    raises()
assert Thing().method() == "m" and recursive(4) == 0
shared = occatrace.annotate("shared")
with shared, shared:
    pass
asyncio.run(main())
with occatrace.annotate("outer", color="#102030"), occatrace.annotate("inner", color=0xFF0000):
    occatrace.mark("moment", iteration=17)
for i in range(5):
    occatrace.counter("loss", 1 / (i + 1), "nats")
occatrace.capture_stop()
occatrace.mark("unseen")
occatrace.capture_start()

if "nvtx" in sys.argv:
    import nvtx

    with nvtx.annotate("nvtx range", color="red", domain="app", category="io", payload=5):
        nvtx.mark("nvtx mark", domain="app")
    ended = nvtx.start_range("nvtx started", domain="app")
    nvtx.push_range("nvtx pushed")
    nvtx.pop_range()
    nvtx.end_range(ended)
if "ittapi" in sys.argv:
    import ittapi

    with ittapi.task("itt task", domain="itt app"):
        pass
    overlapped = ittapi.overlapped_task("itt overlapped", domain="itt app")
    overlapped.begin()
    overlapped.end()
print("right")
