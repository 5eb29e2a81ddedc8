"""Where the ranks of a node meet, and who clears that away after the process that recorded them was killed."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator

import pytest

from occatrace.core import places
from occatrace.record import job


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[job.Desk]:
    with tempfile.TemporaryDirectory() as place:  # a short path, as of a socket
        monkeypatch.setattr(places, "USUAL", ())
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield job.find_desk("0" * 12)


def test_a_process_that_is_being_killed(desk: job.Desk) -> None:
    """The kernel closes what it listens at after its connections: for a moment others can still connect."""
    assert desk.listener
    desk.close()
    timer = threading.Timer(0.2, desk.listener.close)
    timer.start()
    found = [job.clear_lost_desk(desk.folder) for _ in range(2)]
    timer.join()
    assert found == [True, False]  # one of two ranks says it
    assert not desk.folder.exists()


def test_a_process_that_does_not_answer(desk: job.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "DYING_S", 0.1)
    assert desk.listener
    desk.close()
    assert not job.clear_lost_desk(desk.folder)
    assert desk.folder.exists()
    desk.listener.close()
    assert job.clear_lost_desk(desk.folder)
