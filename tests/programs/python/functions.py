"""Functions that are called as often as the test knows, in every way that a function can be left and entered again."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def numbers(count: int) -> Iterator[int]:
    yield from range(count)


def raises() -> None:
    raise ValueError("on purpose")


async def waits() -> int:
    await asyncio.sleep(0)
    return 1


class Thing:
    def method(self) -> str:
        return json.dumps([1])


def in_thread() -> None:
    for _ in range(5):
        Thing().method()


assert fibonacci(10) == 55
assert sum(numbers(4)) == 6
for _ in range(3):
    with contextlib.suppress(ValueError):
        raises()


async def main() -> int:
    return sum(await asyncio.gather(*(waits() for _ in range(4))))


assert asyncio.run(main()) == 4
threads = []
for _ in range(3):
    threads.append(threading.Thread(target=in_thread))
    threads[-1].start()
for thread in threads:
    thread.join()
left = numbers(2)
next(left)
del left
print("right")
