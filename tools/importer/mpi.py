"""What the calls of MPI mean: their classes, what they wait for, how they are recorded.

The headers say what exists (names, parameters). mpi_abi.h is MPI 5.0; what MPI 5.0 dropped is in the mpi_proto.h of an earlier
MPICH. They are read as text: no MPI has to be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .clang import ImportFailed
from .writer import flow, quoted

HEAD = """\
# The MPI model: the functions of MPI 3.1 to 5.0 in C, large counts included, and what each call means.
# Written by tools/import_headers.py mpi, which holds the rules; this file is what the generator reads. Fortran arrives at the same C
# functions (docs/mpi.md). Not here, so never in the way: MPI_Get_version and its like (programs tell one MPI from another
# by them), conversions of handles, arithmetic with addresses, MPI_Pcontrol (variadic), and the tool interface MPI_T.
#
# anchor     the symbol by which an MPI library is known; where there is none, lookups do not find ours either
# roles      what a parameter of this name is to the calls, in all functions alike; the first name that fits counts
# classes    what kinds of calls there are, and the fields of their events
# functions  class       one of them
#            shape       which data a collective moves; which requests a call completes
#            parameters  as in C; the wrappers pass all of them on as they are
#            level       what a recording level writes: event, tally or off ("full" is always event, "tally" tally)
#            blocking    such calls also write a <function>_begin event
"""

# Told apart by them are the MPIs, by programs that load one themselves.
LEFT_OUT = re.compile(
    r"MPI_(T_|Get_version|Get_library_version|Abi_|Pcontrol|DUP_FN|Aint_(add|diff)|Status_(c2f|f2c|f082c|c2f08|f082f|f2f08))"
    r"|.*(_c2f|_f2c|_fromint|_toint|_f2f08|_f082f|_fn)$"
)

ROLES = {
    "buffer": ("buf", "sendbuf", "buffer", "origin_addr"),
    "count": ("count", "sendcount", "sendcounts", "origin_count", "incount"),
    "datatype": ("datatype", "sendtype", "sendtypes", "origin_datatype"),
    "received_buffer": ("recvbuf", "result_addr"),
    "received_count": ("recvcount", "recvcounts", "result_count"),
    "received_datatype": ("recvtype", "recvtypes", "result_datatype"),
    "partner": ("dest", "target_rank"),
    "source": ("source",),
    "tag": ("tag", "sendtag"),
    "received_tag": ("recvtag",),
    "rank": ("rank",),
    "root": ("root",),
    "comm": ("comm", "comm_old", "local_comm", "oldcomm", "intercomm"),
    "new_comm": ("newcomm", "newintercomm", "newintracomm", "comm_cart", "comm_graph", "comm_dist_graph", "intercomm"),
    "request": ("request", "array_of_requests"),
    "status": ("status", "array_of_statuses"),
    "flag": ("flag",),
    "index": ("index", "indx"),
    "completed": ("outcount",),
    "indices": ("array_of_indices",),
    "message": ("message",),
    "partitions": ("partitions",),
    "window": ("win",),
    "file": ("fh",),
}

Field = dict[str, object]

BUFFER: Field = {"name": "buffer", "type": "u64", "hex": True, "doc": "address given"}
COUNT: Field = {"name": "count", "type": "i64", "doc": "elements given"}
PARTNER: Field = {"name": "partner", "type": "i32", "doc": "rank in MPI_COMM_WORLD; -1: not known, -2: MPI_PROC_NULL"}
TAG: Field = {"name": "tag", "type": "i32", "doc": "of the message"}
COMM: Field = {"name": "comm", "type": "u32", "doc": "its communicator record; 0: not known"}
REQUEST: Field = {"name": "request", "type": "handle", "doc": "0: none"}
RET: Field = {"name": "ret", "type": "i32", "doc": "what the call returned"}


def _bytes(doc: str) -> Field:
    return {"name": "bytes", "type": "u64", "unit": "bytes", "doc": doc}


CLASSES: dict[str, tuple[str, list[Field]]] = {
    "send": ("blocking sends", [BUFFER, COUNT, _bytes("sent"), PARTNER, TAG, COMM, RET]),
    "recv": (
        "blocking receives; partner and tag are those of the message that came",
        [BUFFER, COUNT, _bytes("received"), PARTNER, TAG, COMM, RET],
    ),
    "isend": ("non-blocking sends", [BUFFER, COUNT, _bytes("to be sent"), PARTNER, TAG, COMM, REQUEST, RET]),
    "posted": (
        "non-blocking receives and persistent or partitioned requests: nothing has moved yet; partner and tag as given",
        [BUFFER, COUNT, {**_bytes("room in the buffer"), "name": "capacity"}, PARTNER, TAG, COMM, REQUEST, RET],
    ),
    "start": ("starts of persistent requests", [COUNT, _bytes("to be sent"), REQUEST, RET]),
    "complete": (
        "waits and tests",
        [
            {"name": "requests", "type": "u32", "doc": "given"},
            {"name": "completed", "type": "u32", "doc": "by this call, of those that were active"},
            _bytes("received by the requests that completed"),
            RET,
        ],
    ),
    "request": ("what else happens to a request", [REQUEST, RET]),
    "probe": (
        "probes; of the message that is there, if one is",
        [{**_bytes("of the message"), "name": "waiting"}, PARTNER, TAG, COMM, RET],
    ),
    "sendrecv": (
        "a send and a receive in one",
        [
            BUFFER,
            _bytes("sent and received"),
            {"name": "sent", "type": "u64", "unit": "bytes", "doc": "given by this rank"},
            PARTNER,
            TAG,
            {"name": "source", "type": "i32", "doc": "as partner, of the message that came"},
            {"name": "source_tag", "type": "i32", "doc": "tag of the message that came"},
            COMM,
            REQUEST,
            RET,
        ],
    ),
    "collective": (
        "collectives; bytes of the buffers that the call names and that its data go out of and into",
        [
            BUFFER,
            _bytes("sent and received"),
            {"name": "sent", "type": "u64", "unit": "bytes", "doc": "given by this rank"},
            {"name": "root", "type": "i32", "doc": "rank in MPI_COMM_WORLD; -1: none, or not known"},
            COMM,
            REQUEST,
            RET,
        ],
    ),
    "onesided": (
        "one-sided communication; partner is the target",
        [
            BUFFER,
            _bytes("moved"),
            PARTNER,
            {"name": "window", "type": "handle", "doc": "handle of the window"},
            REQUEST,
            RET,
        ],
    ),
    "window": (
        "windows and their synchronization; partner is the target of a lock or flush",
        [{"name": "window", "type": "handle", "doc": "handle of the window"}, PARTNER, RET],
    ),
    "file": (
        "input and output",
        [BUFFER, _bytes("asked for"), {"name": "file", "type": "handle", "doc": "handle of the file"}, REQUEST, RET],
    ),
    "communicator": (
        "communicators made and freed",
        [COMM, {"name": "result", "type": "u32", "doc": "communicator record of the new one; 0: none"}, RET],
    ),
    "type": ("data types made and freed", [RET]),
    "plain": ("all others", [RET]),
    "time": ("the clock", []),
}

COLLECTIVES = (
    "barrier",
    "bcast",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "exscan",
    "neighbor_allgather",
    "neighbor_allgatherv",
    "neighbor_alltoall",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
)

# Calls that make others wait, or wait for others, besides communication itself.
JOINT = re.compile(
    r"(Init|Init_thread|Finalize|Abort|Session_init|Session_finalize"
    r"|Win_(create|create_dynamic|allocate|allocate_shared|free|fence|start|wait|complete|lock|lock_all|unlock|unlock_all"
    r"|flush|flush_all|flush_local|flush_local_all)"
    r"|File_(open|close|sync|set_size|preallocate|set_view)"
    r"|Comm_(dup|dup_with_info|create|create_group|create_from_group|split|split_type|free|disconnect|accept|connect|spawn"
    r"|spawn_multiple|join)|Intercomm_(create|create_from_groups|merge)"
    r"|Cart_create|Cart_sub|Graph_create|Dist_graph_create|Dist_graph_create_adjacent)$"
)


@dataclass(frozen=True)
class Function:
    """One function as a header declares it."""

    name: str
    result: str
    parameters: str

    @property
    def base(self) -> str:
        """Its name without prefix and large-count suffix."""
        return re.sub(r"_c$", "", self.name.removeprefix("MPI_"))


def functions_of(text: str) -> Iterator[Function]:
    """The prototypes of a header."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#(\\\n|[^\n])*", " ", text, flags=re.S | re.M)
    text = re.sub(r"\bMPICH_(ATTR|API)\w*(\([^()]*(\([^()]*\))?[^()]*\))?", " ", text)
    for match in re.finditer(r"\b(int|double)\s+(MPI_[A-Z]\w*)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", text):
        parameters = " ".join(match[3].split())
        yield Function(match[2], match[1], "" if parameters == "void" else parameters)


