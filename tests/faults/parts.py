"""What is fuzzed: for each kind of input, a case from a random number."""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.faults import mutations
from tests.faults.cases import Case
from tests.faults.execution import call_in_child
from tests.faults.seeds import TRACE

# Commands that read a run.
READING: Sequence[tuple[str, ...]] = (
    ("report", "{in}/run"),
    ("report", "{in}/run"),
    ("report", "{in}/run", "--format", "json"),
    ("report", "{in}/run", "--report", "api_trace", "--report", "gpu_trace", "--report", "rank_sum"),
    ("report", "{in}/run", "--format", "html", "-o", "{out}/x.html"),
    ("report", "{in}/run", "--verify"),
    ("digest", "{in}/run"),
    ("why", "{in}/run"),
    ("efficiency", "{in}/run"),
    ("trace", "{in}/run"),
    ("query", "{in}/run"),
    ("query", "{in}/run", "SELECT * FROM calls LIMIT 5"),
    ("timeline", "{in}/run", "-o", "{out}/x.pftrace"),
    ("flamegraph", "{in}/run", "-o", "{out}/x.html"),
    ("export", "{in}/run", "-o", "{out}/x"),
    ("export", "{in}/run", "-o", "{out}/x.sqlite", "--format", "sqlite"),
    ("compare", "{in}/run", "{in}/run"),
    ("top", "--once", "{in}/run"),
    ("pause", "{in}/run"),
    ("ci", "{in}/run", "-o", "{out}/site"),
)


def run_json(random: Random, bases: Callable[[str], Path], work: Path) -> Case:
    """run.json with other types, values and keys."""
    data = (bases("demo") / "run/run.json").read_bytes()
    return Case("run_json", "demo", random.choice(READING), {"run/run.json": mutations.json_bytes(data, random)})


def tables_json(random: Random, bases: Callable[[str], Path], work: Path) -> Case:
    """What the analysis notes of its tables, and what --stream does."""
    base, name = random.choice(
        (
            ("demo", "run/tables/tables.json"),
            ("stream", "run/stream/h/manifest.json"),
            ("stream", "run/stream/h/000000-000000/records.json"),
        )
    )
    file = bases(base) / name
    if not file.exists():
        (file,) = (path for path in file.parent.glob("*.json"))
        name = str(file.relative_to(bases(base)))
    return Case("tables_json", base, random.choice(READING), {name: mutations.json_bytes(file.read_bytes(), random)})


def _column_change(random: Random) -> str:
    """SQL for a column that is no longer what it was."""
    return random.choice(
        (
            "NULL",
            "{0}::VARCHAR",
            "NULL::DOUBLE",
            "-1::BIGINT",
            "9223372036854775807::BIGINT",
            "(-9223372036854775808)::BIGINT",
            "1e300::DOUBLE",
            "'nan'::DOUBLE",
            "[{0}]",
            "{{'x': {0}}}",
            "''",
            "repeat('x', 100000)",
            "chr(27) || '[2J'",
            "(random() * 1e18)::BIGINT",
            "NULL::DATE",
            "true",
            "CASE WHEN random() < 0.5 THEN {0} END",
            "18446744073709551615::UBIGINT",
            "4294967295::UINTEGER",
            "170141183460469231731687303715884105727::HUGEINT",
            "'\\xFF'::BLOB",
        )
    )


def parquet(random: Random, bases: Callable[[str], Path], work: Path) -> Case:
    """Tables with other columns, types, values and rows, or with other bytes."""
    base = bases("demo")
    tables = sorted((base / "run/tables").rglob("*.parquet"))
    files: dict[str, bytes | None] = {}
    for file in random.sample(tables, random.choice((1, 1, 2))):
        name, data = str(file.relative_to(base)), file.read_bytes()
        how = random.random()
        if how < 0.3:
            files[name] = mutations.any_bytes(data, random)
        elif how < 0.4:
            end = bytearray(data)
            end[-8:-4] = (random.choice(mutations.NUMBERS) & 0xFFFFFFFF).to_bytes(4, "little")
            files[name] = bytes(end)
        elif how < 0.5:
            files[name] = random.choice((random.choice(tables).read_bytes(), None))
        else:
            files[name] = _rewritten(file, random, work)
    return Case("parquet", "demo", random.choice(READING), files)


