"""Signs of the report `advice` that need the graph of the run: ranks, teams of OpenMP, queues, Python, copies of unchanged data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from occatrace.core.sql import name as sql_name
from occatrace.core.units import duration, size
from occatrace.reports import idle, machine, wait_states
from occatrace.reports.critical import labels, mpi, whatif

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from occatrace.reports import critical
    from occatrace.store.tables import Store

LATE, TURNS, QUEUES = "late rank", "ranks take turns", "work that waits for another queue"
_LEAST = 0.05  # of the run, from which a sign is worth a word
_NOTHING = 0.01  # of the run, up to which nothing is worth a word
_OTHER_RANKS = frozenset(
    (
        wait_states.SENDER,
        wait_states.RECEIVER,
        wait_states.BARRIER,
        wait_states.NXN,
        wait_states.BROADCAST,
        wait_states.REDUCE,
        wait_states.SCAN,
    )
)
_LATE = 1.5  # times the mean of all ranks: for so long others wait for a rank that is late
_BUSY = 0.1  # of the processors' time by other programs, from which threads may be late because of these
_OFTEN = 20  # times, from which something is done again and again
# Regions of OpenMP that are shorter than this do little but begin and end, which takes 1 to 10 µs.
_SHORT_REGION_NS = 20_000
# A message of less than this takes as long as an empty one.
_SMALL_MESSAGE = 1024
_COMPARED = 16  # of the other ranks, with which one that computes longest is compared
# Lines of the program for rows `m` of mpi_messages.
_WITH_LINE = """LEFT JOIN (
    SELECT k.thread, k.seq, coalesce(y.source, line_place(s.file, s.line, s.module, s."offset")) AS source
    FROM calls k LEFT JOIN call_sites s ON s.process = k.process AND s.address = k.caller
    LEFT JOIN python_places y ON y.thread = k.thread AND y.seq = k.seq WHERE k.api = 'mpi'
) c ON c.thread = m.thread AND c.seq = m.seq"""
# One core stores at most 64 bytes in a cycle, at about 4 GHz: data of n bytes cannot be made anew in less than n / 256 ns.
_WRITTEN_BYTES_PER_NS = 256.0


@dataclass(frozen=True)
class Sign:
    """A row, and the changes of `why --what-if` that stand for its fix; none: there are none. `gain`: where something else than
    the graph predicts it."""

    share: float
    name: str
    evidence: str
    advice: str
    changes: tuple[whatif.Change, ...] = ()
    caller: str = ""
    rank: int | None = None
    gain: float | None = None


def of_graph(store: Store, run: critical.Run, states: Sequence[tuple[Any, ...]]) -> list[Sign]:
    """The signs of a run. `states`: the rows of wait_states."""
    if run.graph is None:
        return []
    length = float(run.graph.time[run.graph.end])
    if length <= 0:
        return []
    collectives = list(_collectives(store, states, length))
    turns = [] if collectives else _turns(store, states, length)
    late = [] if turns else list(_late_ranks(run, states, store.ranks, length))
    return [
        *turns,
        *(late if late or turns or collectives else _tested(store, run, length) or _busy_ranks(store, run, length)),
        *_queues(run, states, length),
        *_python(store, run, length),
        *_messages(store, length),
        *collectives,
        *_teams(store, length),
        *_unchanged(store, run, length),
    ]


# ---- ranks ----


def _late_ranks(run: critical.Run, states: Sequence[tuple[Any, ...]], ranks: int, length: float) -> Iterator[Sign]:
    """Ranks for which others wait, with what they do meanwhile. A culprit that is in a call of MPI waits itself. Where each rank is
    the last one now and then, as on a busy machine, none of them is late. Where nothing is gained if only one of them becomes
    faster, as others compute as long, it is about all of these."""
    total: dict[int, float] = {}
    share: dict[int, float] = {}
    most: dict[int, tuple[Any, ...]] = {}
    waited: Counter[tuple[int, int | None]] = Counter()  # of the late one, by the one that waits
    for row in states:
        rank, doing, culprit = row[8], row[9], row[10]
        if not _of_others(row) or rank is None or (doing == "call" and culprit.startswith("MPI_")):
            continue
        total[rank] = total.get(rank, 0.0) + row[1]
        share[rank] = share.get(rank, 0.0) + row[0]
        waited[rank, row[5]] += row[1]
        most.setdefault(rank, row)  # the largest comes first
    usual = sum(total.values()) / max(ranks, 1)
    told: set[int] = set()
    for rank, ns in sorted(total.items(), key=lambda each: (-each[1], each[0])):
        worst = max(each for (late, _), each in waited.items() if late == rank)
        if worst < _LEAST * length or ns < _LATE * usual or rank in told:
            continue
        row = most[rank]
        place = f" ({row[11]})" if row[11] else ""
        evidence = (
            f"others waited {duration(ns)} for rank {rank}, most of it ({duration(row[1])}, {row[4]} in {row[7]} of"
            f" rank {row[5]}) while it was in {row[9]}: {row[10]}{place}"
        )
        changes, shown = _as_the_mean((rank,)), share[rank]
        words = "give this rank less work, or make this faster"
        alike = _alike(run, rank)
        if len(alike) > 1 and _gain(run, changes, length) < _NOTHING:
            told |= {*alike}
            changes, shown = _as_the_mean(alike), sum(share.get(each, 0.0) for each in alike)
            evidence += f"; {_those(alike)} compute about as long"
            words = "give these ranks less work, or make this faster"
        yield Sign(shown, LATE, evidence, words, changes, row[11], rank)


def _of_others(row: tuple[Any, ...]) -> bool:
    """Whether this row of wait_states is a wait for another rank. Ranks begin at different moments, which is nobody's fault."""
    return row[4] in _OTHER_RANKS or (row[4] == wait_states.ENDS and row[7] == "MPI_Finalize")


