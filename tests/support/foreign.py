"""Small recordings of other tools, with known content: built by their documented schemas, not by the tools."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from occatrace.cli.dispatch import main
from occatrace.core.model import load

PID, TID, WORKER = 1234, 1234, 1240
UTC = 1_700_000_000_000_000_000

# As `nsys export --type sqlite` of 2024.6 has them (EXPORT_SCHEMA_VERSION 3.16).
NSYS = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, nameEnum INTEGER NOT NULL,"
    " value TEXT NOT NULL",
    "TARGET_INFO_GPU": "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, cuDevice INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,"
    " correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,"
    " contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,"
    " demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, gridX INTEGER NOT NULL,"
    " gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,"
    " contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,"
    " copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER, virtualAddress INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,"
    " contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,"
    " contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, syncType INTEGER NOT NULL,"
    " eventId INTEGER NOT NULL",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL,"
    " contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL,"
    " memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER,"
    " text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER,"
    " doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonText TEXT",
    "OSRT_API": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL,"
    " returnValue INTEGER NOT NULL, nestingLevel INTEGER, callchainId INTEGER NOT NULL",
    "MPI_RANKS": "globalTid INTEGER NOT NULL, rank INTEGER NOT NULL",
    "MPI_P2P_EVENTS": "start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER, commHandle INTEGER, tag INTEGER,"
    " remoteRank INTEGER, size INTEGER, requestHandle INTEGER",
    "MPI_COLLECTIVES_EVENTS": "start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER, commHandle INTEGER,"
    " rootRank INTEGER, size INTEGER, recvSize INTEGER, requestHandle INTEGER",
    "MPI_START_WAIT_EVENTS": "start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER, requestHandle INTEGER",
    "COMPOSITE_EVENTS": "id INTEGER NOT NULL PRIMARY KEY, start INTEGER NOT NULL, cpu INTEGER",
}


def tid(thread: int = TID, pid: int = PID) -> int:
    """A globalTid: hardware, virtual machine, process, thread."""
    return 1 << 56 | pid << 24 | thread


def database(path: Path, tables: dict[str, str], rows: dict[str, Sequence[Sequence[Any]]]) -> Path:
    """A SQLite file."""
    db = sqlite3.connect(path)
    for name, ddl in tables.items():
        db.execute(f'CREATE TABLE "{name}" ({ddl})')
    for name, values in rows.items():
        if values:
            db.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(values[0]))})', values)
    db.commit()
    db.close()
    return path


def nsys_rows() -> dict[str, Sequence[Sequence[Any]]]:
    """One process, two threads: a step with a copy, two kernels and a wait, twice over; a failed call, memory, MPI."""
    texts = [
        *("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020", "cudaMalloc_v3020"),
        *(
            "cudaFree_v3020",
            "_Z5scalePfi",
            "scale(float*, int)",
            "scale",
            "main",
            "poll",
            "MPI_Isend",
            "MPI_Wait",
            "MPI_Allreduce",
        ),
        *("worker", "add(float*)", "add", "cuLaunchKernel", "a registered name", "MPI_Recv"),
    ]
    n = {text: number for number, text in enumerate(texts, 1)}
    whole = tid(0)
    calls: list[tuple[int | None, ...]] = []
    kernels: list[tuple[int | None, ...]] = []
    copies: list[tuple[int | None, ...]] = []
    waits, ranges = [], []
    for step in range(2):
        at, corr = 1_000_000 * (step + 1), 100 * (step + 1)
        ranges.append((at, at + 500_000, 59, None, 7, 0xFF00FF00, "step", tid(), None, None, 3, step, *[None] * 6))
        calls += [
            (at + 1_000, at + 6_000, 0, tid(), corr + 1, n["cudaMemcpyAsync_v3020"], 0, None),
            (at + 10_000, at + 14_000, 0, tid(), corr + 2, n["cudaLaunchKernel_v7000"], 0, None),
            (at + 20_000, at + 23_000, 1, tid(), corr + 3, n["cuLaunchKernel"], 0, None),
            (at + 30_000, at + 400_000, 0, tid(), corr + 4, n["cudaStreamSynchronize_v3020"], 0, None),
        ]
        copies.append((at + 8_000, at + 18_000, 0, 1, 7, corr + 1, whole, 4096, 1, 0, 2, None))
        scale = (n["scale(float*, int)"], n["scale"], n["_Z5scalePfi"])
        kernels.append((at + 20_000, at + 120_000, 0, 1, None, 7, corr + 2, whole, *scale, 10, 2, 1, 64, 1, 1))
        kernels.append(
            (
                at + 130_000,
                at + 390_000,
                0,
                1,
                None,
                13,
                corr + 3,
                whole,
                n["add(float*)"],
                n["add"],
                None,
                4,
                1,
                1,
                32,
                1,
                1,
            )
        )
        waits.append((at + 31_000, at + 399_000, 0, 1, 7, corr + 4, whole, 3, 0))
    calls += [
        (500_000, 520_000, 0, tid(), 11, n["cudaMalloc_v3020"], 0, None),
        (600_000, 610_000, 0, tid(), 12, n["cudaMalloc_v3020"], 2, None),
        (2_900_000, 2_905_000, 0, tid(WORKER), 13, n["cudaFree_v3020"], 0, None),
    ]
    copies.append((700_000, 705_000, 0, 1, 7, None, whole, 65536, 11, 4, 4, 0x7000))
    ranges += [
        (450_000, None, 60, 5, None, None, None, tid(), None, n["a registered name"], 0, None, *[None] * 6),
        (460_000, None, 34, None, None, None, "here", tid(WORKER), None, None, 0, None, *[None] * 6),
        (1, None, 75, None, None, None, "solver", tid(), None, None, 3, None, *[None] * 6),
        (1, None, 33, None, 7, None, "outer", tid(), None, None, 3, None, *[None] * 6),
    ]
    return {
        "StringIds": [(number, text) for text, number in n.items()],
        "ThreadNames": [(n["main"], 0, tid()), (n["worker"], 0, tid(WORKER))],
        "PROCESSES": [(whole, PID, "/bin/app")],
        "META_DATA_EXPORT": [("EXPORT_PRODUCT_VERSION", "2024.6.2.225"), ("EXPORT_SCHEMA_VERSION", "3.16.1")],
        "TARGET_INFO_SESSION_START_TIME": [(UTC, "", "")],
        "TARGET_INFO_SYSTEM_ENV": [(0, "", "Hostname", 1, "node7")],
        "TARGET_INFO_GPU": [(0, 0, "NVIDIA A100", "", 0)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "CUPTI_ACTIVITY_KIND_MEMSET": [(800_000, 803_000, 0, 1, 7, None, whole, 0, 512)],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": waits,
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            (515_000, whole, 0, 1, 0x9000, 0, 1 << 20, 2, 0, None, 11),
            (516_000, whole, 0, 1, 0xA000, 0, 1 << 10, 1, 0, None, None),
            (2_902_000, whole, 0, 1, 0x9000, 0, 1 << 20, 2, 1, None, 13),
        ],
        "NVTX_EVENTS": ranges,
        "OSRT_API": [(2_000_000, 2_700_000, 0, tid(WORKER), n["poll"], 1, 0, 0)],
        "MPI_RANKS": [(tid(), 3)],
        "MPI_P2P_EVENTS": [
            (3_000_000, 3_001_000, tid(), n["MPI_Isend"], 1, 5, 2, 800, 77),
            (3_030_000, 3_040_000, tid(), n["MPI_Recv"], 1, 6, 2, 400, None),
        ],
        "MPI_COLLECTIVES_EVENTS": [(3_050_000, 3_060_000, tid(), n["MPI_Allreduce"], 1, None, 8, 8, None)],
        "MPI_START_WAIT_EVENTS": [(3_010_000, 3_020_000, tid(), n["MPI_Wait"], 77)],
        "COMPOSITE_EVENTS": [(1, 1, 1)],
    }


def nsys(path: Path, **changed: Sequence[Sequence[Any]]) -> Path:
    """An export of nsys; `changed`: rows of tables instead of the usual ones."""
    return database(path, NSYS, {**nsys_rows(), **changed})


def _of(columns: str) -> str:
    """DDL of a table of rocpd: an id, its guid, columns."""
    return f'"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "guid" TEXT DEFAULT \'g\' NOT NULL, {columns}'


# As rocprofv3 of ROCm 7 makes them (schema_version 3); each name has a suffix of its recording.
ROCPD = {
    "rocpd_metadata": '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "tag" TEXT NOT NULL, "value" TEXT NOT NULL',
    "rocpd_string": _of("string TEXT NOT NULL UNIQUE"),
    "rocpd_info_node": _of("hash BIGINT, machine_id TEXT, hostname TEXT"),
    "rocpd_info_process": _of("nid INTEGER, ppid INTEGER, pid INTEGER NOT NULL, command TEXT, environment JSONB"),
    "rocpd_info_thread": _of("nid INTEGER, pid INTEGER NOT NULL, tid INTEGER NOT NULL, name TEXT"),
    "rocpd_info_agent": _of("nid INTEGER, pid INTEGER, type TEXT, name TEXT, product_name TEXT"),
    "rocpd_info_kernel_symbol": _of("code_object_id INTEGER, kernel_name TEXT, display_name TEXT"),
    "rocpd_info_pmc": _of("name TEXT NOT NULL, units TEXT"),
    "rocpd_event": _of("category_id INTEGER, stack_id INTEGER, extdata JSONB DEFAULT '{}' NOT NULL"),
    "rocpd_pmc_event": _of("event_id INTEGER, pmc_id INTEGER NOT NULL, value REAL"),
    "rocpd_region": _of(
        "nid INTEGER, pid INTEGER NOT NULL, tid INTEGER NOT NULL, start BIGINT NOT NULL, end BIGINT NOT NULL,"
        " name_id INTEGER NOT NULL, event_id INTEGER"
    ),
    "rocpd_kernel_dispatch": _of(
        "pid INTEGER NOT NULL, tid INTEGER, agent_id INTEGER NOT NULL, kernel_id INTEGER NOT NULL, queue_id INTEGER NOT NULL,"
        " stream_id INTEGER NOT NULL, start BIGINT NOT NULL, end BIGINT NOT NULL, workgroup_size_x INTEGER NOT NULL,"
        " workgroup_size_y INTEGER NOT NULL, workgroup_size_z INTEGER NOT NULL, grid_size_x INTEGER NOT NULL,"
        " grid_size_y INTEGER NOT NULL, grid_size_z INTEGER NOT NULL, event_id INTEGER"
    ),
    "rocpd_memory_copy": _of(
        "pid INTEGER NOT NULL, tid INTEGER, start BIGINT NOT NULL, end BIGINT NOT NULL, name_id INTEGER NOT NULL, dst_agent_id INTEGER,"
        " src_agent_id INTEGER, size INTEGER NOT NULL, queue_id INTEGER, stream_id INTEGER, event_id INTEGER"
    ),
    "rocpd_memory_allocate": _of(
        "pid INTEGER NOT NULL, tid INTEGER, agent_id INTEGER, type TEXT, level TEXT, start BIGINT NOT NULL, end BIGINT NOT NULL,"
        " address INTEGER, size INTEGER NOT NULL, event_id INTEGER"
    ),
    "rocpd_sampling": _of("x INTEGER"),
}


def rocpd(path: Path, ranks: int = 2) -> Path:
    """A file of rocprofv3 with a set of tables per rank: in each a range with a copy, a kernel, a copy back; memory."""
    tables: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    base = 1_700_000_000_000_000_000
    for rank in range(ranks):
        end = f"_0000{rank}a4d_3b2f"
        g = f"g{rank}"
        texts = [
            *(
                "HIP_RUNTIME_API_EXT",
                "MARKER_CORE_RANGE_API",
                "KERNEL_DISPATCH",
                "MEMORY_COPY",
                "hipMemcpyAsync",
                "hipLaunchKernel",
            ),
            *(
                "hipMalloc",
                "MEMORY_COPY_HOST_TO_DEVICE",
                "MEMORY_COPY_DEVICE_TO_HOST",
                "roctxThreadRangeA",
                "hipStreamSynchronize",
            ),
            *("HSA_CORE_API", "hsa_queue_create"),
        ]
        n = {text: number for number, text in enumerate(texts, 1)}
        hip, marker = n["HIP_RUNTIME_API_EXT"], n["MARKER_CORE_RANGE_API"]
        calls = ["hipMalloc", "hipMemcpyAsync", "hipLaunchKernel", "hipMemcpyAsync", "hipStreamSynchronize"]
        at = [base + rank * 10 + 10_000 * (i + 1) for i in range(5)]
        regions = [
            (i, g, 1, 1, 1, t, t + 2_000, n[name], i) for i, (t, name) in enumerate(zip(at, calls, strict=True), 1)
        ]
        regions.append((6, g, 1, 1, 1, base + 5_000, base + 90_000, n["roctxThreadRangeA"], 6))
        regions.append((7, g, 1, 1, 1, base + 1_000, base + 3_000, n["hsa_queue_create"], 12))
        of_rank = {
            "rocpd_metadata": [(1, "schema_version", "3")],
            "rocpd_string": [(number, g, text) for text, number in n.items()],
            "rocpd_info_node": [(1, g, 1, "m", "mi300")],
            "rocpd_info_process": [
                (1, g, 1, 10, 500 + rank, "./app -n 3", f'{{"PMI_RANK": "{rank}", "PMI_SIZE": "{ranks}"}}')
            ],
            "rocpd_info_thread": [(1, g, 1, 1, 600 + rank, "main")],
            "rocpd_info_agent": [
                (1, g, 1, 1, "CPU", "cpu", "EPYC"),
                (2, g, 1, 1, "GPU", "gfx942", "AMD Instinct MI300X"),
            ],
            "rocpd_info_kernel_symbol": [(4, g, 1, "_Z5scalePfi.kd", "scale(float*, int)")],
            "rocpd_info_pmc": [(1, g, "SQ_WAVES", "waves")],
            "rocpd_event": [
                *((i, g, hip, i, "{}") for i in range(1, 6)),
                (6, g, marker, 6, '{"message": "step"}'),
                *(
                    (7, g, n["MEMORY_COPY"], 2, "{}"),
                    (8, g, n["KERNEL_DISPATCH"], 3, "{}"),
                    (9, g, n["MEMORY_COPY"], 4, "{}"),
                ),
                *((10, g, hip, 1, "{}"), (11, g, hip, 99, "{}"), (12, g, n["HSA_CORE_API"], 12, "{}")),
            ],
            "rocpd_pmc_event": [(1, g, 8, 1, 128.5)],
            "rocpd_region": regions,
            "rocpd_kernel_dispatch": [(1, g, 1, 1, 2, 4, 1, 3, base + 40_000, base + 60_000, 64, 1, 1, 640, 2, 1, 8)],
            "rocpd_memory_copy": [
                (1, g, 1, 1, base + 25_000, base + 30_000, n["MEMORY_COPY_HOST_TO_DEVICE"], 2, 1, 4096, None, 3, 7),
                (2, g, 1, 1, base + 61_000, base + 64_000, n["MEMORY_COPY_DEVICE_TO_HOST"], 1, 2, 1024, None, 3, 9),
            ],
            "rocpd_memory_allocate": [
                (1, g, 1, 1, 2, "ALLOC", "REAL", base + 10_500, base + 11_000, 0x7000, 8192, 10),
                (2, g, 1, 1, 2, "FREE", "REAL", base + 80_000, base + 81_000, 0x7000, 0, 11),
                (3, g, 1, 1, 2, "ALLOC", "SCRATCH", base + 80_000, base + 81_000, 0x8000, 64, 11),
            ],
            "rocpd_sampling": [],
        }
        tables |= {name + end: ddl for name, ddl in ROCPD.items()}
        rows |= {name + end: values for name, values in of_rank.items()}
    return database(path, tables, rows)


def need_native_layer() -> None:
    """Skip a test where an import has no model of the APIs."""
    try:
        load()
    except OSError:
        pytest.skip("the native layer is not built")


def run_of(recording: Path) -> Path:
    """The run that `occa_prof import` makes of a file, beside it."""
    need_native_layer()
    run = recording.parent / "run"
    assert main(["import", str(recording), "-o", str(run)]) == 0
    return run
