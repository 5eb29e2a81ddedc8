"""What `occa_prof doctor` prints: its findings."""

from __future__ import annotations

from dataclasses import dataclass

OK, NOTE, MISSING, BROKEN = "ok", "note", "missing", "BROKEN"
NONE = "none"  # not on this machine; only programs that use it need it


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: `cost` says what goes without it, `remedy` what to do."""

    state: str
    what: str
    detail: str = ""
    cost: str = ""
    remedy: str = ""
