"""What the reports of the summary add up (`_sums.sql`), as SQL: statistics by key from the tables of a run, the partial states of
some of its ranks, and the same statistics from merged states. A report reads `NAME_sums` and does not know which of the two it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "_sums.sql"
MERGES = {"added": "sum", "least": "min", "most": "max"}


@dataclass(frozen=True)
class Sums:
    """One kind of value: its keys, what else is kept by key (and how it merges), and the query of the single values."""

    name: str
    keys: tuple[str, ...]
    more: Mapping[str, str]  # column → sum, min or max
    median: bool
    busy: bool
    samples: str
    joined: tuple[str, ...] = ()  # columns that say in fewer words of one run what the keys say in all
    given: bool = False  # `samples` are the statistics themselves, by the plain name

    @property
    def direct(self) -> str:
        """Common table expressions, the last of which is `NAME_sums`, from the tables of a run."""
        if self.given:
            return f"{self.name} AS (\n{self.samples}\n)"
        name, by = self.name, self.joined or self.keys
        using = ", ".join(by)
        others = [key for key in self.keys if key not in by]
        chosen = "".join(f", any_value({key}) AS {key}" for key in others)
        parts = [
            f"{name}_samples AS (\n{self.samples}\n)",
            f"{name}_keys AS (SELECT row_number() OVER () AS key, * FROM"
            f" (SELECT {using}{chosen} FROM {name}_samples GROUP BY {using}))",
            f"{name}_keyed AS (SELECT g.key, s.* EXCLUDE ({', '.join((*by, *others))}) FROM {name}_samples s"
            f" JOIN {name}_keys g USING ({using}))",
        ]
        columns, joined = "".join(f"g.{key}, " for key in self.keys) + "t.* EXCLUDE (key)", ""
        if self.median:
            parts.append(f"{name}_values AS (SELECT key, v FROM {name}_keyed WHERE n > 0)")
            source = f"statistics({name}_values)"
        else:
            parts.append(
                f"{name}_values AS (SELECT key, count(*) FILTER (n > 0) AS calls, sum(v) AS total, avg(v) AS mean, min(v) AS lowest,"
                f" max(v) AS highest FROM {name}_keyed GROUP BY key HAVING sum(n) > 0)"
            )
            source = f"{name}_values"
        if self.more:
            merged = ", ".join(f"{how}({column}) AS {column}" for column, how in self.more.items())
            parts.append(f"{name}_more AS (SELECT key, {merged} FROM {name}_keyed GROUP BY key)")
            columns += ", m.* EXCLUDE (key)"
            joined += f" JOIN {name}_more m USING (key)"
        if self.busy:
            parts.append(f"{name}_intervals AS (SELECT key, s, e FROM {name}_keyed WHERE s IS NOT NULL)")
            columns += ", b.busy"
            joined += f" LEFT JOIN busy({name}_intervals) b USING (key)"
        parts.append(f"{name}_sums AS (SELECT {columns} FROM {source} t JOIN {name}_keys g USING (key){joined})")
        return ",\n".join(parts)

    def state(self, samples: str) -> str:
        """The query of the partial state of each rank, from a table of the samples and their `rank`."""
        keys = ", ".join(self.keys)
        more = "".join(f", {how}({column})::DOUBLE AS {column}" for column, how in self.more.items())
        return (
            f"SELECT '{self.name}' AS what, rank, {keys}, sum(n)::UBIGINT AS n, count(v)::UBIGINT AS nv,"
            " coalesce(sum(v), 0)::DOUBLE AS total, coalesce(avg(v), 0)::DOUBLE AS mean,"
            " coalesce(var_pop(v::DOUBLE) * count(v), 0)::DOUBLE AS m2, min(v)::DOUBLE AS low, max(v)::DOUBLE AS high"
            f"{more} FROM {samples} GROUP BY rank, {keys}"
        )

    @property
    def merged(self) -> str:
        """A query like `NAME_sums` from the merged relations `state`, `hist` and `busy`."""
        return of_merged(self.name, self.keys, self.more, self.median, self.busy)


def of_merged(name: str, keys: Iterable[str], more: Iterable[str] = (), median: bool = True, busy: bool = False) -> str:
    """Statistics by key of what merged states have under a name. Columns as in `Sums.direct`; amounts are DOUBLE."""
    own = ", ".join(keys)
    columns = "n AS calls, CASE WHEN nv > 0 THEN total END AS total, CASE WHEN nv > 0 THEN mean END AS mean"
    columns += ", low AS lowest, high AS highest, CASE WHEN nv > 1 THEN sqrt(greatest(m2, 0) / (nv - 1)) ELSE 0 END AS deviation"
    columns += "".join(f", k.{column}" for column in more)
    parts = [f"numbered AS (SELECT *, row_number() OVER () AS key FROM state WHERE what = '{name}' AND n > 0)"]
    joined = ""
    if median:
        hist = f"SELECT k.key, h.value, h.n FROM hist h JOIN numbered k USING ({own}) WHERE h.what = '{name}'"
        parts.append(f"hists AS ({hist})")
        columns += ", least(greatest(median, low), high) AS median"
        joined += " LEFT JOIN medians(hists) USING (key)"
    if busy:
        intervals = f"SELECT k.key, b.s, b.e FROM busy b JOIN numbered k USING ({own}) WHERE b.what = '{name}'"
        parts.append(f"intervals AS ({intervals})")
        columns += ", r.busy"
        joined += " LEFT JOIN busy(intervals) r USING (key)"
    names = ", ".join(f"k.{key}" for key in keys)
    return f"WITH {', '.join(parts)} SELECT {names}, {columns} FROM numbered k{joined}"


@cache
def all_sums() -> Mapping[str, Sums]:
    """Those of `_sums.sql` by name."""
    found = {}
    text = _FILE.read_text(encoding="utf-8")
    for block in re.split(r"^(?=-- sums: )", text, flags=re.MULTILINE)[1:]:
        head = dict(re.findall(r"^-- (\w+): (.*)$", block, re.MULTILINE))
        samples = re.sub(r"\A(-- .*\n)+", "", block).strip().removesuffix(";")
        more = {column: how for kind, how in MERGES.items() for column in head.get(kind, "").split()}
        name = head["sums"]
        keys = tuple(head.get("keys", "").split())
        found[name] = Sums(
            name,
            keys,
            more,
            "median" in head,
            "busy" in head,
            samples,
            tuple(head.get("joined", "").split()),
            "given" in head,
        )
    return found


def with_sums(names: Iterable[str], query: str) -> str:
    """A report's query with the sums that it reads, from tables."""
    direct = [all_sums()[name].direct for name in names]
    if not direct:
        return query
    begin = re.match(r"\s*WITH\s+", query)
    rest = f",\n{query[begin.end() :]}" if begin else f"\n{query}"
    return "WITH " + ",\n".join(direct) + rest
