"""The device engine on its own: clocks, rings, threads (tests/programs/device/units.cpp has the checks)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEVICE = ROOT / "native" / "device"


@pytest.fixture(scope="session")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("device") / "units"
    sources = [ROOT / "tests/programs/device/units.cpp", DEVICE / "clock.cpp", DEVICE / "engine.cpp"]
    options = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", f"-I{DEVICE}", f"-I{ROOT / 'native/emit'}", "-lpthread"]
    subprocess.run(["g++", "-o", str(program), *map(str, sources), *options], check=True)
    return program


@pytest.mark.parametrize(
    "check",
    [
        "host_clocks",
        "own_clock",
        "set_clock",
        "in_order",
        "out_of_order",
        "many_threads",
        "clamped",
        "handle_map",
    ],
)
def test_device_engine(units: Path, check: str) -> None:
    done = subprocess.run([units, check], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
