"""The machine of a run, where one recorded it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from occatrace.run import folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from occatrace.store.tables import Store


_MOST = 1 << 16  # processors of a machine: what names more is damaged


def session(store: Store) -> Mapping[str, Any]:
    """What run.json says of the session: its processors, and what others used of them. Empty where several machines recorded."""
    hosts = store.con.execute("SELECT count(DISTINCT host) FROM processes").fetchall()[0][0]
    found: Mapping[str, Any] = folder.run_facts(store.run).get("session", {}) if hosts == 1 else {}
    return found


def processors(facts: Mapping[str, Any]) -> int:
    """How many the machine of a session (as above) has; 0: not known."""
    return int(facts.get("buffers", {}).get("cpus", 0))


def numbers(text: str | None) -> frozenset[int]:
    """The processors of a process (`processes.cpus`), such as 0-3,8; empty where they are not known."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (not last or last.isdigit())):
            return frozenset()
        found.update(range(int(first), min(int(last or first), int(first) + _MOST) + 1))
    return frozenset(found)


@dataclass(frozen=True)
class Shared:
    """Processors of one machine, and the processes of ranks that may use no others. `count` is 0 where it is not known."""

    count: int
    bound: bool  # the machine has more of them
    ranks: Mapping[int | None, Sequence[int]]  # the processes of each; None: one without a rank, which is alone


def shared(store: Store) -> Sequence[Shared]:
    """The processes of each machine in groups that may use the same processors."""
    whole = processors(session(store))
    groups: dict[tuple[str, frozenset[int], int | None], dict[int | None, list[int]]] = {}
    for process, rank, host, text in store.con.execute(
        "SELECT process, rank, host, cpus FROM processes ORDER BY process"
    ).fetchall():
        group = groups.setdefault((host, numbers(text), process if rank is None else None), {})
        group.setdefault(rank, []).append(process)
    return [Shared(len(own) or whole, 0 < len(own) < whole, ranks) for (_, own, _), ranks in groups.items()]