def _as_the_mean(ranks: Sequence[int]) -> tuple[whatif.Change, ...]:
    return tuple(whatif.Change("rank", str(rank), None, f"rank:{rank}=mean") for rank in ranks)


def _those(ranks: Sequence[int]) -> str:
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _gain(run: critical.Run, changes: Sequence[whatif.Change], length: float) -> float:
    """The part of the run that these changes save."""
    return 1 - float(run.times(changes)[run.graph.end]) / length if run.graph is not None else 0.0


def _alike(run: critical.Run, rank: int) -> list[int]:
    """The ranks that compute nearly as much more than the mean as this one, at most half of all; none: it computes no more."""
    return _most(run.busy, run.busy.get(rank, 0.0))


def _most(busy: Mapping[int, float], ns: float) -> list[int]:
    mean = sum(busy.values()) / max(len(busy), 1)
    found = sorted(rank for rank, own in busy.items() if own - mean > 0.5 * (ns - mean))
    return found if ns > mean and 2 * len(found) <= len(busy) else []


def _tested(store: Store, run: critical.Run, length: float) -> list[Sign]:
    """Ranks for whose messages others test in a loop, where these are sent long after the others were ready to receive them. Tests
    are only counted, so it is not known what is done between them: a few for each message are no loop."""
    if "mpi_messages" not in store.filled:
        return []
    parts = "PARTITION BY rank, partner, tag, comm"
    rows = store.con.execute(
        f"""
        WITH messages AS (
            SELECT m.*, coalesce(r.rank, p.rank) AS rank, (coalesce(c.name, ''), c.size, c.first_rank)::VARCHAR AS comm
            FROM mpi_messages m JOIN processes p USING (process) LEFT JOIN mpi_ranks r USING (process)
            LEFT JOIN mpi_comms c USING (mpi_comm) WHERE m.state = 'complete' AND m.kind IN ('send', 'receive')
        ),
        numbered AS (
            SELECT *, row_number() OVER ({parts}, kind ORDER BY start_ns, seq) AS n, count(*) OVER ({parts}, kind) AS whole
            FROM messages
        ),
        pairs AS (
            SELECT r.rank, r.thread, s.rank AS sender, s.thread AS other,
                   k.end_ns::BIGINT + {mpi.COMPLETED_NS} < r.end_ns::BIGINT AS tested,
                   greatest(least(s.start_ns, r.end_ns)::BIGINT - r.start_ns::BIGINT, 0)::DOUBLE AS late
            FROM numbered r JOIN numbered s
            ON s.rank = r.partner AND s.partner = r.rank AND s.tag = r.tag AND s.comm = r.comm AND s.n = r.n AND s.whole = r.whole
            ASOF LEFT JOIN (SELECT thread, start_ns, end_ns FROM calls WHERE api = 'mpi') k
            ON k.thread = r.thread AND k.start_ns <= r.end_ns
            WHERE r.kind = 'receive' AND s.kind = 'send' AND r.function IS NULL
        ),
        tests AS (SELECT thread, sum(calls) AS n FROM call_stats WHERE api = 'mpi' AND function LIKE 'MPI_Test%' GROUP BY thread)
        SELECT p.rank, p.sender, any_value(p.other), count(*), any_value(t.n)::BIGINT, sum(p.late) FILTER (p.tested) AS ns
        FROM pairs p JOIN tests t USING (thread) GROUP BY p.rank, p.thread, p.sender
        HAVING 2 * count(*) FILTER (p.tested) >= count(*) AND any_value(t.n) >= {_OFTEN} * count(*) ORDER BY ns DESC, p.rank"""
    ).fetchall()
    waits: Counter[int] = Counter()  # of a rank for others, and of others for it
    lost: Counter[int] = Counter()
    for rank, sender, _, _, _, ns in rows:
        waits[rank] += ns
        lost[sender] += ns
    out = []
    for sender, whole in lost.most_common():
        those = [row for row in rows if row[1] == sender]
        if those[0][5] < _LEAST * length or waits[sender] > 0.5 * whole:
            continue
        rank, _, thread, count, tests, ns = those[0]
        doing = run.longest(thread, "MPI_")
        evidence = (
            f"{count:,} messages of rank {sender} to rank {rank} were sent {duration(ns)} in all after that was ready to receive them"
            f" ({100 * ns / length:.0f} % of the run); it tested {tests:,} times for messages meanwhile"
        )
        if doing is not None:
            evidence += f"; rank {sender} was most of its time in {_described(doing)}"
        words = "give this rank less work, or make this faster, unless the others compute between their tests"
        share = 100.0 * whole / (length * store.ranks)
        out.append(Sign(share, LATE, evidence, words, caller=doing.source if doing is not None else "", rank=sender))
    return out


