"""The chunks of a trace that LTTng rotates, in their order; what is still being written is the last."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CHUNK_NAME = re.compile(r".*-(\d+)")


@dataclass(frozen=True)
class Piece:
    """A piece of the trace, or what is still being written; in the order of their numbers they are the trace."""

    number: int
    path: Path
    finished: bool


def pieces(trace: Path) -> list[Piece]:
    """Of one host's trace, in their order. LTTng moves what is finished to `archives`; before its first rotation it writes
    into the folder itself."""
    found = []
    for folder, finished in ((trace / "archives", True), (trace, False)):
        for path in folder.iterdir() if folder.is_dir() else ():
            number = CHUNK_NAME.fullmatch(path.name)
            if number and path.is_dir():
                found.append(Piece(int(number[1]), path, finished))
    if (trace / "ust").is_dir():
        found.append(Piece(0, trace / "ust", False))
    between = trace / ".tmp_old_chunk"  # the first piece, while it is moved
    if between.is_dir():
        found.append(Piece(min((piece.number for piece in found), default=1) - 1, between, False))
    return sorted(found, key=lambda piece: (piece.number, not piece.finished))


def written(trace: Path) -> Path:
    """The folder into which LTTng writes, of one host's trace."""
    last = [piece for piece in pieces(trace) if not piece.finished][-1:]
    return trace if not last or last[0].path.name == "ust" else last[0].path
