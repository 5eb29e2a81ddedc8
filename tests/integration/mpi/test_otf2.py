"""Messages and collectives of MPI in OTF2 archives, as otf2-print shows them: as exact as in the tables."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from occatrace.cli.dispatch import main
from tests.integration.mpi.test_truth import COLLECTIVES, RANKS, _messages
from tests.support.suites.mpi import MPIS, Build, Trace

MESSAGE = re.compile(
    r'MPI_(I?)(SEND|RECV)\s+(\d+)\s+\d+\s+(?:Receiver|Sender): \d+ \(".*?" <(\d+)>\).*Tag: (\d+), Length: (\d+)'
)
COLLECTIVE = re.compile(
    r"(?:MPI_COLLECTIVE_END|NON_BLOCKING_COLLECTIVE_COMPLETE)\s+(\d+)\s+\d+\s+Operation: (\w+),.*Root: (.*), Sent: (\d+)"
)
MEMBER = re.compile(r'".*?" <(\d+)>')


def test_every_message_is_in_the_archive(build: Build, trace: Trace, tmp_path: Path) -> None:
    """Blocking, posted, persistent and probed ones, in communicators of all and of halves, and who sent to whom."""
    pytest.importorskip("otf2")
    if not MPIS[0].there or not shutil.which("otf2-print"):
        pytest.skip("Open MPI 4 or otf2-tools is not installed (tools/setup --test)")
    traced = trace(MPIS[0], RANKS, build(MPIS[0], "cases.c"))
    assert main(["export", str(traced.run.path), "--format", "otf2", "-o", str(tmp_path / "o")]) == 0

    def output(*words: str) -> list[str]:
        command = ["otf2-print", *words, str(tmp_path / "o" / "traces.otf2")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert not done.stderr
        return done.stdout.splitlines()

    (group,) = (line for line in output("-G") if line.startswith("GROUP") and "COMM_LOCATIONS" in line)
    rank = {place: at for at, place in enumerate(MEMBER.findall(group.partition("Members:")[2]))}
    assert len(rank) == RANKS
    found: dict[str, Counter[tuple[int, int, int, int]]] = {"SEND": Counter(), "RECV": Counter()}
    posted: Counter[str] = Counter()
    moved: Counter[tuple[str, int]] = Counter()
    roots = set()
    for line in output():
        if match := MESSAGE.match(line):
            asked, what, here, there, tag, length = match.groups()
            ends = (rank[here], rank[there]) if what == "SEND" else (rank[there], rank[here])
            found[what][(*ends, int(tag), int(length))] += 1
            posted[asked + what] += 1
        elif match := COLLECTIVE.match(line):
            moved[match[2], rank[match[1]]] += int(match[4])
            roots.add((match[2], match[3].partition(" ")[0]))
        assert "INVALID" not in line
    expected = _messages(partitioned=False)
    expected[2, 3, 121, 40] = expected[2, 3, 122, 8] = 1
    assert found["SEND"] == expected
    assert found["RECV"] == expected - Counter({(2, 3, 121, 40): 1})  # too long for its receive
    assert posted["ISEND"] > 100 and posted["SEND"] > 10
    blocking = {(name[4:].upper(), at): each for name, by in COLLECTIVES.items() if name for at, each in enumerate(by)}
    for at in range(RANKS):
        blocking["ALLREDUCE", at] += COLLECTIVES[None][at]  # what a request told
    assert {key: moved[key] for key in blocking} == blocking
    assert ("BARRIER", "NONE") in roots and ("GATHERV", "NONE") not in roots