def _rewritten(file: Path, random: Random, work: Path) -> bytes:
    """The table by DuckDB, with changes that are drawn before: a child makes it."""
    seed, made = random.random(), work / "made.parquet"
    made.unlink(missing_ok=True)

    def write() -> None:
        import duckdb

        drawn = Random(seed)
        con = duckdb.connect()
        con.execute(f"SELECT setseed({seed})")
        rows = f"read_parquet('{file}')"
        columns = [row[0] for row in con.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()]
        chosen = drawn.sample(columns, min(len(columns), drawn.choice((1, 1, 2, 5))))
        replaced = ", ".join(f"{_column_change(drawn).format(_quoted(c))} AS {_quoted(c)}" for c in chosen)
        what = drawn.choice(
            (
                f"SELECT * REPLACE ({replaced}) FROM {rows}",
                f"SELECT * REPLACE ({replaced}) FROM {rows}",
                f"SELECT * REPLACE ({replaced}) FROM {rows}",
                f"SELECT * EXCLUDE ({', '.join(map(_quoted, chosen[:1]))}) FROM {rows}",
                f"SELECT * RENAME ({_quoted(chosen[0])} AS other) FROM {rows}",
                f"SELECT *, 1 AS more FROM {rows}",
                f"SELECT * FROM {rows} WHERE false",
                f"SELECT t.* FROM {rows} t, range(3)",
                f"SELECT * FROM {rows} ORDER BY random()",
            )
        )
        con.execute(f"COPY ({what}) TO '{made}' (FORMAT parquet)")

    try:
        call_in_child(write, work)
    except RuntimeError:  # a cast that this column does not bear, or a table without columns to leave
        return mutations.flip(file.read_bytes(), random)
    return made.read_bytes()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _reading(random: Random) -> tuple[str, ...]:
    return random.choice(
        (("decode", "fast"), ("decode", "fast"), ("decode", "babeltrace2"), *READING[:4], ("trace", "{in}/run"))
    )


def _in_layouts(words: tuple[str, ...], layout: str) -> tuple[str, ...]:
    return tuple(word.replace("{in}/run", f"{{in}}/{layout}") for word in words)


def metadata(random: Random, bases: Callable[[str], Path], work: Path) -> Case:
    """The text of the metadata."""
    words = _reading(random)
    if random.random() < 0.5:
        layout = random.choice(sorted(path.name for path in bases("layouts").iterdir()))
        base, name = "layouts", f"{layout}/trace/h/metadata"
        words = _in_layouts((*words, "{in}/run") if words[0] == "decode" else words, layout)
    else:
        base, name = random.choice(("opencl", "serial")), f"run/{TRACE}/metadata"
        words = (*words, "{in}/run") if words[0] == "decode" else words
    text = (bases(base) / name).read_text(encoding="utf-8", errors="replace")
    change = mutations.metadata2 if text.startswith("\x1e") else mutations.metadata
    return Case("metadata", base, words, {name: change(text, random)})


def streams(random: Random, bases: Callable[[str], Path], work: Path) -> Case:
    """The packets of the streams, their order and their index."""
    words = _reading(random)
    base = random.choice(("opencl", "serial", "layouts"))
    files: dict[str, bytes | None] = {}
    if base == "layouts":
        layout = random.choice(sorted(path.name for path in bases("layouts").iterdir()))
        words = _in_layouts((*words, "{in}/run") if words[0] == "decode" else words, layout)
        name = f"{layout}/trace/h/stream_0"
        files[name] = mutations.stream((bases(base) / name).read_bytes(), random)
        return Case("streams", base, words, files)
    words = (*words, "{in}/run") if words[0] == "decode" else words
    for file in sorted((bases(base) / "run" / TRACE).rglob("occatrace_*")):
        if random.random() < 0.5:
            change = mutations.index if file.suffix == ".idx" else mutations.stream
            files[str(file.relative_to(bases(base)))] = change(file.read_bytes(), random)
    return Case("streams", base, words, files)


@cache
def _options(command: str) -> tuple[tuple[str, bool, tuple[str, ...]], ...]:
    """Each option of a subcommand, whether it takes a value, and what it may be."""
    from occatrace.cli.parser import of_command

    parser, _ = of_command(command)
    found = []
    for action in parser._actions:
        if action.option_strings and not isinstance(action, argparse._HelpAction):
            choices = tuple(map(str, action.choices)) if action.choices else ()
            found.append((max(action.option_strings, key=len), action.nargs != 0, choices))
    return tuple(found)


def toml(random: Random, bases: Callable[[str], Path], work: Path) -> Case:
    """A file of --config."""
    names = [name.lstrip("-") for name, *_ in _options("run")]
    content = mutations.toml_bytes(random, names)
    return Case("toml", "empty", ("run", "--config", "{in}/x.toml", "--show-config", "true"), {"x.toml": content})


