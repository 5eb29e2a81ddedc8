"""SQLite exports of NVIDIA Nsight Systems (`nsys export --type sqlite`), by its documented schema."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from occatrace.core.checked import printable
from occatrace.errors import RunError
from occatrace.foreign import staging as of
from occatrace.foreign.sqlite import Column, Columns, Database, columns
from occatrace.foreign.staging import LARGEST, NULL, Device, Process, Source, Staging

NAME = "nsys"
_EXPORT = "META_DATA_EXPORT"
_SCHEMA = (3, 17)  # of nsys 2025.1, the newest whose notes of changes are known
_VERSION = re.compile(r"(\d{1,6})(?:[.](\d{1,6}))?(?:[.]\d{1,6})*$", re.ASCII)
_MARK, _PUSH_POP, _START_END = 34, 59, 60  # ENUM_NSYS_EVENT_TYPE
_CATEGORY, _DOMAIN = 33, 75
_CUDA, _OS, _MPI = range(3)  # places in Staging.sources
_PID = "& ~16777215"  # of a global id: the host, the virtual machine, the process; below it the thread
_GRAPH_TEXT = -(1 << 62)  # in texts
_VENDOR, _PLATFORM = "NVIDIA Corporation", "NVIDIA CUDA"

_TEXTS = columns("id! value:text!")
_RUNTIME = columns("start:time! end:time! globalTid! nameId! correlationId returnValue")
_KERNEL = columns(
    "start:time! end:time! deviceId! contextId streamId! correlationId globalPid demangledName shortName mangledName"
    " gridX gridY gridZ blockX blockY blockZ"
)
_MEMCPY = columns(
    "start:time! end:time! deviceId! contextId streamId! correlationId globalPid bytes:size! copyKind! srcKind dstKind"
    " virtualAddress"
)
_MEMSET = columns("start:time! end:time! deviceId! contextId streamId! correlationId globalPid bytes:size!")
_GRAPH = columns("start:time! end:time! deviceId! contextId streamId! correlationId globalPid graphId")
_SYNC = columns("start:time! end:time! deviceId contextId streamId correlationId globalPid syncType!")
_NVTX = (
    *columns("start:time! end:time eventType! globalTid! endGlobalTid text:text textId domainId category color"),
    *columns("uint64Value int64Value uint32Value int32Value doubleValue:any floatValue:any jsonText:text"),
)
_OSRT = columns("start:time! end:time! globalTid! nameId! returnValue")
_USAGE = columns("start:time! globalPid! deviceId! address! bytes:size! memKind! memoryOperationType! correlationId")
_GPU_FAULT = columns("start:time! end:time! globalPid! deviceId! address numberOfPageFaults:size")
_CPU_FAULT = columns("start:time! globalPid! address")
_P2P = columns("start:time! end:time globalTid! textId! tag remoteRank size:size requestHandle")
_COLLECTIVES = columns("start:time! end:time globalTid! textId! size:size recvSize:size requestHandle")
_START_WAIT = columns("start:time! end:time globalTid! textId! requestHandle")
_OTHER = columns("start:time! end:time globalTid! textId!")

# ENUM_CUDA_MEMCPY_OPER: directions; those of managed memory that the driver moves by itself apart.
_DIRECTIONS = {
    **dict.fromkeys((1, 3), of.HTOD), **dict.fromkeys((2, 4), of.DTOH), **dict.fromkeys((5, 6, 7, 8, 10), of.DTOD), 9: of.HTOH,
}  # fmt: skip
_MANAGED = {11: "HtoD", 12: "DtoH", 13: "DtoD"}
# ENUM_CUDA_MEM_KIND: as the side of a copy, and as the kind of an allocation.
_SIDES = {0: "pageable", 1: "pinned", 2: "device", 3: "array", 4: "managed", 5: "device", 6: "managed"}
_MEMORY = {0: "host", 1: "host", 2: "device", 3: "array", 4: "managed", 5: "device", 6: "managed"}
_UNTOLD_COPY, _UNTOLD_MEMORY = 0, 7  # what nsys itself does not know
_ALLOCATED, _FREED = 0, 1  # ENUM_CUDA_DEV_MEM_EVENT_OPER
_MEMORY_KINDS = "ENUM_CUDA_MEM_KIND"
_SYNCS = {1: "event", 2: "stream for event", 3: "stream", 4: "context"}

# Tables of events that are read, and of what these name.
EVENTS = (
    *(f"CUPTI_ACTIVITY_KIND_{n}" for n in ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "GRAPH_TRACE")),
    *("NVTX_EVENTS", "OSRT_API", "CUDA_GPU_MEMORY_USAGE_EVENTS"),
    *("CUDA_UM_GPU_PAGE_FAULT_EVENTS", "CUDA_UM_CPU_PAGE_FAULT_EVENTS"),
    *("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"),
)
_NAMES = (
    *(
        "StringIds",
        "ThreadNames",
        "PROCESSES",
        "MPI_RANKS",
        "META_DATA_EXPORT",
        "META_DATA_CAPTURE",
        "ANALYSIS_DETAILS",
    ),
    *("sqlite_sequence", "EXPORT_META_DATA", "ANALYSIS_FILE"),
)


def is_one(tables: frozenset[str]) -> bool:
    """Whether a database with these tables is an export of nsys."""
    return "StringIds" in tables and any(
        name in tables for name in (*EVENTS, "TARGET_INFO_SYSTEM_ENV", "META_DATA_EXPORT")
    )


def lacking(tables: frozenset[str]) -> str:
    """What a database that is no export of nsys lacks to be one."""
    return f"it lacks {'any table of events' if 'StringIds' in tables else 'StringIds'} (nsys)"


def read(db: Database, into: Staging) -> None:
    """Fill the staging tables. Raises a RunError for what means nothing."""
    if not any(name in db.tables for name in EVENTS):
        raise RunError(
            f"an export of nsys without any table of events that is known: one of {', '.join(EVENTS)} is needed"
        )
    _check_schema(db, into)
    into.sources += [
        Source("cudart", (("cuda", "cudart"), ("cu", "cuda")), codes=True, fails=True),
        Source("osrt", codes=True),
        Source("mpi"),
    ]
    for batch in db.batches("StringIds", _TEXTS):
        into.add("texts", "id, value AS text", batch)
    _read_things(db, into)
    reader = _Reader(db, into)
    for name in EVENTS:
        if name in db.tables:
            getattr(reader, name.removeprefix("CUPTI_ACTIVITY_KIND_").lower())(name)
    reader.tell_what_is_left()


def _facts(db: Database) -> dict[str, str]:
    """What the export says of itself."""
    if _EXPORT not in db.tables:
        return {}
    return {name: str(value or "") for name, value in db.rows(_EXPORT, columns("name:text! value:any"))}


def _check_schema(db: Database, into: Staging) -> None:
    """Refuse a schema that breaks with the known one (another major version, by the notes that NVIDIA adds to the exporter);
    say when it has local changes (a later minor version)."""
    facts = _facts(db)
    version = facts.get("EXPORT_SCHEMA_VERSION") or facts.get("EXPORT_SCHEMA_VERSION_MAJOR")
    if version is None:
        return
    known = ".".join(map(str, _SCHEMA))
    shown = printable(version)[:40]
    found = _VERSION.match(version)
    if not found:
        raise RunError(f"table {_EXPORT}: EXPORT_SCHEMA_VERSION is '{shown}', not a version like {known}")
    major, minor = int(found[1]), int(found[2] or 0)
    if major > _SCHEMA[0]:
        raise RunError(
            f"its schema is {shown} (EXPORT_SCHEMA_VERSION in {_EXPORT}), and {_SCHEMA[0]} is the newest that is known:"
            " export it by an older nsys, or take a newer occatrace"
        )
    if (major, minor) > _SCHEMA:
        into.notes.append(f"its schema, {shown}, is newer than {known}: what its known tables mean may have changed")


def _read_things(db: Database, into: Staging) -> None:
    """Processes, threads, devices, the host, the clock."""

    def rows(table: str, wanted: str) -> Sequence[tuple[object, ...]]:
        return list(db.rows(table, columns(wanted))) if table in db.tables else ()

    facts = _facts(db)
    version = facts.get("EXPORT_PRODUCT_VERSION") or facts.get("EXPORT_PRODUCT_NAME")
    into.product = f"nsys {printable(str(version))[:40]}" if version else "nsys"
    for name, value in rows("TARGET_INFO_SYSTEM_ENV", "name:text! value:any"):
        if name == "Hostname" and value:
            into.host = printable(str(value))[:200]
    for (start,) in rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs!"):
        into.realtime_ns = int(start)  # type: ignore[call-overload]
    for whole, pid, name in rows("PROCESSES", "globalPid! pid name:any"):
        p = _signed(int(whole) & ~0xFFFFFF)  # type: ignore[call-overload]
        number = (p >> 24) & 0xFFFFFF if pid is None else int(pid) & 0xFFFFFFFF  # type: ignore[call-overload]
        into.processes[p] = Process(number, str(name or ""), str(name or ""))
    names = {}
    if "ThreadNames" in db.tables:
        wanted = {row[0] for row in rows("ThreadNames", "nameId!")}
        into.con.execute("CREATE TABLE wanted (id BIGINT)")
        into.con.executemany("INSERT INTO wanted VALUES (?)", [(w,) for w in wanted] or [(None,)])
        names = dict(into.con.execute("SELECT id, text FROM s_texts SEMI JOIN wanted USING (id)").fetchall())
        for name_id, thread in rows("ThreadNames", "nameId! globalTid"):
            if thread is not None:
                into.threads[int(thread)] = (int(thread) & 0xFFFFFF, names.get(name_id, ""))  # type: ignore[call-overload]
    ranks = rows("MPI_RANKS", "globalTid! rank!")
    for thread, rank in ranks:
        p = _signed(int(thread) & ~0xFFFFFF)  # type: ignore[call-overload]
        process = into.processes.setdefault(p, Process((p >> 24) & 0xFFFFFF))
        process.rank = int(rank) if 0 <= int(rank) < 1 << 31 else None  # type: ignore[call-overload]
    gpus = {}
    for gpu, name, cuda in rows("TARGET_INFO_GPU", "id! name:text cuDevice"):
        device = Device(str(name or f"GPU {gpu}"), "cuda", _PLATFORM, _VENDOR)
        gpus[gpu] = device
        into.devices[None, int(gpu if cuda is None else cuda)] = device  # type: ignore[call-overload]
    for gpu, cuda, pid in rows("TARGET_INFO_CUDA_DEVICE", "gpuId! cudaId! pid"):
        for p, process in into.processes.items():
            if process.pid == pid and gpu in gpus:
                into.devices[p, int(cuda)] = gpus[gpu]  # type: ignore[call-overload]
    if not into.devices:
        into.devices[None, -1] = Device("device", "cuda", _PLATFORM, _VENDOR)
    into.program = tuple({process.exe: None for process in into.processes.values() if process.exe})[:1]


def _signed(value: int) -> int:
    """As SQLite has it."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _null(column: str) -> str:
    return f"nullif({column}, {NULL + 1} - 1)"


