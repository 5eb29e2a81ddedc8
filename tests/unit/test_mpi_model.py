"""The MPI model: what the functions mean, and where their parameters stand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from generator.model import Api, Function  # noqa: E402
from generator.parse import ModelError, parse_text  # noqa: E402


@pytest.fixture(scope="module")
def mpi() -> Api:
    return parse_text((ROOT / "tracepoints" / "mpi.yaml").read_text())


@pytest.fixture(scope="module")
def functions(mpi: Api) -> dict[str, Function]:
    return {f.name: f for f in mpi.functions}


def test_each_function_has_both_names(mpi: Api) -> None:
    assert len(mpi.functions) > 550
    assert list(mpi.symbols) == [name for f in mpi.functions for name in (f.name, f"P{f.name}")]


def test_not_in_the_way(functions: dict[str, Function]) -> None:
    """Programs tell one MPI from another by these; variadic functions cannot be passed on."""
    out = ("MPI_Get_version", "MPI_Get_library_version", "MPI_Abi_get_version", "MPI_Pcontrol", "MPI_Comm_c2f")
    assert not set(out) & set(functions)


def test_large_counts_mean_the_same(functions: dict[str, Function]) -> None:
    large = [name for name in functions if name.endswith("_c")]
    assert len(large) > 150
    for name in large:
        small = functions.get(name.removesuffix("_c"))
        if small is None:
            continue
        f = functions[name]
        assert (f.kind, f.shape, f.levels, f.blocking) == (small.kind, small.shape, small.levels, small.blocking), name
        if f.kind in ("send", "recv", "isend", "collective") and small.place(("count",)) >= 0:
            place = f.place(("count",))
            assert f.parameters[place].wide and not small.parameters[place].wide, name


def test_levels_and_blocking(functions: dict[str, Function]) -> None:
    for name in ("MPI_Comm_rank", "MPI_Wtime", "MPI_Test", "MPI_Iprobe", "MPI_Type_size"):
        assert functions[name].levels[0] == "tally", name
    for name in (
        "MPI_Send",
        "MPI_Irecv",
        "MPI_Allreduce",
        "MPI_Put",
        "MPI_Waitall",
        "MPI_Comm_split",
        "MPI_Psend_init",
    ):
        assert functions[name].levels[0] == "event", name
    for name in ("MPI_Recv", "MPI_Wait", "MPI_Barrier", "MPI_Probe", "MPI_Win_fence", "MPI_Init"):
        assert functions[name].blocking == "always", name
    for name in ("MPI_Isend", "MPI_Ibarrier", "MPI_Irecv", "MPI_Put"):
        assert not functions[name].blocking, name


def test_roles(mpi: Api, functions: dict[str, Function]) -> None:
    roles = dict(mpi.roles)

    def places(name: str, *wanted: str) -> list[int]:
        return [functions[name].place(roles[role]) for role in wanted]

    assert places("MPI_Send", "buffer", "count", "datatype", "partner", "tag", "comm") == [0, 1, 2, 3, 4, 5]
    assert places("MPI_Recv", "partner", "source", "tag", "comm", "status") == [-1, 3, 4, 5, 6]
    assert places("MPI_Alltoallw", "count", "datatype", "received_count", "received_datatype") == [1, 3, 5, 7]
    assert places("MPI_Waitsome", "count", "request", "completed", "indices", "status") == [0, 1, 2, 3, 4]
    assert places("MPI_Comm_spawn", "comm", "new_comm") == [5, 6]
    assert places("MPI_Intercomm_merge", "comm", "new_comm") == [0, 2]


def test_mistakes_are_told() -> None:
    text = "api: x\ntitle: X\nprovider: p\nclasses: {a: {fields: []}}\nfunctions:\n- {name: f, class: b}\n"
    with pytest.raises(ModelError, match="function f: unknown class b"):
        parse_text(text)