def collective(base: str) -> tuple[str, str] | None:
    """Shape and variant ("", "i", "init") of a collective."""
    name = base.lower()
    for variant, stem in (
        ("", name),
        ("i", re.sub(r"^i|(?<=neighbor_)i", "", name, count=1)),
        ("init", name.removesuffix("_init")),
    ):
        if variant == "i" and name.startswith("ineighbor_"):
            stem = name[1:]
        if stem in COLLECTIVES and (variant == "" or stem != name):
            return stem, variant
    return None


def meaning(f: Function) -> dict[str, object]:
    """Class, shape, level and blocking."""
    base = f.base
    found = collective(base)
    event = {"default": "event"}
    if found:
        shape, variant = found
        out: dict[str, object] = {"class": "collective", "shape": shape, "level": event}
        if variant == "init":
            out["class"] = "posted"
        return out | ({"blocking": True} if variant == "" else {})
    if re.fullmatch(r"[BSR]?send", base, re.I) and base != "isend":
        return {"class": "send", "level": event, "blocking": True}
    if base in ("Recv", "Mrecv"):
        return {"class": "recv", "level": event, "blocking": True}
    if re.fullmatch(r"I[bsr]?send", base):
        return {"class": "isend", "level": event}
    if base in ("Irecv", "Imrecv"):
        return {"class": "posted", "shape": "recv", "level": event}
    if re.fullmatch(r"([BSR]?send|Psend|Recv|Precv)_init", base, re.I):
        shape = "recv_init" if "recv" in base.lower() else "send_init"
        return {"class": "posted", "shape": shape, "level": event}
    if base in ("Start", "Startall"):
        return {"class": "start", "level": event}
    match = re.fullmatch(r"(Wait|Test)(all|any|some)?", base)
    if match:
        waits = match[1] == "Wait"
        return {
            "class": "complete",
            "shape": match[2] or "one",
            **({"level": event, "blocking": True} if waits else {}),
        }
    if base in ("Request_free", "Cancel"):
        return {"class": "request", "shape": "free" if base == "Request_free" else "cancel"}
    if base in ("Probe", "Mprobe"):
        return {"class": "probe", "level": event, "blocking": True}
    if base in ("Iprobe", "Improbe"):
        return {"class": "probe"}
    if re.fullmatch(r"I?sendrecv(_replace)?", base, re.I):
        out = {"class": "sendrecv", "shape": "replace" if "replace" in base else "both", "level": event}
        return out | ({} if base.startswith("Isend") else {"blocking": True})
    match = re.fullmatch(r"R?(put|get|accumulate|get_accumulate|fetch_and_op|compare_and_swap)", base, re.I)
    if match and base != "Rget_":
        return {"class": "onesided", "shape": match[1].lower(), "level": event}
    blocking = {"blocking": True} if JOINT.match(base) else {}
    if re.match(
        r"Win_(create$|create_dynamic|allocate|free$|fence|start|post|complete|wait|test$|lock|unlock|flush|sync)", base
    ):
        level = {} if base in ("Win_test", "Win_sync") else {"level": event}
        made = {"shape": "free"} if base == "Win_free" else {"shape": "make"} if "MPI_Win *" in f.parameters else {}
        return {"class": "window", **made, **level, **blocking}
    if re.fullmatch(r"File_i?(read|write)\w*", base):
        waits = not re.match(r"File_i|.*_(begin)$", base)
        return {"class": "file", "level": event, **({"blocking": True} if waits else {})}
    if re.match(r"File_(open|close|sync|set_size|preallocate|set_view)", base):
        return {"class": "plain", "level": event, **blocking}
    if base in ("Comm_free", "Comm_disconnect"):
        return {"class": "communicator", "shape": "free", "level": event, **blocking}
    if base == "Comm_set_name":
        return {"class": "communicator", "shape": "name"}
    if set(names(f)) & set(ROLES["new_comm"]):
        return {"class": "communicator", "shape": "make" if blocking else "make_later", "level": event, **blocking}
    if base == "Type_free":
        return {"class": "type", "shape": "free"}
    if base in ("Init", "Init_thread", "Session_init"):
        return {"class": "plain", "shape": "init", "level": {"default": "event", "minimal": "event"}, **blocking}
    if base in ("Finalize", "Session_finalize", "Abort"):
        return {"class": "plain", "shape": "finalize", "level": {"default": "event", "minimal": "event"}, **blocking}
    if f.result == "double":
        return {"class": "time"}
    return {"class": "plain"}