def _described(doing: labels.Label) -> str:
    return f"{'host code: ' if doing.kind == 'host' else ''}{doing.shown}{f' ({doing.source})' if doing.source else ''}"


def _busy_ranks(store: Store, run: critical.Run, length: float) -> Iterator[Sign]:
    """Ranks that compute longest while others are in MPI, where nothing is known about who waits for whom: locks of windows, tests
    in a loop."""
    if run.graph is None:
        return
    rows = store.con.execute(
        f"""
        WITH ranks AS (
            SELECT m.process, m.rank, span(m.start_ns, coalesce(m.end_ns, p.end_ns))::DOUBLE AS ns
            FROM mpi_ranks m JOIN processes p USING (process)
        ),
        used AS (
            SELECT process, thread, sum(total_ns)::DOUBLE AS ns, arg_max(function, total_ns) AS function FROM call_stats
            WHERE api = 'mpi' AND function NOT IN ({", ".join(f"'{name}'" for name in mpi.ENDS)}) GROUP BY ALL
        )
        SELECT rank, any_value(r.ns), max(u.ns), arg_max(u.function, u.ns), arg_max(u.thread, u.ns)
        FROM ranks r JOIN used u USING (process) GROUP BY rank ORDER BY rank"""
    ).fetchall()
    if len(rows) < 2:
        return
    own = {rank: max(ns - used, 0.0) for rank, ns, used, _, _ in rows}
    in_mpi = sum(used for _, _, used, _, _ in rows) / len(rows)
    longest = max(own, key=lambda rank: own[rank])
    gain = (own[longest] - sum(own.values()) / len(own)) / length
    late = _most(own, own[longest])
    if in_mpi < 2 * _LEAST * length or gain < _LEAST or not late:
        return
    function = max((row for row in rows if row[0] not in late), key=lambda row: row[2])[3]
    thread = next(row[4] for row in rows if row[0] == longest)
    others, least = [row[4] for row in rows if row[0] not in late][:_COMPARED], 0.25 * gain * length
    # Where calls are only counted, the time in them is in host code of all ranks alike.
    doing, most = run.longest(thread, "MPI_", others, least), "most of the difference in"
    if doing is None:
        doing, most = run.longest(thread, "MPI_"), "most of it in"
    which = f"rank {longest}" if len(late) == 1 else _those(late)
    evidence = (
        f"ranks were in MPI for {duration(in_mpi)} on average ({100 * in_mpi / length:.0f} % of the run), most of it in {function},"
        f" while {which} computed longest ({duration(own[longest])}; the mean is {duration(sum(own.values()) / len(own))})"
    )
    if doing is not None:
        evidence += f", {most} {_described(doing)}"
    words = f"give {'this rank' if len(late) == 1 else 'these ranks'} less work, or make this faster"
    source = doing.source if doing is not None else ""
    yield Sign(100.0 * in_mpi / length, LATE, evidence, words, (), source, longest, 100.0 * gain)


