"""What --what-if says: which pieces of a run take how much of their time. No graph, no output.

`kernel:NAME*F`, `copy:NAME*F`, `build:NAME*F`, `call:NAME*F`, `function:NAME*F`, `import:NAME*F`, `python:NAME*F`, `host:NAME*F`,
`network*F`, `rank:N*F`, `rank:N=mean`; without a name all of the kind. F is a number, 0 and up; names may have the wildcards of a
shell. `launch:NAME*F`: the launch latency of device work of this name, and the gaps before it in its queue. `wait:NAME*0`: calls of
this name do not wait for devices, but the last one of each thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from occatrace.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from occatrace.reports.critical.labels import Label

KINDS = ("kernel", "copy", "build", "call", "function", "import", "python", "host")
NETWORK, RANK = "network", "rank"
SYNTAX = (
    "write kernel:NAME*0.5, copy:HtoD*0, launch:NAME*0.5, build*0, call:NAME*0.5, wait:NAME*0, function:NAME*0.5,"
    " import:NAME*0, network*0, rank:3*0.5 or rank:3=mean"
)
# The kinds of labels that have the names of a change, where they are not of its own kind.
_NAMED = {"wait": ("call",), "launch": ("kernel", "copy", "device work")}
# Names of C++ have commas: one that divides changes comes before a kind.
_BETWEEN = re.compile(rf",\s*(?=(?:{'|'.join((*KINDS, *_NAMED, NETWORK, RANK))})\s*[:*])|,\s*$")


@dataclass(frozen=True)
class Change:
    """One change. `factor` None: as long as the mean of the ranks."""

    kind: str
    name: str | None
    factor: float | None
    text: str

    def matches(self, label: Label) -> bool:
        """Whether a piece with this label changes."""
        if label.kind not in _NAMED.get(self.kind, (self.kind,)):
            return False
        if self.name is None:
            return True
        return any(name == self.name or fnmatchcase(name, self.name) for name in (label.name, label.other) if name)


def parse(texts: Sequence[str]) -> list[Change]:
    """The changes; commas divide several in one text. Raises a RunError for what cannot be understood."""
    return [_one(word.strip()) for text in texts for word in _words(text)]


def _words(text: str) -> list[str]:
    found = _BETWEEN.split(text)
    return found[:-1] if len(found) > 1 and not found[-1].strip() else found


def _one(text: str) -> Change:
    mean = re.fullmatch(r"rank:(\d+)\s*=\s*mean", text)
    if mean:
        return Change(RANK, mean[1], None, text)
    head, star, factor = text.rpartition("*")
    kind, colon, name = head.partition(":")
    kind = kind.strip()
    try:
        value = float(factor)
    except ValueError:
        value = -1.0
    good = star and 0.0 <= value < float("inf") and (not colon or name.strip())
    if not good or kind not in (*KINDS, *_NAMED, NETWORK, RANK):
        raise RunError(f"--what-if {text}: {SYNTAX}")
    if kind == "wait" and value:
        raise RunError(f"--what-if {text}: a wait stays or goes: wait:NAME*0")
    if (kind == NETWORK and colon) or (kind == RANK and not re.fullmatch(r"\d+", name.strip())):
        raise RunError(f"--what-if {text}: {SYNTAX}")
    return Change(kind, name.strip() or None, value, text)


def unknown(change: Change, known: Sequence[Label]) -> RunError:
    """What to say of a change that nothing of the run matches."""
    names = sorted({label.name for label in known if label.kind in _NAMED.get(change.kind, (change.kind,))})
    there = f"there are: {', '.join(names[:12])}{' …' if len(names) > 12 else ''}" if names else "the run has none"
    return RunError(f"--what-if {change.text}: no such {change.kind}; {there}")
