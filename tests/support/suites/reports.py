"""Real OCCA programs under occa_prof, with their reports as JSON beside what the programs say of themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import OCCA_PROF, ROOT, Row, execute
from tests.support.suites.occa import occa_in

__all__ = ["OCCA_PROF", "ROOT"]
PROGRAMS = ROOT / "tests" / "programs" / "occa"
REPORTS = ("occa_kern_sum", "gpu_kern_sum", "gpu_mem_time_sum", "gpu_mem_size_sum", "occa_api_sum", "api_sum")


@dataclass(frozen=True)
class Profiled:
    """A program that ran under occa_prof."""

    folder: Path
    stdout: str
    stderr: str
    reports: dict[str, list[Row]]
    losses: dict[str, Any]

    def kernels(self) -> dict[str, Row]:
        """OCCA kernels by name, without their backend kernels."""
        return {row["name"]: row for row in self.reports["occa_kern_sum"] if row["parent"] is None}


def occa_prof(*words: object, env: Mapping[str, str | None] | None = None) -> subprocess.CompletedProcess[str]:
    """Run it; a variable that is None is unset."""
    return execute([*OCCA_PROF, *words], **(env or {}))


@pytest.fixture(scope="session")
def occa_dir() -> Path:
    given = os.environ.get("OCCATRACE_TEST_OCCA_DIR") or os.environ.get("OCCA_DIR")
    if given:
        return Path(given)
    found = subprocess.run([ROOT / "tools" / "get_occa", "--print"], text=True, capture_output=True, check=False)
    if found.returncode or not Path(found.stdout.strip()).is_dir():
        pytest.skip("no OCCA: tools/setup builds one")
    return Path(found.stdout.strip())


Built = Callable[[str], Path]


@pytest.fixture(scope="session")
def built(occa_dir: Path) -> Built:
    """A program of OCCA's tests by its name."""
    return occa_in(occa_dir).program


@pytest.fixture(scope="session", params=["Serial", "OpenMP", "OpenCL"])
def mode(request: pytest.FixtureRequest) -> str:
    vendors = Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors"))
    if request.param == "OpenCL" and not any(vendors.glob("*.icd")):
        pytest.skip("no OpenCL platform")
    return str(request.param)


Profile = Callable[..., Profiled]


@pytest.fixture
def profile(mode: str, occa_dir: Path, tmp_path: Path) -> Profile:
    """Runs a program."""

    def run(*command: object, level: str = "default", status: int = 0) -> Profiled:
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        env: dict[str, str | None] = {**occa_in(occa_dir).environment(mode)}
        if command[0] == sys.executable:
            env["OCCA_DIR"] = None  # the Python package insists on an OCCA of its own
        ran = occa_prof("-m", level, "-o", folder, *command, env=env)
        assert ran.returncode == status, ran.stderr
        wanted = [word for name in REPORTS for word in ("--report", name)]
        told = occa_prof("report", folder, "--format", "json", *wanted)
        assert told.returncode == 0, told.stderr
        content = json.loads(told.stdout)
        reports = {report["name"]: report["rows"] for report in content["reports"]}
        return Profiled(folder, ran.stdout, ran.stderr, reports, content["losses"])

    return run
