"""The machine of a run, where one recorded it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from occatrace.run import folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from occatrace.store.tables import Store


def session(store: Store) -> Mapping[str, Any]:
    """What run.json says of the session: its processors, and what others used of them. Empty where several machines recorded."""
    hosts = store.con.execute("SELECT count(DISTINCT host) FROM processes").fetchall()[0][0]
    found: Mapping[str, Any] = folder.run_facts(store.run).get("session", {}) if hosts == 1 else {}
    return found


def processors(facts: Mapping[str, Any]) -> int:
    """How many the machine of a session (as above) has; 0: not known."""
    return int(facts.get("buffers", {}).get("cpus", 0))