def _turns(store: Store, states: Sequence[tuple[Any, ...]], length: float) -> list[Sign]:
    """Ranks of which each waits for one that waits itself: for half of the time between MPI_Init and MPI_Finalize in the mean, so
    that every second rank works at a time at most, and none for much less."""
    waited: Counter[int] = Counter()
    behind: Counter[str] = Counter()  # by call, what was waited for ranks that waited themselves
    for row in states:
        if row[4] in _OTHER_RANKS and row[5] is not None:
            waited[row[5]] += row[1]
            if row[9] == "call" and row[10].startswith("MPI_"):
                behind[row[7]] += row[1]
    sql = "SELECT m.rank, span(m.start_ns, coalesce(m.end_ns, p.end_ns))::DOUBLE FROM mpi_ranks m JOIN processes p USING (process)"
    spans = dict(store.con.execute(sql).fetchall())
    whole = sum(waited.values())
    if len(spans) < 2 or 2 * whole < sum(spans.values()) or 2 * sum(behind.values()) < whole:
        return []
    if any(3 * waited[rank] < ns for rank, ns in spans.items()):
        return []
    mean = whole / len(spans)
    evidence = (
        f"each of {len(spans)} ranks waited {duration(mean)} on average ({100 * mean / length:.0f} % of the run), most of it"
        f" in {behind.most_common(1)[0][0]} for a rank that waited itself"
    )
    words = "let ranks work at the same time: send before computing, or divide the work so that no rank needs another one's result"
    gain = 100.0 * min(waited[rank] for rank in spans) / length  # all but the time of the rank that works longest
    return [Sign(100.0 * mean / length, TURNS, evidence, words, gain=gain)]


