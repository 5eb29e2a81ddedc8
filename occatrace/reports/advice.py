"""The report `advice`: signs found by the query of its file, and those of ranks, teams, queues and copies (signs.py); what the
fix of a sign would gain is predicted on the graph of the run, where there is a change that stands for it."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from occatrace.errors import RunError
from occatrace.reports import critical, limits, sentences, signs, wait_states
from occatrace.reports.critical import whatif
from occatrace.reports.signs import Sign
from occatrace.store import memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from occatrace.reports import Report
    from occatrace.store.tables import Store

# Signs that say what can be seen, not why. They are said only of time that no other sign explains.
_IDLE, _PYTHON, _POLLING, _FIRST_CALL = "idle device", "Python while the device is idle", "polling", "slow first call"
_WAITING, _LATE_LAUNCHES = "waiting", "late first launches"
# A launching call may take longer than its kernel where nothing is to gain, as the queue is full or the processor is shared; each
# rank may be the last one now and then; a first call that blocks may have waited for the device, and a call that waits for nothing
# that is late; work may wait for another queue while the run waits for that one anyway; a driver may build kernels while the host
# does something else. Of these signs a fix is predicted to gain at least so many percent of the run.
_DOUBTFUL, _WORTH = frozenset(("short kernels", signs.LATE, _FIRST_CALL, signs.QUEUES, _WAITING, _LATE_LAUNCHES)), 1.0
# What the query makes one after another.
_STAGE = re.compile(r"^(\w+) AS MATERIALIZED \(\n(.*?)^\),\n", re.MULTILINE | re.DOTALL)
_COPIES = frozenset(("pageable copies", "small copies", "copies of unchanged data"))


def rows(store: Store, name: str, _: Sequence[Report] = ()) -> list[tuple[Any, ...]]:
    """Rows of the report, by predicted gain; without a prediction the share counts."""
    from occatrace import reports

    entry = reports.definition(name)
    found = _of_query(store, entry.sql)
    run = critical.of(store) if _small_enough(store) else None
    gains: dict[tuple[whatif.Change, ...], float | None] = {}
    if run is not None and run.graph is not None:
        found += signs.of_graph(store, run, wait_states.found(store, run))
        gains = {changes: _gain(run, changes) for changes in {sign.changes for sign in found if sign.changes}}
    found += _of_users(store)
    weighed = [(sign, sign.gain if sign.gain is not None else gains.get(sign.changes)) for sign in found]
    # A sign that is dropped explains no other.
    weighed = [
        (sign, gain) for sign, gain in weighed if not (sign.name in _DOUBTFUL and gain is not None and gain < _WORTH)
    ]
    made = [
        (gain, sign.share, sign.name, sign.evidence, sign.advice, sign.caller, sign.rank)
        for sign, gain in weighed
        if not _explained(sign, weighed, store)
    ]
    ordered = sorted(made, key=lambda row: (-(row[1] if row[0] is None else row[0]), row[2], row[3]))
    return [reports.plain(row, entry) for row in ordered]


def _of_query(store: Store, sql: str) -> list[Sign]:
    """The signs that the query finds."""
    con, made = store.con, []
    try:
        while stage := _STAGE.search(sql):
            name, before = stage[1], sql[: stage.start()].rstrip()
            part = f"{before}\n{name} AS ({stage[2]})\nSELECT * FROM {name}"
            memory.within(con, partial(con.execute, f"CREATE OR REPLACE TEMP TABLE {name} AS {part}"))
            made.append(name)
            sql = f"{before}\n{sql[stage.end() :]}"
        result = memory.within(con, lambda: con.execute(sql))
        at = {column[0]: place for place, column in enumerate(result.description or ())}
        return [
            Sign(
                row[at["share"]],
                row[at["name"]],
                sentences.written(row[at["evidence"]]),
                row[at["advice"]],
                _changes(row[at["changes"]]),
                row[at["caller"]] or "",
            )
            for row in result.fetchall()
        ]
    finally:
        for name in made:
            con.execute(f"DROP TABLE temp.{name}")


def _explained(sign: Sign, weighed: Sequence[tuple[Sign, float | None]], store: Store) -> bool:
    """Whether others say why this sign is there."""
    shares: dict[str, float] = {}
    for other, _ in weighed:
        shares[other.name] = shares.get(other.name, 0.0) + other.share
    waited = sum(other.share for other, _ in weighed if other.name == _WAITING)
    if sign.name == _WAITING:
        # A copy that blocks waits for itself: what is wrong with the copy comes first.
        function = sign.changes[0].name if sign.changes else None
        # Those of OCCA have no addresses, but a direction.
        copies = any(
            known.name == function and (known.copies or {"kind", "bytes"} <= {arg.name for arg in known.args})
            for known in store.model.functions
        )
        return copies and bool(_COPIES & shares.keys())
    if sign.name == _PYTHON:
        return waited > 0.5 * sign.share  # the host came to Python too late, because it had waited
    if sign.name == _FIRST_CALL:  # it waited for a kernel that the driver built meanwhile
        return shares.get(_LATE_LAUNCHES, 0.0) > 0.5 * sign.share
    if sign.name == _POLLING:  # for a rank that is late
        return sum(shares.get(name, 0.0) for name in (signs.LATE, signs.TURNS)) > 0.5 * sign.share
    causes = sum(share for name, share in shares.items() if name not in (_IDLE, _WAITING, _POLLING)) + waited
    return sign.name == _IDLE and causes > 0.5 * sign.share


def notes(store: Store, _: str) -> list[str]:
    """What cannot be told."""
    out = limits.lines(
        store,
        "most signs need them",
        "signs among them are missing, and predictions are less certain",
        "signs and predictions are of the recorded time",
    )
    if not _small_enough(store):
        out.append(
            f"the run has more than {_MOST:,} calls and activities: no gains are predicted, and signs of ranks, teams,"
            " queues and unchanged data are not looked for (why, wait_states and idle_sum have them)"
        )
    return out


# Calls and activities up to which the graph is built. 1.8 million took 7 s of processor time and 0.6 GB; 3 million stay below 1 GB.
_MOST = 3_000_000


def _small_enough(store: Store) -> bool:
    sql = "SELECT (SELECT coalesce(sum(calls), 0) FROM call_stats WHERE source = 'event') + (SELECT count(*) FROM activities)"
    return int(store.con.execute(sql).fetchall()[0][0]) <= _MOST


def _of_users(store: Store) -> list[Sign]:
    """The rows of users' reports that have the columns of a sign. One that cannot be made says so, and stops no other."""
    from occatrace import reports
    from occatrace.reports import recipes

    out = []
    for entry in recipes.definitions().values():
        names = [column.name for column in entry.columns]
        if not {*names} >= recipes.SIGN:
            continue
        at = [names.index(column) for column in ("share", "name", "evidence", "advice")]
        try:
            out += [Sign(*(row[place] for place in at)) for row in reports.make(store, entry.name).rows]
        except RunError as error:
            out.append(
                Sign(
                    0.0, entry.name, str(error), f"mend this report, or remove it from {recipes.VARIABLE} or its folder"
                )
            )
    return out


def _changes(texts: Sequence[str] | None) -> tuple[whatif.Change, ...]:
    """The changes that the query names. A name may have commas (C++), so each text is one change."""
    out = []
    for text in texts or ():
        head, _, factor = text.rpartition("*")
        kind, _, name = head.partition(":")
        out.append(whatif.Change(kind, name or None, float(factor), text))
    return tuple(out)


def _gain(run: critical.Run, changes: Sequence[whatif.Change]) -> float | None:
    """Of the run time, in percent; None: nothing of the graph matches."""
    if run.graph is None or not run.graph.time[run.graph.end]:
        return None
    known = []
    for change in changes:
        try:
            end = float(run.times([change])[run.graph.end])
        except RunError:
            continue  # this one is not in the graph
        known.append((change, end))
    if not known:
        return None
    end = known[0][1] if len(known) == 1 else float(run.times([change for change, _ in known])[run.graph.end])
    return max(100.0 * (1 - end / float(run.graph.time[run.graph.end])), 0.0)
