"""Marks ranges in processes started in one of multiprocessing's ways, in their threads, and in pools of processes."""

import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import occatrace


def in_thread() -> None:
    for _ in range(7):
        with occatrace.annotate("thread"):
            pass


def work(number: int) -> int:
    threads = [threading.Thread(target=in_thread) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(number + 1):
        occatrace.mark("work")
    return number


def pooled(number: int) -> int:
    for _ in range(number):
        with occatrace.annotate("pooled"):
            pass
    return number


if __name__ == "__main__":
    occatrace.mark("main")
    context: Any = multiprocessing.get_context(sys.argv[1])
    processes = [context.Process(target=work, args=(i,)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)
    numbers = list(range(5))
    with context.Pool(2) as pool:
        assert pool.map(pooled, numbers, 1) == numbers
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        assert list(executor.map(pooled, numbers)) == numbers
    print("right")