def _messages(store: Store, length: float) -> Iterator[Sign]:
    """Many small messages: what they cost is their number. In a short run most of the time is the start of MPI, so it is the time
    between MPI_Init and MPI_Finalize of which they take a part."""
    if "mpi_messages" not in store.filled:
        return
    sql = "SELECT max(span(m.start_ns, coalesce(m.end_ns, p.end_ns))) FROM mpi_ranks m JOIN processes p USING (process)"
    ((active,),) = store.con.execute(sql).fetchall()
    least = max(_LEAST * (active or length), _NOTHING * length)
    rows = store.con.execute(
        f"""
        SELECT rank, function, sum(n)::BIGINT, sum(bytes) / sum(n), sum(ns)::DOUBLE AS whole, arg_max(partner, n),
               coalesce(main_line(source, ns), '')
        FROM (
            SELECT coalesce(r.rank, p.rank) AS rank, m.function, c.source, count(*) AS n, sum(m.bytes)::DOUBLE AS bytes,
                   mode(m.partner) AS partner, sum(span(m.start_ns, m.end_ns)) AS ns
            FROM mpi_messages m JOIN processes p USING (process) LEFT JOIN mpi_ranks r USING (process) {_WITH_LINE}
            WHERE m.kind = 'send' AND m.state = 'complete' AND m.bytes < {_SMALL_MESSAGE} AND m.function IS NOT NULL
            GROUP BY ALL
        ) GROUP BY rank, function HAVING sum(n) >= 1000 ORDER BY whole DESC, 1"""
    ).fetchall()
    for rank, function, count, mean, ns, partner, caller in rows:
        if ns < least or rank is None:
            continue
        evidence = (
            f"rank {rank} sent {count:,} messages of {mean:,.0f} bytes on average by {function} in {duration(ns)}"
            f" ({100 * ns / length:.0f} % of the run), most of them to rank {partner}"
        )
        yield Sign(
            100.0 * ns / length, "small messages", evidence, "gather them into fewer, larger messages", (), caller, rank
        )


def _collectives(store: Store, states: Sequence[tuple[Any, ...]], length: float) -> Iterator[Sign]:
    """Many collectives with little data, without what ranks wait in them for one that comes late: what is left is their number."""
    if "mpi_messages" not in store.filled:
        return
    waited: Counter[str] = Counter()
    for row in states:
        if row[4] in _OTHER_RANKS:
            waited[row[7]] += row[1]
    rows = store.con.execute(
        f"""
        SELECT function, sum(n)::BIGINT, max(ranks), sum(bytes) / sum(n), sum(ns)::DOUBLE AS whole, coalesce(main_line(source, ns), '')
        FROM (
            SELECT m.function, c.source, count(*) AS n, count(DISTINCT m.process) AS ranks, sum(m.bytes)::DOUBLE AS bytes,
                   sum(span(m.start_ns, m.end_ns)) AS ns
            FROM mpi_messages m {_WITH_LINE}
            WHERE m.kind = 'collective' AND m.state = 'complete' AND m.bytes < {_SMALL_MESSAGE} AND m.function IS NOT NULL
            GROUP BY ALL
        ) GROUP BY function HAVING sum(n) >= 1000 * max(ranks) ORDER BY whole DESC, 1"""
    ).fetchall()
    for function, count, ranks, mean, whole, caller in rows:
        ns = (whole - waited[function]) / ranks
        if ns < _LEAST * length:
            continue
        evidence = (
            f"each of {ranks:,} ranks was in {count / ranks:,.0f} {function} with {mean:,.0f} bytes on average, for {duration(ns)}"
            f" ({100 * ns / length:.0f} % of the run) without waits for ranks that came late"
        )
        words = "join several of them into one, do them less often, or compute meanwhile (nonblocking collectives)"
        yield Sign(100.0 * ns / length, "small collectives", evidence, words, caller=caller)


# ---- queues, Python ----


def _queues(run: critical.Run, states: Sequence[tuple[Any, ...]], length: float) -> Iterator[Sign]:
    """Work that waits for work of another queue, and what is gained without this wait: nothing where the run has to wait for the
    other work anyway."""
    for row in states:
        if row[4] == wait_states.QUEUE and row[1] >= _LEAST * length:
            evidence = (
                f"{row[7]} in {row[6]} waited {duration(row[1])} in {row[2]:,} times for {row[10]} of another queue"
            )
            words = "remove the dependency if there is no need for it, or begin the other work earlier"
            share = 100.0 * row[1] / length
            gain = max(100.0 * (1 - run.without_queue(row[6], row[7], row[10]) / length), 0.0)
            yield Sign(share, QUEUES, evidence, words, caller=row[11], rank=row[5], gain=gain)


