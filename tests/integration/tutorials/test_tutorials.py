"""The commands of the tutorials run as they are printed. What they record is tested elsewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = {page.stem: page for page in DOCS.glob("tutorial-*.md")}
# Open MPI refuses to run as root, and more ranks than cores.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PYOPENCL_NO_CACHE": "1",
}


def missing(name: str) -> str:
    """What this machine lacks for a tutorial."""
    if name == "tutorial-occa" and not (os.environ.get("OCCA_DIR") and shutil.which("g++")):
        return "no OCCA: OCCA_DIR is not set"
    if name == "tutorial-mpi" and not (shutil.which("mpicc") and shutil.which("mpirun")):
        return "no mpicc and mpirun"
    if name == "tutorial-pyopencl" and not importlib.util.find_spec("pyopencl"):
        return "no pyopencl"
    if name in ("tutorial-occa", "tutorial-pyopencl") and not list(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        return "no PoCL"
    return ""


@pytest.mark.parametrize("name", sorted(PAGES))
def test_commands(name: str, tmp_path: Path) -> None:
    if missing(name):
        pytest.skip(missing(name))
    commands = re.findall(r"^```sh\n(.*?)^```", PAGES[name].read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(commands) > 0
    script = tmp_path / "commands.sh"
    script.write_text("set -euo pipefail\n" + "".join(commands), encoding="utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **ENVIRONMENT, "PATH": path, "OCCA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        ["bash", str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "run-1" / "run.json").exists()
