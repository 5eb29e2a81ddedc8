"""Calls of NAME against what the program did."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import runs

ROOT = Path(__file__).resolve().parents[3]


def test_calls(tmp_path: Path) -> None:
    library = tmp_path / "libNAME.so"
    subprocess.run(["cc", "-shared", "-fPIC", ROOT / "tests/fakes/NAME/fake.c", "-o", library], check=True)
    program = tmp_path / "program"
    source = ROOT / "tests/programs/NAME/program.c"
    subprocess.run(["cc", source, "-o", program, library, f"-Wl,-rpath,{tmp_path}"], check=True)
    run = runs.profiled(runs.Run, tmp_path / "run", [program])
    assert (run.status, run.stdout) == (0, "1 failed\n"), run.stderr
    assert run.sql(
        "SELECT function, sum(calls), sum(failed), sum(bytes) FROM call_stats WHERE api = 'NAME' GROUP BY 1 ORDER BY 1"
    ) == [
        ("NAME_copy", 4, 1, 3000),
        ("NAME_init", 1, 0, 0),
        ("NAME_query", 50, 0, 0),
    ]