def _python(store: Store, run: critical.Run, length: float) -> Iterator[Sign]:
    """Devices that have nothing to do while the host is in Python, between their first and their last work."""
    if "python_calls" not in store.filled:
        return
    for row in idle.found(store, run, between=True):
        # One long time is no loop: data that is read, a pause between two parts of the program.
        often = row[2] >= _OFTEN and row[1] - row[9] >= 2 * _LEAST * length
        if (row[3], row[4]) == (idle.NOTHING, "Python") and often:
            evidence = (
                f"{row[8]} had nothing to do for {duration(row[1])} ({row[0]:.0f} % of its idle time), {row[2]:,} times,"
                f" while the host was in Python ({row[5]})"
            )
            words = "move the work of the loop out of Python, or enqueue more work at a time (--python functions names the functions)"
            yield Sign(100.0 * row[1] / length, "Python while the device is idle", evidence, words, caller=row[6])


# ---- OpenMP ----


def _teams(store: Store, length: float) -> Iterator[Sign]:
    """Teams whose threads wait, by the region. Without the waits a region would take as much less as a thread waits on average.
    Uneven is what the threads do, with the tasks that they run at barriers, not when they begin: on a busy machine some begin
    late. Where other programs took processors away, threads are late by that as well: only what nearly all runs of a region have
    in common is a sign."""
    if "omp_threads" not in store.filled:
        return
    session = machine.session(store)
    groups = {process: group for group in machine.shared(store) for own in group.ranks.values() for process in own}
    others = float(session.get("others", 0.0))
    busy = others >= _BUSY
    rows = store.con.execute(
        """
        WITH each AS (
            SELECT r.process, r.function, r.kernel,
                   coalesce(nullif(k.source, '') || CASE WHEN k.line > 0 THEN ':' || k.line ELSE '' END, r.source) AS source,
                   span(r.start_ns, r.end_ns) AS ns, count(*) AS threads,
                   arg_max(t.thread_num, work) AS late,
                   max(work) - avg(work) AS uneven, avg(t.barrier_ns) AS inside, avg(t.mutex_ns) AS locked,
                   avg(t.join_ns + t.barrier_ns + t.wait_ns + t.mutex_ns) AS waited
            FROM omp_regions r JOIN (
                SELECT *, greatest(
                    span(start_ns, end_ns)::BIGINT + late_ns::BIGINT - (barrier_ns + wait_ns + mutex_ns)::BIGINT, 0
                ) AS work FROM omp_threads
            ) t ON t.region_thread = r.thread AND t.region_seq = r.seq LEFT JOIN kernels k ON k.kernel = r.kernel
            WHERE r.depth = 0 GROUP BY r.process, r.thread, r.seq, r.function, r.kernel, 4, r.start_ns, r.end_ns
        )
        SELECT p.process, coalesce(m.rank, p.rank), e.function, e.source, count(*), max(threads), sum(ns)::DOUBLE, median(ns),
               sum(uneven)::DOUBLE, sum(inside)::DOUBLE, sum(locked)::DOUBLE, sum(waited)::DOUBLE, mode(late), any_value(k.name),
               count(*) * quantile_cont(uneven, 0.1), count(*) * quantile_cont(inside, 0.1), count(*) * quantile_cont(locked, 0.1)
        FROM each e JOIN processes p USING (process) LEFT JOIN mpi_ranks m USING (process) LEFT JOIN kernels k ON k.kernel = e.kernel
        GROUP BY p.process, m.rank, p.rank, e.function, e.source, e.kernel ORDER BY 7 DESC, 3, 4"""
    ).fetchall()
    largest: dict[int, int] = {}  # team of each process
    for process, _, _, _, _, threads, *_ in rows:
        largest[process] = max(largest.get(process, 1), threads)
    for (
        process,
        rank,
        function,
        source,
        count,
        threads,
        ns,
        usual,
        uneven,
        inside,
        locked,
        waited,
        late,
        kernel,
        *common,
    ) in rows:
        if busy:
            uneven, inside, locked = common if count >= _OFTEN // 2 else (0.0, 0.0, 0.0)
        where = f"{count:,} times region {function} of {threads} threads"
        if usual < _SHORT_REGION_NS and count >= 1000 and ns >= _LEAST * length:
            share = 100.0 * ns / length
            evidence = f"{where} took {duration(ns)} ({share:.0f} % of the run), {duration(usual)} in the median"
            words = (
                "make the region larger: begin the team once around the loop, or leave such small work to one thread"
            )
            # Half as many regions: threads begin and end half as often, and the thread that met them waits for that. Of a rank
            # it is not known whether others wait for it.
            gain = share / 2 if rank is None else None
            yield Sign(share, "short regions", evidence, words, _of_region(function, kernel, 0.5), source, rank, gain)
            continue
        group = groups[process]
        together = _threads_of(group, largest) if threads > 1 else threads
        if group.count and together > group.count:
            name, words = "more threads than processors", _fewer_threads(group, threads)
            where, how, lost = f"{where}, {_on_processors(group)}", "", waited
        elif locked > uneven + inside:
            name, words = (
                "threads wait for a lock",
                "do less inside of it: a reduction, a result per thread, several locks",
            )
            how, lost = " to enter critical sections or for locks", locked
        else:
            name, words = "uneven team", "divide the work evenly, or in smaller pieces (schedule(dynamic))"
            how = " at barriers inside" if inside > uneven else f" at the end, most often for thread {late}"
            lost = uneven + inside
        if lost < _LEAST * length:
            continue
        share = 100.0 * lost / length
        evidence = f"{where}; each waited {duration(lost)} on average ({share:.0f} % of the run){how}"
        if busy and name != "more threads than processors":
            evidence += f"; other programs used {100 * others:.0f} % of the processors: only what nearly every time had is counted"
        yield Sign(share, name, evidence, words, _of_region(function, kernel, max(1 - lost / ns, 0.0)), source, rank)