def names(f: Function) -> list[str]:
    """Names of the parameters."""
    if not f.parameters:
        return []
    flat = re.sub(r"\([^()]*\)\s*$", "", f.parameters)
    return [re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", part))[-1] for part in flat.split(",")]


RECORDS = """\
- name: rank
  doc: who the process is, as MPI says it, when MPI has been initialized and again before it is finalized
  fields:
  - {name: pid, type: u32, doc: "process"}
  - {name: rank, type: i32, doc: "in MPI_COMM_WORLD; -1: there is none (sessions)"}
  - {name: size, type: i32, doc: "ranks in MPI_COMM_WORLD"}
  - {name: library, type: u32, doc: "interned text of MPI_Get_library_version, its first line"}
  - {name: abi, type: u32, doc: "interned text: which ABI the program uses"}
- name: communicator
  doc: a communicator that was used; one that gets another name is announced again
  fields:
  - {name: pid, type: u32, doc: "process"}
  - {name: id, type: u32, doc: "number of the communicator within the process"}
  - {name: handle, type: handle, doc: "MPI's handle"}
  - {name: size, type: i32, doc: "of an inter-communicator, its remote group"}
  - {name: rank, type: i32, doc: "of this process in it"}
  - {name: first, type: i32, doc: "rank in MPI_COMM_WORLD of its rank 0; -1: not known"}
  - {name: inter, type: u8, doc: "1: inter-communicator"}
  - {name: name, type: u32, doc: "interned text"}
- name: message
  doc: a request that came to its end, at the time of the record; blocking calls are told by their own events
  fields:
  - {name: kind, type: u8, enum: message_kind, doc: "what kind of request"}
  - {name: state, type: u8, enum: message_state, doc: "how it ended"}
  - {name: call_tid, type: u32, doc: "thread of the call that started it"}
  - {name: call_seq, type: u32, doc: "number of that call in its thread"}
  - {name: begin, type: u64, unit: ns, doc: "when it was started"}
  - {name: bytes, type: u64, unit: bytes, doc: "moved"}
  - {name: partner, type: i32, doc: "rank in MPI_COMM_WORLD; -1: not known, -2: MPI_PROC_NULL"}
  - {name: tag, type: i32, doc: "of the message"}
  - {name: comm, type: u32, doc: "its communicator record; 0: not known"}
  - {name: buffer, type: u64, hex: true, doc: "address given"}
"""


def model(texts: Sequence[str]) -> Iterator[str]:
    found: dict[str, Function] = {}
    for text in texts:
        for f in functions_of(text):
            if not LEFT_OUT.fullmatch(f.name) and not LEFT_OUT.match(f.name):
                found.setdefault(f.name, f)
    yield HEAD + "api: mpi\ntitle: MPI\nprovider: occatrace_mpi\nanchor: PMPI_Init"
    yield 'doc: "MPI calls of C, C++, Fortran and Python alike; what the fields mean stands in docs/mpi.md."'
    yield (
        "enums:\n  message_kind:\n    values: {send: 1, receive: 2, put: 3, get: 4, accumulate: 5, collective: 6, other: 7}"
    )
    yield "  message_state:\n    values: {complete: 0, cancelled: 1, freed: 2, unfinished: 3, failed: 4}"
    yield "roles:"
    for role, parameters in ROLES.items():
        yield f"  {role}: {flow(parameters)}"
    yield "classes:"
    for name, (doc, fields) in CLASSES.items():
        yield f"  {name}:\n    doc: {flow(doc)}\n    fields:{'' if fields else ' []'}"
        for field in fields:
            yield f"    - {flow(field)}"
    yield "records:"
    yield RECORDS.rstrip("\n")
    yield "functions:"
    for f in sorted(found.values(), key=lambda f: f.name.lower()):
        yield f"- name: {f.name}"
        yield f"  parameters: {quoted(f.parameters)}"
        for key, value in meaning(f).items():
            if key == "blocking" and f"MPI_{f.base}_begin" in found:
                continue  # its begin event would have the name of another function
            yield f"  {key}: {flow(value)}"


def import_mpi(headers: Sequence[Path]) -> str:
    """The YAML of MPI from C headers; of a function that stands twice the first counts. Raises ImportFailed."""
    try:
        texts = [header.read_text(encoding="utf-8", errors="replace") for header in headers]
    except OSError as error:
        raise ImportFailed(f"{error.filename}: {error.strerror}") from None
    return "\n".join(model(texts)) + "\n"