# Of these nothing starts, waits or listens.
BY_WORDS = (
    "report",
    "why",
    "efficiency",
    "compare",
    "ci",
    "timeline",
    "flamegraph",
    "annotate",
    "trace",
    "query",
    "export",
    "import",
    "digest",
    "paths",
    "env",
    "schema",
    "completion",
    "help",
    "stop",
    "pause",
    "resume",
    "run",
    "top",
    "doctor",
)
LIKELY = (
    "0",
    "1",
    "-1",
    "3",
    "1s:2s",
    "50%:",
    "-1s:1s",
    ":",
    "gap:1",
    "kernel:add",
    "x.csv",
    "a|b",
    "(",
    "*",
    "rank",
    "total_ns:desc",
    "kernel:add*0.5",
    "kernel:*0.5",
    "api_sum",
    "gpu_kern_sum",
    "overview",
    "1e400",
    "1x",
    "5%",
    "s,ms,B",
    "ns",
    "cpu",
    "memory",
    "0-3,5",
    "SELECT 1",
    "SELECT * FROM range(10)",
    "FROM nothing",
    "json",
    "csv",
    "html",
    "markdown",
    "sqlite",
    "time:10",
    "2026",
    "kernels",
    "{in}/run",
    "{out}/x",
    "{out}",
    "{in}/nsys.sqlite",
    "/",
    "/dev/null",
    "/proc/self/mem",
    "",
)


def words(random: Random, bases: Callable[[str], Path], work: Path) -> Case:
    """A command line."""
    command = random.choice(BY_WORDS)
    line: list[str] = []
    for name, takes, choices in random.sample(
        _options(command), min(len(_options(command)), random.choice((0, 1, 1, 2, 3, 5)))
    ):
        if name in ("--open", "--serve", "--dask", "--live"):
            continue
        line.append(name)
        if takes and random.random() < 0.95:
            line.append(_word(random, choices))
    if command == "run":
        line += ["--show-config", "true"]
    else:
        line += [random.choice(("{in}/run", "{in}/run", "{in}/run", _word(random)))] * random.choice((1, 1, 1, 2))
    if random.random() < 0.2:
        line.insert(random.randrange(len(line) + 1), _word(random))
    if command == "top":
        line.append("--once")
    elif command in ("import", "export", "ci") and "-o" not in line:
        line += ["-o", "{out}/made"]
    elif command == "doctor":
        line = ["--help", *line]
    line = [word.replace("\0", "?") for word in line]
    return Case("words", "files", (command, *line), {})


def _word(random: Random, choices: Sequence[str] = ()) -> str:
    if choices and random.random() < 0.5:
        return random.choice(choices)
    if random.random() < 0.6:
        return random.choice(LIKELY)
    return str(mutations.value(random))[:5000].encode("utf-8", "replace").decode().replace("/dev/zero", "/dev/null")


def imports(random: Random, bases: Callable[[str], Path], work: Path) -> Case:
    """A recording of nsys, rocprofv3 or a writer of Chrome trace events."""
    name = random.choice(("nsys.sqlite", "rocpd.db", "chrome.json"))
    data = (bases("files") / name).read_bytes()
    if name == "chrome.json":
        changed = mutations.json_bytes(data, random)
    elif random.random() < 0.3:
        changed = mutations.any_bytes(data, random)
    else:
        changed = _changed_database(data, random, work)
    return Case("imports", "files", ("import", f"{{in}}/{name}", "-o", "{out}/made"), {name: changed})


def _changed_database(data: bytes, random: Random, work: Path) -> bytes:
    """SQLite keeps any type in any column, so these values are what a file may have."""
    file = work / "made.sqlite"
    file.write_bytes(data)
    db = sqlite3.connect(file, isolation_level=None)
    tables = [
        name
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    ]
    filled = [name for name in tables if db.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchall()]
    for _ in range(random.choice((1, 1, 2, 4))):
        table = random.choice(filled)
        columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
        if not columns:
            continue
        column, how = random.choice(columns), random.randrange(10)
        try:
            if how <= 5:
                where = random.choice(("", " WHERE rowid = 1"))
                db.execute(f'UPDATE "{table}" SET "{column}" = ?{where}', (_of_sqlite(random),))
            elif how == 6:
                db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
            elif how == 7:
                db.execute(f'DROP TABLE "{table}"')
                filled.remove(table)
            elif how == 8:
                db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')
            else:
                db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other')
        except (sqlite3.Error, OverflowError):
            continue
        if not filled:
            break
    db.close()
    return file.read_bytes()


def _of_sqlite(random: Random) -> Any:
    what = mutations.value(random)
    if isinstance(what, (list, dict)):
        return random.choice((json.dumps(what), b"\xff\x00blob"))
    if isinstance(what, str):
        return what.encode("utf-8", "replace").decode()
    return max(-(2**63), min(2**63 - 1, what)) if isinstance(what, int) else what


PARTS: Mapping[str, Callable[[Random, Callable[[str], Path], Path], Case]] = {
    "run_json": run_json,
    "tables_json": tables_json,
    "parquet": parquet,
    "metadata": metadata,
    "streams": streams,
    "toml": toml,
    "words": words,
    "imports": imports,
}
