"""Ranges around code that takes turns in one thread, or runs in several: prints, of each, four moments by the program's own clock,
before and in it, at its end and after it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns as now
from typing import Any

import occatrace


@contextlib.contextmanager
def told(name: str) -> Iterator[list[int]]:
    """Prints the moments of one range; what it yields takes those inside."""
    moments = [now()]
    try:
        yield moments
    finally:
        moments.append(now())
        sys.stdout.write(f"{name} {' '.join(map(str, moments))}\n")


def steps(name: str, count: int) -> Iterator[int]:
    with told(name) as inside, occatrace.annotate(name):
        inside.append(now())
        try:
            for step in range(count):
                with occatrace.annotate("step"):
                    yield step
        finally:
            inside.append(now())


async def task(name: str, pauses: int, range_: Any) -> None:
    with told(name) as inside, range_:
        inside.append(now())
        try:
            for _ in range(pauses):
                await asyncio.sleep(0)
            if name == "task fails":
                raise ValueError(name)
        finally:
            inside.append(now())


async def numbers(name: str) -> AsyncIterator[int]:
    with told(name) as inside, occatrace.annotate(name):
        inside.append(now())
        try:
            for i in range(3):
                yield i
                await asyncio.sleep(0)
        finally:
            inside.append(now())


async def stacked(name: str) -> None:
    with told(name) as inside, contextlib.ExitStack() as stack:
        stack.enter_context(occatrace.annotate(name))
        inside.append(now())
        await asyncio.sleep(0)
        inside.append(now())


def in_thread(n: int) -> None:
    name = f"thread {n}"
    with told(name) as inside, both:
        inside.append(now())
        inside.append(now())


async def main() -> None:
    shared = occatrace.annotate("shared")
    tasks = [
        task("task long", 30, occatrace.annotate("task long")),
        task("task short", 3, occatrace.annotate("task short")),
    ]
    tasks += [
        task("shared", 20, shared),
        task("shared", 2, shared),
        task("task fails", 5, occatrace.annotate("task fails")),
    ]
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, ValueError) for result in done] == [False] * 4 + [True]
    assert [i async for i in numbers("numbers")] == [0, 1, 2]
    early = numbers("numbers, left early")
    assert await early.__anext__() == 0
    await early.aclose()
    await stacked("stacked")


# In turns: the first to begin is the first to end, and an ordinary range lies across both.
first, second = steps("first", 2), steps("second", 3)
assert next(first) == next(second) == 0
with told("across") as inside, occatrace.annotate("across"):
    inside.append(now())
    assert [*first] == [1]
    inside.append(now())
assert [*second] == [1, 2]
left = steps("left early", 5)
next(left)
left.close()  # type: ignore[attr-defined]
with told("plain") as inside, occatrace.annotate("plain"):
    inside.append(now())
    inside.append(now())
asyncio.run(main())
both = occatrace.annotate("both")
with ThreadPoolExecutor(4) as pool:
    list(pool.map(in_thread, range(20)))
