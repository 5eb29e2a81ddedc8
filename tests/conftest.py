"""How the tests are shared out among workers that run beside each other (tools/test)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest

SIGNAL_MASK = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # as the tests were started
# nohup and the background jobs of scripts ignore these, and so would every command that a test starts and then signals.
for _number, _default in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)
# Folders of integration/ that stay together, because programs, or a cache of compiled kernels, are made for all of a folder.
TOGETHER = {"html": "html", "timeline": "timeline", "occa": "occa", "memory": "occa", "openmp": "occa"}
# These take longest, so they are begun first.
LONG = ("occa", "session/test_command.py", "ranks/test_jobs.py", "timeline", "unit/test_timeline_tables.py")


def group(file: str) -> str:
    """What one worker does; of most files each is one."""
    path = PurePath(file)
    return TOGETHER.get(path.parent.name, "/".join(path.parts[-2:]))


def is_slow(item: pytest.Item) -> bool:
    """Half a minute and more, for what a faster test shows with another build of OCCA, or in parts."""
    name = item.name
    if name.startswith("test_calls_launches_bytes_and_failures["):
        return item.path.parent.name == "occa" and ("clang" in name or "symbolic" in name)
    if item.path.parent.name == "other_tools":
        return True  # it installs packages at the first use
    return item.path.name == "test_tutorials.py" and ("occa" in name or "pyopencl" in name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which tests are slow; in a worker: long groups first."""
    for item in items:
        if is_slow(item):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        order = {name: at for at, name in enumerate(LONG)}
        items.sort(key=lambda item: order.get(group(str(item.path)), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """By groups, in the order in which they stand."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid.partition("::")[0])

    config.option.loadscopereorder = False
    return ByGroup(config, log)


@pytest.fixture(autouse=True)
def own_signal_mask() -> Iterator[None]:
    """A test that calls a command in this process leaves the signals as they were: a shell that inherits a blocked SIGCHLD
    waits for ever for its children."""
    signal.pthread_sigmask(signal.SIG_SETMASK, SIGNAL_MASK)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, SIGNAL_MASK)
