"""What of a run cannot be told because it was not recorded, as lines for the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from occatrace.store import captures

if TYPE_CHECKING:
    from occatrace.store.tables import Store


def lines(store: Store, tally: str, lost: str, paused: str) -> list[str]:
    """A line for each limit that the run has. `tally`, `lost`, `paused`: what follows for the report from `-m tally`, from losses
    and from times that were not recorded."""
    con = store.con
    out = []
    if con.execute("SELECT 1 FROM processes WHERE mode = 'tally' LIMIT 1").fetchall():
        out.append(f"-m tally records no single calls and no device work: {tally}")
    count = con.execute("SELECT coalesce(sum(lost), 0)::BIGINT FROM losses").fetchall()[0][0]
    if count:
        out.append(f"{count:,} events were lost: {lost}")
    if captures.partly(con):
        out.append(f"the run was not recorded all the time: {paused}")
    return out