def _threads_of(group: machine.Shared, largest: Mapping[int, int]) -> int:
    """Threads on the processors of a group: the largest team of each rank, whose processes (a compiler) may be many."""
    return sum(max(largest.get(process, 1) for process in own) for own in group.ranks.values())


def _on_processors(group: machine.Shared) -> str:
    ranks = f", of {len(group.ranks)} ranks" if len(group.ranks) > 1 else ""
    bound = " to which it is bound" if group.bound else ""
    return f"on {group.count} processor{'s' if group.count != 1 else ''}{ranks}{bound}"


def _fewer_threads(group: machine.Shared, threads: int) -> str:
    if group.bound and None in group.ranks:
        return f"let it run on {threads} processors, or use a thread for each (OMP_NUM_THREADS)"
    if group.bound and len(group.ranks) == 1:
        return (
            f"bind it to {threads} processors (mpirun --map-by slot:PE={threads}, --bind-to none), or use fewer threads"
        )
    return "use a thread for each processor (OMP_NUM_THREADS)"


def _of_region(function: str, kernel: str | None, factor: float) -> tuple[whatif.Change, ...]:
    """A region that is an OCCA kernel has the name of the kernel on the critical path."""
    kind, name = ("kernel", kernel) if kernel else ("function", function)
    return (whatif.Change(kind, name, factor, f"{kind}:{name}*{factor:.3g}"),)


# ---- copies of data that did not change ----