def _numbers(column: str, values: dict[int, int]) -> str:
    return f"CASE {column} {' '.join(f'WHEN {key} THEN {value}' for key, value in values.items())} END"


def _texts(column: str, values: dict[int, str]) -> str:
    return (
        f"CASE {column} {' '.join(f'WHEN {key} THEN {chr(39)}{value}{chr(39)}' for key, value in values.items())} END"
    )


_END = _null('"end"')
_CALL = f"globalTid {_PID} AS p, globalTid AS t, start AS s"
# Work of an export with one process need not say whose it is.
_CORR = f"{_null('correlationId')} AS corr"
_WORK = f"{_null('globalPid')} AS p, deviceId AS dev, {_null('contextId')} AS ctx, streamId AS stream, {_CORR},"


class _Reader:
    """A method for each table of events."""

    def __init__(self, db: Database, into: Staging) -> None:
        self._db = db
        self._into = into
        self._messages = 0
        self._strange: dict[str, int] = {}

    def _each(self, table: str, wanted: Sequence[Column], into: str, select: str) -> None:
        self._into.add_all(into, select, self._db.batches(table, wanted))

    def _check(self, table: str, batch: Columns, column: str, known: Collection[int], enumeration: str) -> None:
        """Refuse a number that the enumeration is not known to have, with the name that the file itself gives it."""
        there = np.unique(batch[column])
        strange = there[~np.isin(there, np.array(sorted(known), np.int64))]
        if not len(strange):
            return
        number = int(strange[0])
        named = ""
        if enumeration in self._db.tables:
            rows = self._db.rows(enumeration, columns("id! name:any"))
            named = next((f" {printable(str(name))[:60]}" for i, name in rows if i == number and name), "")
        raise RunError(f"table {table}: {column} {number}{named} is not known ({enumeration})")

    def runtime(self, table: str) -> None:
        """Calls of the CUDA runtime and driver."""
        code = f"{_null('returnValue')} AS code"
        select = f'{_CALL}, "end" AS e, {_CUDA} AS source, nameId AS fn, {_CORR}, {code}'
        self._each(table, _RUNTIME, "calls", select)

    def osrt_api(self, table: str) -> None:
        """Calls of the C library."""
        self._each(
            table, _OSRT, "calls", f'{_CALL}, "end" AS e, {_OS} AS source, nameId AS fn, {_null("returnValue")} AS code'
        )

    def kernel(self, table: str) -> None:
        """Kernels, under the name as the linker knows it, where there is one."""
        if not {"demangledName", "shortName", "mangledName"} & self._db.columns_of(table):
            raise RunError(f"table {table} has no column demangledName, shortName or mangledName")
        name = ", ".join(_null(column) for column in ("mangledName", "demangledName", "shortName"))
        groups = {axis: f"greatest({_null(f'block{axis}')}, 0)" for axis in "XYZ"}
        sizes = ", ".join(
            f"least(greatest({_null(f'grid{axis}')}, 0)::HUGEINT * {group}, {LARGEST})::BIGINT AS g{axis.lower()},"
            f" {group} AS l{axis.lower()}"
            for axis, group in groups.items()
        )
        self._each(
            table,
            _KERNEL,
            "work",
            f'{_WORK} {of.KERNEL} AS kind, coalesce({name}) AS name, start AS s, "end" AS e, {sizes}',
        )

    def memcpy(self, table: str) -> None:
        """Copies by the program, and of managed memory by the driver."""
        sides = {key: of.SIDES.index(value) for key, value in _SIDES.items()}
        peer = of.SIDES.index("peer")
        managed = ", ".join(map(str, _MANAGED))
        source, target = (
            f"CASE copyKind WHEN 10 THEN {peer} ELSE {_numbers(f'{side}Kind', sides)} END" for side in ("src", "dst")
        )
        select = (
            f'{_WORK} coalesce({_numbers("copyKind", _DIRECTIONS)}, {of.OTHER}) AS kind, start AS s, "end" AS e, bytes,'
            f" {source} AS src, {target} AS dst"
        )
        for batch in self._db.batches(table, _MEMCPY):
            self._check(table, batch, "copyKind", {*_MANAGED, *_DIRECTIONS, _UNTOLD_COPY}, "ENUM_CUDA_MEMCPY_OPER")
            for side in ("srcKind", "dstKind"):
                self._check(table, batch, side, {*_SIDES, _UNTOLD_MEMORY, NULL + 1, NULL}, _MEMORY_KINDS)
            self._into.con.register("batch", batch)
            self._into.con.execute(
                f"INSERT INTO s_work BY NAME SELECT {select} FROM batch WHERE copyKind NOT IN ({managed})"
            )
            if np.isin(batch["copyKind"], list(_MANAGED)).any():
                self._into.con.execute(
                    f"INSERT INTO s_managed BY NAME SELECT {_null('globalPid')} AS p, {_texts('copyKind', _MANAGED)} AS kind,"
                    f' deviceId AS dev, start AS s, "end" AS e, bytes, {_null("virtualAddress")} AS addr'
                    f" FROM batch WHERE copyKind IN ({managed})"
                )
            self._into.con.unregister("batch")

    def memset(self, table: str) -> None:
        """Fills."""
        self._each(table, _MEMSET, "work", f'{_WORK} {of.FILL} AS kind, start AS s, "end" AS e, bytes')

    def graph_trace(self, table: str) -> None:
        """Graphs that were recorded as a whole."""
        self._each(table, _GRAPH, "work", f'{_WORK} {of.OTHER} AS kind, {_GRAPH_TEXT} AS name, start AS s, "end" AS e')
        self._into.fill("texts", "id text", [(_GRAPH_TEXT, "CUDA graph")])

    def synchronization(self, table: str) -> None:
        """Waits for devices."""
        select = (
            f"{_null('globalPid')} AS p, {_null('correlationId')} AS corr, {_texts('syncType', _SYNCS)} AS kind,"
            f" {_null('deviceId')} AS dev, {_null('contextId')} AS ctx,"
            # The stream of a wait for an event is not that in which it was recorded; of a context it is none.
            f' CASE WHEN syncType IN (2, 3) THEN {_null("streamId")} END AS stream, start AS s, "end" AS e'
        )
        self._each(table, _SYNC, "waits", select)
        left = self._into.con.execute("SELECT count(*) FROM s_waits WHERE kind IS NULL").fetchall()[0][0]
        self._strange[f"{table} of an unknown syncType"] = left
        self._into.con.execute("DELETE FROM s_waits WHERE kind IS NULL")

    def nvtx_events(self, table: str) -> None:
        """Ranges, marks, and the names of domains and categories."""
        values = ", ".join(_null(c) for c in ("uint64Value", "int64Value", "uint32Value", "int32Value"))
        payload = f"coalesce(coalesce({values})::VARCHAR, doubleValue, floatValue, jsonText)"
        kinds = {_PUSH_POP: of.PUSH, _START_END: of.START, _MARK: of.MARK}
        listed = ", ".join(map(str, kinds))
        names = f"text AS name, {_null('textId')} AS named"
        ranges = (
            f"globalTid {_PID} AS p, globalTid AS t, start AS s, CASE eventType WHEN {_MARK} THEN start ELSE {_END} END AS e,"
            f" {_numbers('eventType', kinds)} AS kind, 'nvtx' AS api, coalesce({_null('domainId')}, 0) AS dom,"
            f" nullif({_null('category')}, 0) AS cat, {names}, {_null('color')} AS color, {payload} AS payload,"
            f" CASE eventType WHEN {_START_END} THEN {_null('endGlobalTid')} END AS et"
        )
        con = self._into.con
        con.execute("CREATE TABLE named (p BIGINT, dom BIGINT, cat BIGINT, kind BIGINT, name VARCHAR, named BIGINT)")
        other = 0
        for batch in self._db.batches(table, _NVTX):
            con.register("batch", batch)
            con.execute(f"INSERT INTO s_ranges BY NAME SELECT {ranges} FROM batch WHERE eventType IN ({listed})")
            con.execute(
                f"INSERT INTO named BY NAME SELECT globalTid {_PID} AS p, coalesce({_null('domainId')}, 0) AS dom, category AS cat,"
                f" eventType AS kind, {names} FROM batch WHERE eventType IN ({_CATEGORY}, {_DOMAIN})"
            )
            known = f"{listed}, {_CATEGORY}, {_DOMAIN}, 39, 76"  # 39: a thread's name, 76: a domain ends
            other += con.execute(f"SELECT count(*) FROM batch WHERE eventType NOT IN ({known})").fetchall()[0][0]
            con.unregister("batch")
        self._strange[f"{table} of an unknown eventType"] = other
        text = "coalesce(n.name, x.text) FROM named n LEFT JOIN s_texts x ON x.id = n.named"
        con.execute(f"INSERT INTO s_domains SELECT n.p, n.dom, {text} WHERE n.kind = {_DOMAIN}")
        con.execute(f"INSERT INTO s_categories SELECT n.p, n.dom, n.cat, {text} WHERE n.kind = {_CATEGORY}")

    def cuda_gpu_memory_usage_events(self, table: str) -> None:
        """Memory of devices."""
        select = (
            f"globalPid AS p, deviceId AS dev, address AS addr, bytes, coalesce({_texts('memKind', _MEMORY)}, 'device') AS kind,"
            f" memoryOperationType = {_FREED} AS freed, start AS s, {_null('correlationId')} AS corr"
        )

        def checked() -> Iterator[Columns]:
            for batch in self._db.batches(table, _USAGE):
                self._check(table, batch, "memKind", {*_MEMORY, _UNTOLD_MEMORY}, _MEMORY_KINDS)
                self._check(table, batch, "memoryOperationType", {_ALLOCATED, _FREED}, "ENUM_CUDA_DEV_MEM_EVENT_OPER")
                yield batch

        self._into.add_all("memory", select, checked())

    def cuda_um_gpu_page_fault_events(self, table: str) -> None:
        """Faults of managed memory."""
        select = "globalPid AS p, 'GPU page faults' AS kind, deviceId AS dev, start AS s, \"end\" AS e"
        self._each(
            table,
            _GPU_FAULT,
            "managed",
            f"{select}, {_null('numberOfPageFaults')} AS count, {_null('address')} AS addr",
        )

    def cuda_um_cpu_page_fault_events(self, table: str) -> None:
        """Likewise of the host."""
        select = (
            f"globalPid AS p, 'CPU page faults' AS kind, start AS s, start AS e, 1 AS count, {_null('address')} AS addr"
        )
        self._each(table, _CPU_FAULT, "managed", select)

    def _mpi(self, table: str, wanted: Sequence[Column], message: str, kind: str, size: str) -> None:
        con = self._into.con
        for batch in self._db.batches(table, wanted):
            con.register("batch", batch)
            con.execute(
                "CREATE OR REPLACE TEMP TABLE mpi_batch AS"
                f" SELECT row_number() OVER () + {self._messages} AS extra, b.*, x.text"
                " FROM batch b LEFT JOIN s_texts x ON x.id = b.textId"
            )
            con.unregister("batch")
            con.execute(
                f"INSERT INTO s_calls BY NAME SELECT {_CALL}, {_END} AS e, {_MPI} AS source, textId AS fn, extra,"
                f" {size} AS bytes FROM mpi_batch"
            )
            if message:
                con.execute(f"INSERT INTO s_messages BY NAME SELECT extra, {kind} AS kind, {message} FROM mpi_batch")
            self._messages += len(batch["start"])

    def mpi_p2p_events(self, table: str) -> None:
        """Messages of MPI. A call that both sends and receives is neither."""
        kind = (
            "CASE WHEN regexp_matches(text, '(?i)sendrecv') THEN 3 WHEN regexp_matches(text, '(?i)recv') THEN 1"
            " WHEN regexp_matches(text, '(?i)send') THEN 0 ELSE 3 END"
        )
        size = f"coalesce({_null('size')}, 0)"
        message = f"{_null('remoteRank')} AS partner, {_null('tag')} AS tag, {size} AS bytes, {_null('requestHandle')} AS request"
        self._mpi(table, _P2P, message, kind, size)

    def mpi_collectives_events(self, table: str) -> None:
        """Collectives: what the rank gives and what it gets."""
        size = f"coalesce({_null('size')}, 0) + coalesce({_null('recvSize')}, 0)"
        self._mpi(table, _COLLECTIVES, f"{size} AS bytes, {_null('requestHandle')} AS request", "2", size)

    def mpi_start_wait_events(self, table: str) -> None:
        """Waits for requests: a message without a kind is none."""
        self._mpi(table, _START_WAIT, f"{_null('requestHandle')} AS request", "NULL", "NULL")

    def mpi_other_events(self, table: str) -> None:
        """All else of MPI."""
        self._mpi(table, _OTHER, "", "", "NULL")

    def tell_what_is_left(self) -> None:
        """Say which tables are not imported, and find the process of work that does not say."""
        con = self._into.con
        for table in ("work", "waits", "managed"):
            if con.execute(f"SELECT 1 FROM s_{table} WHERE p IS NULL LIMIT 1").fetchall():
                whose = con.execute(
                    "SELECT p FROM s_calls UNION SELECT p FROM s_ranges UNION SELECT p FROM s_work WHERE p NOT NULL"
                )
                found = whose.fetchall()
                if len(found) > 1:
                    raise RunError("device work without globalPid, and several processes: whose it is cannot be known")
                con.execute(f"UPDATE s_{table} SET p = ? WHERE p IS NULL", [found[0][0] if found else 0])
        known = {*EVENTS, *_NAMES}
        left = sorted(
            name
            for name in self._db.tables
            if name not in known and not name.startswith(("ENUM_", "TARGET_INFO_", "sqlite_"))
        )
        if left:
            shown = ", ".join(printable(name)[:60] for name in left[:12])
            self._into.notes.append(
                f"not imported: {shown}{f' and {len(left) - 12} more tables' if len(left) > 12 else ''}"
            )
        strange = [f"{count:,} rows of {what}" for what, count in self._strange.items() if count]
        if strange:
            self._into.notes.append(f"not imported: {', '.join(strange)}")
