"""The tables of `ctf` → staging tables, in SQL: begins and ends become calls; results of events become device work of the calls
that the events were given to; what calls made becomes memory, queues, names of kernels, messages and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from occatrace.core.checked import printable
from occatrace.core.model import load
from occatrace.core.sql import text as sql_text
from occatrace.foreign import staging as of
from occatrace.foreign.staging import Device, Staging

_TABLES = {
    # Begins (step 1) and ends (step -1) of calls. fn: number of the name's text.
    "m_edges": "id p t ts step source fn code",
    # Of a begin: nx …: groups; gx …: threads of all groups; lx …: threads of one; handle: what is freed, or a request;
    # mkind: of memory; way: of a copy; text: a name.
    "m_in": "id bytes queue kernel dev ctx nx ny nz gx gy gz lx ly lz handle freed mkind src dst way partner tag count dtype text",
    # Of an end: what was made or told.
    "m_out": "id value",
    # Which events time the work of the call around it, and what they said in the end: s, e, queued by the device's clock.
    "m_profiled": "p t ts event second source",
    "m_results": "p ts event second source s e queued good",
    "m_kernels": "p ts kernel text",
    "m_enqueued": "p t ts queue text",
    "m_timers": "p ts dev cycles",
    "m_types": "p dtype size",
}
SPECS = {name: ", ".join(f"{column} BIGINT" for column in columns.split()) for name, columns in _TABLES.items()} | {
    "m_clocks": "p BIGINT, dev BIGINT, ns DOUBLE, bits BIGINT"
}

_KINDS = {
    **{"kernel": of.KERNEL, "HtoD": of.HTOD, "DtoH": of.DTOH, "DtoD": of.DTOD, "HtoH": of.HTOH, "fill": of.FILL},
    "marker": of.MARKER,
}
# Functions that make kernels, queues or contexts: their ends tell the handle, their begins the name or device.
_KERNELS = ("clCreateKernel", "cuModuleGetFunction", "cuLibraryGetKernel", "zeKernelCreate", "hipModuleGetFunction")
_QUEUES = (
    "clCreateCommandQueue",
    "clCreateCommandQueueWithProperties",
    "zeCommandListCreate",
    "zeCommandListCreateImmediate",
)
_CONTEXTS = ("cuDevicePrimaryCtxRetain", "cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4")
_CURRENT = ("cuCtxSetCurrent", "cuCtxPushCurrent", "cuCtxPushCurrent_v2")
_MADE_CURRENT = tuple(name for name in _CONTEXTS if name.startswith("cuCtxCreate"))
_PLATFORMS = {"cuda": ("NVIDIA CUDA", "NVIDIA Corporation"), "ze": ("Level Zero", ""), "opencl": ("OpenCL", "")}
_LEAST_NS = 10_000_000  # between two readings of a clock that tell its frequency
# MPI: number in Staging.MESSAGE_KINDS by the model's class of a function; a wait has none.
_MESSAGES = {
    "send": 0,
    "isend": 0,
    "receive": 1,
    "ireceive": 1,
    "recv": 1,
    "irecv": 1,
    "collective": 2,
    "complete": None,
}


def join(
    into: Staging,
    functions: Sequence[tuple[int, int, str, str, str]],
    names: Mapping[str, int],
    devices: Mapping[tuple[int, int], str],
    apis: Sequence[str],
) -> None:
    """`functions`: API (its place in `apis`), number, name, kind of device work and class, of those that the models know;
    `names`: numbers of all functions; `devices`: names by process and handle."""
    _Join(into, functions, names, devices, apis).run()


class _Join:
    def __init__(
        self,
        into: Staging,
        functions: Sequence[tuple[int, int, str, str, str]],
        names: Mapping[str, int],
        devices: Mapping[tuple[int, int], str],
        apis: Sequence[str],
    ) -> None:
        self._into = into
        self._con = into.con
        self._functions = functions
        self._names = names
        self._devices = devices
        self._apis = list(apis)

    def run(self) -> None:
        """Fill the staging tables."""
        self._pair()
        self._name()
        self._calls()
        self._memory()
        self._messages()
        self._launched()
        self._clocks()
        self._work()

    def _do(self, sql: str) -> None:
        self._con.execute(sql)

    def _count(self, sql: str) -> int:
        return int(self._con.execute(sql).fetchall()[0][0] or 0)

    def _of(self, names: Sequence[str]) -> str:
        """SQL: numbers of functions."""
        return ", ".join(str(self._names[name]) for name in names if name in self._names) or "0"

    def _pair(self) -> None:
        """Table `calls`: a begin and the end at the same depth of the same function in its thread."""
        self._do("""
            CREATE TABLE calls AS
            SELECT id, CASE WHEN next = -1 THEN end_id END AS end_id, p, t, source, fn, ts AS s,
                   CASE WHEN next = -1 THEN until END AS e, CASE WHEN next = -1 THEN end_code END AS code
            FROM (
                SELECT *, lead(step) OVER w AS next, lead(id) OVER w AS end_id, lead(ts) OVER w AS until, lead(code) OVER w AS end_code
                FROM (SELECT *, sum(step) OVER (PARTITION BY p, t, source, fn ORDER BY ts, step DESC, id)
                                + CASE WHEN step = -1 THEN 1 ELSE 0 END AS depth FROM m_edges)
                WINDOW w AS (PARTITION BY p, t, source, fn, depth ORDER BY ts, step DESC, id))
            WHERE step = 1""")
        self._do("DROP TABLE m_edges")

    def _name(self) -> None:
        """Names of kernels, devices of queues, contexts of threads, by handle and since when."""
        made = "FROM calls c JOIN m_in i USING (id) JOIN m_out o ON o.id = c.end_id WHERE coalesce(c.code, 0) = 0 AND c.fn IN"
        self._do(
            f"INSERT INTO m_kernels SELECT c.p, c.e, o.value, i.text {made} ({self._of(_KERNELS)}) AND i.text IS NOT NULL"
        )
        self._do(
            f"CREATE TABLE queues_of AS SELECT c.p, c.e AS ts, o.value AS queue, i.dev {made} ({self._of(_QUEUES)})"
        )
        self._do(f"""CREATE TABLE contexts AS SELECT c.p, o.value AS ctx, any_value(i.dev) AS dev
            {made} ({self._of(_CONTEXTS)}) AND i.dev IS NOT NULL GROUP BY ALL""")
        self._do(f"""
            CREATE TABLE current AS
            SELECT c.p, c.t, c.e AS ts, i.ctx FROM calls c JOIN m_in i USING (id)
            WHERE c.fn IN ({self._of(_CURRENT)}) AND c.e IS NOT NULL AND i.ctx IS NOT NULL
            UNION ALL SELECT c.p, c.t, c.e, o.value {made} ({self._of(_MADE_CURRENT)})""")
        self._do(f"""
            CREATE TABLE sizes AS SELECT i.kernel, c.p, c.s AS ts, i.lx, i.ly, i.lz FROM calls c JOIN m_in i USING (id)
            WHERE c.fn IN ({self._of(("zeKernelSetGroupSize",))}) AND i.kernel IS NOT NULL""")

    def _calls(self) -> None:
        itt = self._apis.index("itt")
        kinds = [(source, fn, _MESSAGES[kind]) for source, fn, _, _, kind in self._functions if kind in _MESSAGES]
        self._do("CREATE TABLE sends (source BIGINT, fn BIGINT, kind BIGINT)")
        if kinds:
            self._con.executemany("INSERT INTO sends VALUES (?, ?, ?)", kinds)
        mpi = self._apis.index("mpi")
        self._do(f"""
            INSERT INTO s_calls BY NAME
            SELECT c.p, c.t, c.s, c.e, c.source, c.fn, c.id AS corr, c.code,
                   CASE WHEN c.source = {mpi} THEN i.count * {self._size()} ELSE i.bytes END AS bytes,
                   CASE WHEN m.fn IS NOT NULL THEN c.id END AS extra
            FROM calls c LEFT JOIN m_in i USING (id) LEFT JOIN sends m ON m.source = c.source AND m.fn = c.fn
            LEFT JOIN (SELECT p, dtype, any_value(size) AS size FROM m_types GROUP BY ALL) y ON y.p = c.p AND y.dtype = i.dtype
            WHERE c.source != {itt}""")
        self._do(f"""
            INSERT INTO s_ranges BY NAME
            SELECT c.p, c.t, c.s, c.e, {of.PUSH} AS kind, 'itt' AS api, coalesce(i.handle, 0) AS dom, i.text AS named
            FROM calls c LEFT JOIN m_in i USING (id) WHERE c.source = {itt}""")
        self._do("""
            INSERT INTO s_domains SELECT DISTINCT r.p, r.dom, x.text FROM s_ranges r JOIN s_texts x ON x.id = r.dom""")

    @staticmethod
    def _size() -> str:
        """SQL: bytes of an MPI datatype. MPICH's ABI has those of the basic ones in the handle: 0x4c00SSxx."""
        return "coalesce(y.size, CASE WHEN i.dtype & 4278190080 = 1275068416 THEN (i.dtype >> 8) & 255 END)"

    def _memory(self) -> None:
        """Allocations, and frees: of one after another at a handle (reference counts) the last one ends it."""
        model = load()
        kinds = " ".join(f"WHEN {n} THEN {sql_text(kind)}" for n, kind in enumerate(model.memory_kinds))
        self._do(f"""
            INSERT INTO s_memory BY NAME
            SELECT p, NULL AS dev, addr, bytes, CASE mkind {kinds} END AS kind, freed, s, corr FROM (
                SELECT *, lead(freed) OVER (PARTITION BY p, addr ORDER BY s) AS next FROM (
                    SELECT c.p, o.value AS addr, i.bytes, i.mkind, false AS freed, c.e AS s, c.id AS corr
                    FROM calls c JOIN m_in i USING (id) JOIN m_out o ON o.id = c.end_id
                    WHERE i.mkind IS NOT NULL AND coalesce(c.code, 0) = 0 AND o.value != 0 AND i.bytes IS NOT NULL
                    UNION ALL
                    SELECT c.p, i.handle, 0, NULL, true, c.s, c.id FROM calls c JOIN m_in i USING (id)
                    WHERE i.freed = 1 AND i.handle != 0 AND coalesce(c.code, 0) = 0))
            WHERE NOT freed OR next IS NOT true""")

    def _messages(self) -> None:
        mpi = self._apis.index("mpi")
        self._do(f"""
            INSERT INTO s_messages
            SELECT c.id AS extra, m.kind, i.partner, i.tag, i.count * {self._size()} AS bytes, coalesce(o.value, i.handle) AS request
            FROM calls c JOIN sends m ON m.source = c.source AND m.fn = c.fn LEFT JOIN m_in i ON i.id = c.id
            LEFT JOIN m_out o ON o.id = c.end_id
            LEFT JOIN (SELECT p, dtype, any_value(size) AS size FROM m_types GROUP BY ALL) y ON y.p = c.p AND y.dtype = i.dtype
            WHERE c.source = {mpi}""")
        # The first communicator that a process asks about is taken for MPI_COMM_WORLD.
        for name, place in (("MPI_Comm_rank", "rank"), ("MPI_Comm_size", "size")):
            told = self._con.execute(
                f"SELECT c.p, arg_min(o.value, c.s) FROM calls c JOIN m_out o ON o.id = c.end_id WHERE c.fn IN ({self._of((name,))})"
                " GROUP BY c.p"
            ).fetchall()
            for p, value in told:
                if 0 <= value < 1 << 31:
                    setattr(self._into.processes[p], place, int(value))

    def _launched(self) -> None:
        """Table `launched`: a command with the call that gave it, its events, queue, device and name."""
        kinds = [(source, fn, _KINDS.get(kind, of.OTHER)) for source, fn, _, kind, _ in self._functions if kind]
        self._do("CREATE TABLE kinds (source BIGINT, fn BIGINT, kind BIGINT)")
        if kinds:
            self._con.executemany("INSERT INTO kinds VALUES (?, ?, ?)", kinds)
        ze = self._apis.index("ze")
        threads = ", ".join(f"coalesce(i.g{a}, i.n{a} * coalesce(i.l{a}, z.l{a}), 0) AS g{a}, coalesce(i.l{a}, z.l{a}, 0) AS l{a}"
                            for a in "xyz")  # fmt: skip
        # Of a copy whose direction the function does not tell: its argument, or what the addresses are.
        way = f"CASE i.way WHEN 0 THEN {of.HTOH} WHEN 1 THEN {of.HTOD} WHEN 2 THEN {of.DTOH} WHEN 3 THEN {of.DTOD} ELSE k.kind END"
        self._do("""
            CREATE TABLE held AS SELECT p, addr, any_value(bytes) AS bytes, any_value(kind) AS kind FROM s_memory WHERE NOT freed
            GROUP BY ALL""")
        self._do(f"""
            CREATE TABLE launched AS
            SELECT c.id, c.source, c.p, c.s, c.e, c.fn, r.event, r.second, i.queue, i.bytes, i.src, i.dst, {threads},
                   coalesce({way}, {of.OTHER}) AS kind, n.text AS kernel, coalesce(q.dev, x.dev) AS dev
            FROM (SELECT r.*, c.id FROM m_profiled r ASOF JOIN calls c
                  ON c.p = r.p AND c.t = r.t AND c.source = r.source AND r.ts >= c.s) r
            JOIN calls c USING (id) LEFT JOIN m_in i USING (id) LEFT JOIN kinds k ON k.source = c.source AND k.fn = c.fn
            ASOF LEFT JOIN m_kernels n ON n.p = c.p AND n.kernel = i.kernel AND c.s >= n.ts
            ASOF LEFT JOIN queues_of q ON q.p = c.p AND q.queue = i.queue AND c.s >= q.ts
            ASOF LEFT JOIN sizes z ON z.p = c.p AND z.kernel = i.kernel AND c.s >= z.ts
            ASOF LEFT JOIN current u ON u.p = c.p AND u.t = c.t AND c.s >= u.ts
            LEFT JOIN contexts x ON x.p = c.p AND x.ctx = u.ctx""")
        sides = []
        for side in ("src", "dst"):
            self._do(f"""CREATE TABLE {side}s AS SELECT l.id, l.event, CASE WHEN l.{side} < h.addr + h.bytes THEN h.kind END AS kind
                FROM launched l ASOF JOIN held h ON h.p = l.p AND l.{side} >= h.addr WHERE l.source = {ze}""")
            sides.append(
                f"coalesce((SELECT any_value(kind) FROM {side}s x WHERE x.id = l.id), 'host') IN ('device', 'managed')"
            )
        self._do(f"""
            UPDATE launched l SET kind = CASE WHEN {sides[0]} THEN CASE WHEN {sides[1]} THEN {of.DTOD} ELSE {of.DTOH} END
                                         WHEN {sides[1]} THEN {of.HTOD} ELSE {of.HTOH} END
            WHERE l.source = {ze} AND l.kind = {of.OTHER} AND l.src IS NOT NULL AND l.dst IS NOT NULL""")
        # With one device there is no doubt.
        self._do("""
            UPDATE launched l SET dev = (SELECT any_value(dev) FROM contexts x WHERE x.p = l.p) WHERE dev IS NULL
            AND (SELECT count(DISTINCT dev) FROM contexts x WHERE x.p = l.p) = 1""")

    def _clocks(self) -> None:
        """Table `timed`: commands with their times on the host's clock."""
        opencl, cuda, ze = (self._apis.index(api) for api in ("opencl", "cuda", "ze"))
        self._do("""
            CREATE TABLE done AS
            SELECT l.*, r.ts, r.s AS ds, r.e AS de, r.queued FROM m_results r ASOF JOIN launched l
            ON l.p = r.p AND l.source = r.source AND l.event = r.event AND l.second = r.second AND r.ts >= l.s WHERE r.good = 1""")
        # OpenCL: a command was queued within its call; what all commands of a device allow is its clock's offset.
        self._do(f"""
            CREATE TABLE timed AS
            WITH bounds AS (SELECT p, dev, max(s - queued) AS low, min(coalesce(e, ts) - queued) AS high,
                                   median(s - queued)::BIGINT AS middle
                            FROM done WHERE source = {opencl} AND queued > 0 GROUP BY ALL)
            SELECT d.* EXCLUDE (s, e), d.s AS s0, CASE WHEN d.queued > 0 AND b.low <= b.high THEN d.ds + (b.low + b.high) // 2
                                          WHEN d.queued > 0 THEN d.ds + b.middle ELSE d.s END AS s, d.de - d.ds AS ns
            FROM done d LEFT JOIN bounds b ON b.p = d.p AND b.dev IS NOT DISTINCT FROM d.dev WHERE d.source = {opencl}""")
        if self._count("SELECT count(*) FROM timed WHERE coalesce(queued, 0) = 0"):
            self._into.notes.append(
                "device work of OpenCL begins with its call: the trace does not say when it was queued"
            )
        # CUDA: durations alone. What is in one stream is one after another, none before its call.
        self._do(f"""
            INSERT INTO timed BY NAME
            WITH sums AS (SELECT * EXCLUDE (s, e), s AS s0, sum(de) OVER w AS so_far FROM done WHERE source = {cuda}
                          WINDOW w AS (PARTITION BY p, queue, dev ORDER BY s, id)),
            ends AS (SELECT *, (so_far + max(s0 - (so_far - de)) OVER w)::BIGINT AS till FROM sums
                     WINDOW w AS (PARTITION BY p, queue, dev ORDER BY s0, id))
            SELECT * EXCLUDE (so_far, till), till - de AS s, de AS ns FROM ends""")
        if self._count(f"SELECT count(*) FROM timed WHERE source = {cuda}"):
            self._into.notes.append(
                "CUDA's device work has its durations alone: it begins with its call, or after what is before it in its stream"
            )
        self._cycles(ze)

    def _cycles(self, ze: int) -> None:
        """Level Zero: cycles of few bits, counted from a moment at which both clocks were read. LTTng 2.13 and later cut structures
        at their first byte 0: what a cycle lasts then follows from two such moments, and its bits from what the counter showed."""
        mask = "CASE WHEN k.bits >= 63 THEN 9223372036854775807 ELSE (1::BIGINT << k.bits::INTEGER) - 1 END"
        self._do(f"""
            INSERT INTO timed BY NAME
            WITH told AS (SELECT p, dev, max(ns) AS ns, arg_max(bits, ns) AS bits FROM m_clocks GROUP BY ALL),
            moments AS (SELECT p, dev, min(ts) AS ts, arg_min(cycles, ts) AS cycles, max(ts) - min(ts) AS length,
                               arg_max(cycles, ts) - arg_min(cycles, ts) AS counted FROM m_timers GROUP BY ALL),
            shown AS (SELECT p, dev, CASE WHEN max(greatest(ds, de)) < 4294967296 THEN 32 ELSE 64 END AS bits
                      FROM done WHERE source = {ze} GROUP BY ALL),
            clocks AS (
                SELECT r.p, r.dev, r.ts, r.cycles, CASE WHEN told.ns > 0 THEN told.ns
                       WHEN r.length >= {_LEAST_NS} AND r.counted > 0 THEN r.length / r.counted END AS ns,
                       CASE WHEN told.ns > 0 THEN told.bits ELSE shown.bits END AS bits
                FROM moments r JOIN shown USING (p, dev) LEFT JOIN told USING (p, dev))
            SELECT * EXCLUDE (s, e, x, wrap, length), s AS s0, length AS ns,
                   (x + CASE WHEN x < s THEN ceil((s - x) / wrap) * wrap ELSE 0 END)::BIGINT AS s
            FROM (SELECT d.*, pow(2, k.bits) * k.ns AS wrap, round(((d.de - d.ds) & {mask}) * k.ns)::BIGINT AS length,
                         k.ts + round(((d.ds - k.cycles) & {mask}) * k.ns) AS x
                  FROM done d JOIN clocks k ON k.p = d.p AND k.dev = d.dev WHERE d.source = {ze} AND k.ns IS NOT NULL)""")
        lost = self._count(f"SELECT count(*) FROM done WHERE source = {ze}") - self._count(
            f"SELECT count(*) FROM timed WHERE source = {ze}"
        )
        if lost:
            self._into.notes.append(
                f"not imported: work of Level Zero on devices whose clock is not known ({lost:,}): lttng_ust_ze_properties:device and"
                " :device_timer are not there"
            )

    def _work(self) -> None:
        """Device work, with numbers for devices."""
        into = self._into
        lost = self._count("SELECT count(*) FROM m_profiled") - self._count(
            "SELECT count(DISTINCT (id, event)) FROM timed"
        )
        if lost > 0:
            into.notes.append(f"commands without times: {lost:,} (their events did not end, or failed)")
        self._do("""
            CREATE TABLE numbers AS SELECT p, source, dev, row_number() OVER (PARTITION BY p ORDER BY source, dev) - 1 AS number
            FROM (SELECT DISTINCT p, source, coalesce(dev, 0) AS dev FROM timed)""")
        for p, source, dev, number in self._con.execute("SELECT * FROM numbers").fetchall():
            api = self._apis[source]
            platform, vendor = _PLATFORMS[api]
            name = printable(self._devices.get((p, dev), "device"))[:200]
            into.devices[p, number] = Device(name, api, platform, vendor)
        threads = ", ".join(f"w.g{a}, w.l{a}" for a in "xyz")
        self._do(f"""
            INSERT INTO s_work BY NAME
            SELECT w.p, w.kind, CASE WHEN w.kind = {of.KERNEL} THEN w.kernel ELSE w.fn END AS name, n.number AS dev,
                   coalesce(w.queue, 0) AS stream, w.id AS corr, w.s, w.s + w.ns AS e, w.bytes, {threads}
            FROM timed w JOIN numbers n ON n.p = w.p AND n.source = w.source AND n.dev = coalesce(w.dev, 0)""")
        # AMD's events tell that a kernel was enqueued, and no more.
        if self._count("SELECT count(*) FROM m_enqueued"):
            hip = self._apis.index("hip")
            for (p,) in self._con.execute("SELECT DISTINCT p FROM m_enqueued").fetchall():
                into.devices[p, 0] = Device("AMD GPU", "hip", "AMD ROCm", "Advanced Micro Devices, Inc.")
            self._do(f"""
                INSERT INTO s_work BY NAME
                SELECT r.p, {of.KERNEL} AS kind, r.text AS name, 0 AS dev, r.queue AS stream, c.id AS corr, r.ts AS s, r.ts AS e
                FROM m_enqueued r ASOF LEFT JOIN calls c ON c.p = r.p AND c.t = r.t AND c.source = {hip} AND r.ts >= c.s""")
            into.notes.append(
                "AMD's LTTng events have no times of the device: kernels are moments at which they were enqueued"
            )