def _unchanged(store: Store, run: critical.Run, length: float) -> Iterator[Sign]:
    """Copies from the host to the same memory as before, of as many bytes, between which the host had no time to write as many."""
    if run.graph is None:
        return
    sides = list(_sides(store))
    if not sides:
        return
    zero = run.graph.zero
    union = " UNION ALL ".join(
        f"SELECT process, thread, seq, start_ns, end_ns, bytes, caller, '{kind}' AS kind, {host} AS host,"
        f" {device} AS device, {offset} AS place"
        f" FROM {sql_name(name)} WHERE bytes >= 65536"
        for name, kind, host, device, offset in sides
    )
    # Of one address on the host, in the order of time. A process in which several threads make calls is left out: another one may
    # have written the data.
    rows = store.con.execute(
        f"""
        WITH alone AS (SELECT process FROM call_stats GROUP BY process HAVING count(DISTINCT thread) = 1),
        made AS (
            SELECT *, lag(end_ns) OVER w AS until, lag(bytes) OVER w AS previous, lag(device) OVER w AS other,
                   lag(place) OVER w AS before
            FROM ({union}) JOIN alone USING (process) WINDOW w AS (PARTITION BY process, host ORDER BY start_ns)
        )
        SELECT m.thread, m.until::BIGINT - {zero}, m.start_ns::BIGINT - {zero}, m.bytes, span(a.start_ns, a.end_ns)::DOUBLE,
               coalesce(y.source, line_place(s.file, s.line, s.module, s."offset"), '')
        FROM made m JOIN activities a USING (thread, seq) LEFT JOIN call_sites s ON s.process = m.process AND s.address = m.caller
        LEFT JOIN python_places y USING (thread, seq)
        WHERE m.kind = 'HtoD' AND m.previous = m.bytes AND m.other = m.device AND m.before = m.place"""
    ).fetchall()
    if len(rows) < _OFTEN:
        return
    found: list[tuple[Any, ...]] = []
    for thread in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == thread]
        since, at = (np.array([row[i] for row in own], np.int64) for i in (1, 2))
        spans = labels.calls(store, run.labels, zero, [thread]).get(thread)
        if spans is None:
            continue
        # MPI and other calls may write the data; those of devices do not.
        of_device = np.array(
            [label.kind == "call" and not label.name.startswith("MPI_") for label in run.labels.all], bool
        )
        free = (at - since) - (spans.covered(at, of_device) - spans.covered(since, of_device))
        found += [row for row, ns in zip(own, free.tolist(), strict=True) if ns < row[3] / _WRITTEN_BYTES_PER_NS]
    ns, moved = sum(row[4] for row in found), sum(row[3] for row in found)
    if len(found) < _OFTEN or ns < _LEAST * length:
        return
    sums: Counter[str] = Counter()
    for row in found:
        sums[row[5]] += row[4]
    sql = "SELECT sum(span(start_ns, end_ns))::DOUBLE FROM activities WHERE kind = 'HtoD'"
    all_ns = store.con.execute(sql).fetchall()[0][0]
    evidence = (
        f"{len(found):,} HtoD copies of {size(moved)} in all took {duration(ns)}"
        f" ({100 * ns / length:.0f} % of the run): from and to the same memory as the copy before, and the host had no time to"
        " change the data"
    )
    words = "copy once and keep the data on the device, or copy only what changes"
    factor = max(1 - ns / all_ns, 0.0)
    change = whatif.Change("copy", "HtoD", factor, f"copy:HtoD*{factor:.3g}")
    yield Sign(100.0 * ns / length, "copies of unchanged data", evidence, words, (change,), sums.most_common(1)[0][0])


def _sides(store: Store) -> Iterator[tuple[str, str, str, str, str]]:
    """Functions that copy between host and device: name, direction, and the arguments for the host's address, the device's memory
    and the offset in it."""
    for name in store.functions():
        api, _, key = name.partition(".")
        function = store.model.function(api, key)
        if (
            function is None
            or function.copies is None
            or function.activity not in ("HtoD", "DtoH")
            or not function.bytes
        ):
            continue
        kind = store.con.execute(f"SELECT typeof(args) FROM {sql_name(name)} LIMIT 1").fetchone()
        args = {arg.name for arg in function.args if kind and f"{arg.name}" in kind[0]}
        host, device = function.copies.source, function.copies.target
        if function.activity == "DtoH":
            host, device = device, host
        device = device if device in args else "buffer"
        if host in args and device in args:
            offset = "args.offset" if "offset" in args else "0"
            yield name, function.activity, f"args.{sql_name(host)}", f"args.{sql_name(device)}", offset
