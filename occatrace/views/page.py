"""The page about a run: which reports, figures, numbers and facts it shows. Collects them from the tables, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from occatrace import reports
from occatrace.core.units import duration, size
from occatrace.errors import StoreError
from occatrace.render import Document, Figure, Tile
from occatrace.reports import Report
from occatrace.views import annotate, flame_page, flamegraph, plots
from occatrace.views.plots import charts, draw

if TYPE_CHECKING:
    from occatrace.reports.scope import Scoped
    from occatrace.store.tables import Store

Select = Callable[[Sequence[Report]], Sequence[Report]]

# Reports in the order of the page; others that there are follow. Left out are lists of single events, and what is plotted.
FIRST = (
    "advice", "rank_balance", "occa_kern_sum", "occa_kern_bw", "gpu_kern_sum", "range_sum", "range_gpu_proj_sum",
    "gpu_mem_time_sum", "gpu_mem_size_sum", "gpu_util", "mem_usage", "mem_leaks", "mem_churn", "mpi_event_sum", "openmp_sum",
    "kern_exec_sum", "occa_kern_build_sum", "first_call", "api_sum",
)  # fmt: skip
FRAMES = 3000  # of the flame graph
_WITHOUT = ("hist", "occa_api_sum")  # plotted; a part of api_sum


def names() -> Sequence[str]:
    """Of the reports that the page shows where they have rows."""
    there = reports.definitions()
    lists = [name for name, entry in there.items() if name.endswith("_trace") or entry.columns[0].name == "start_ns"]
    return [name for name in dict.fromkeys((*FIRST, *there)) if name in there and name not in (*lists, *_WITHOUT)]


def collect(
    store: Store,
    facts: Mapping[str, Any],
    scoped: Scoped | None = None,
    select: Select | None = None,
    read: annotate.Read | None = None,
) -> Document:
    """The whole page; of its tables only the part that is wanted, and the rows. Memory over time, the flame graph and the lines of
    the source are the whole run's. `read`: reads source files, whose text the page then has."""
    remarks: list[str] = []
    made: dict[str, Report] = {}
    shown = names()
    for name in reports.together(store, shown):
        try:
            report = reports.make(store, name, scoped)
        except StoreError as error:
            if str(error) not in remarks:
                remarks.append(str(error))
            continue
        if report.rows:
            made[name] = report
    made = {name: made[name] for name in shown if name in made}
    if not made:
        remarks.append(
            "Nothing was recorded: no traced API was used, or the program was not reached (occa_prof doctor)."
        )
    if "occa_kern_sum" in made:
        # They are its indented rows.
        made.pop("gpu_kern_sum", None)
    tables = plots.source(store, scoped)
    found = [plot for plot in (plots.make(tables, name) for name in plots.PLOTS) if plot]
    if found and not draw.available():
        remarks.append("The plots are missing: they are drawn by vl-convert (pip install vl-convert-python).")
        found = []
    return Document(
        facts,
        store.losses(facts),
        select(list(made.values())) if select else list(made.values()),
        _tiles(store, tables, made),
        [_figure(plot) for plot in found],
        _facts(store, facts),
        remarks,
        flame_page.flame(flamegraph.stacks(store), FRAMES, "device-time") if made else None,
        annotate.page(annotate.files(store, made if scoped is None or scoped.plain else None), read) if made else [],
    )


def _figure(plot: plots.Plot) -> Figure:
    dark = draw.dark_rules("figure ")
    broad, narrow = (draw.fragment(plot.chart(width)) for width in (charts.WIDE, charts.NARROW))
    return Figure(plot.name, plot.title, plot.about, broad, narrow, dark, plot.hover, plot.words)


def _tiles(store: Store, tables: plots.Source, made: Mapping[str, Report]) -> list[Tile]:
    def rows(name: str) -> list[dict[str, Any]]:
        report = made.get(name)
        return [dict(zip((c.name for c in report.columns), row, strict=True)) for row in report.rows] if report else []

    out = []
    processes, ranks, threads, ns = store.con.execute(
        "SELECT count(*), count(DISTINCT rank), (SELECT count(*) FROM threads),"
        " recorded_ns(run_length()) FROM processes"
    ).fetchall()[0]
    if ns:
        more = f"{processes:,} process{'es' if processes != 1 else ''}, {threads:,} thread{'s' if threads != 1 else ''}"
        out.append(Tile("Run", duration(ns), f"{ranks:,} ranks, {more}" if ranks > 1 else more))
    kernels = tables.kernels
    if kernels:
        all_of_them = [*kernels.kernels, *([kernels.others] if kernels.others else [])]
        calls = sum(kernel.calls for kernel in all_of_them)
        out.append(Tile("Kernels", duration(sum(kernel.total_ns for kernel in all_of_them)), f"{calls:,} calls"))
        first = kernels.kernels[0]
        out.append(Tile("Largest kernel", f"{first.share:.1f} %", charts.short(first.name)))
    devices = [row for row in rows("gpu_util") if ", queue " not in str(row["name"])]
    if devices:
        span = sum(row["span_ns"] for row in devices)
        title = "Device busy" if len(devices) == 1 else f"{len(devices)} devices busy"
        share = 100 * sum(row["busy_ns"] for row in devices) / span if span else 0.0
        out.append(Tile(title, f"{share:.1f} %", "of the time from first to last work"))
    moved = rows("gpu_mem_size_sum")
    if moved:
        count = sum(row["calls"] for row in moved)
        out.append(Tile("Memory moved", size(sum(row["bytes"] or 0 for row in moved)), f"{count:,} operations"))
    memory = tables.memory
    if memory:
        out.append(
            Tile("Peak memory", size(memory.peak), f"{size(memory.left)} never given back" if memory.left else "")
        )
    calls_made = rows("api_sum")
    if calls_made:
        failed = sum(row["failed"] for row in calls_made)
        out.append(Tile("API calls", f"{sum(row['calls'] for row in calls_made):,}", f"{failed:,} failed"))
    return out


def _facts(store: Store, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    shown = (
        ("Program", " ".join(map(str, facts.get("program", ())))),
        ("Folder", facts.get("cwd")),
        ("Host", facts.get("host")),
        ("User", facts.get("user")),
        ("Began", facts.get("started")),
        ("Ended", facts.get("ended")),
        ("Exit status", facts.get("exit_status")),
        ("Recording mode", facts.get("mode")),
        ("occatrace", facts.get("version")),
    )
    out = [(name, str(value)) for name, value in shown if value not in (None, "")]
    devices = store.con.execute(
        "SELECT api_title(api), name, vendor, platform, count(*) FROM devices GROUP BY ALL ORDER BY 1, 2 LIMIT 20"
    ).fetchall()
    out += [
        (f"{api} device", f"{name} ({vendor}, {platform})" + (f", seen by {n} processes" if n > 1 else ""))
        for api, name, vendor, platform, n in devices
    ]
    processes = store.con.execute(
        "SELECT pid, host, exe, end_ns::BIGINT - start_ns::BIGINT, exit FROM processes ORDER BY process LIMIT 20"
    ).fetchall()
    out += [
        (
            f"Process {pid}",
            f"{exe} on {host}, {duration(ns)}, {f'ended by {how}' if how else 'how it ended is not known'}",
        )
        for pid, host, exe, ns, how in processes
    ]
    return out
