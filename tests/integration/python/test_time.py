"""--python time: the interpreter's time and that of extension modules, against programs that measure their own processor time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.interpreters import interpreters
from tests.support.suites.python import PROGRAMS, Profile

TICK_S = 0.06  # what a sample may stand for that comes late, when the machine is busy


@pytest.mark.measures
@pytest.mark.parametrize("python", interpreters())
def test_interpreter_and_extension_modules(python: str, profile: Profile, tmp_path: Path) -> None:
    ask = "import sysconfig; print(sysconfig.get_paths()['include'], sysconfig.get_config_var('EXT_SUFFIX'))"
    include, suffix = subprocess.run([python, "-c", ask], check=True, text=True, capture_output=True).stdout.split()
    if not (Path(include) / "Python.h").exists():
        pytest.skip(f"{python} came without its headers")
    library = tmp_path / f"spinning{suffix}"
    folders = f"-I{include}", f"-I{Path(include).parent}"  # Debian's pyconfig.h is in a folder of the second
    words = ["gcc", "-O2", "-shared", "-fPIC", *folders, PROGRAMS / "spinning.c", "-o", library]
    subprocess.run([str(word) for word in words], check=True)
    run = profile(python, PROGRAMS / "spends.py", python=("time",), PYTHONPATH=str(tmp_path))
    spun = {words[0]: [float(word) for word in words[1:]] for words in map(str.split, run.stdout.splitlines())}
    # The child's program began within the parent's.
    by_process = run.rows(
        "SELECT c.process, s.part, s.name, sum(s.cpu_ns) / 1e9 AS s, c.start_ns FROM python_calls c"
        " JOIN python_samples s ON s.thread = c.thread WHERE c.kind = 'run' AND s.name IN ('Python', 'spinning') GROUP BY ALL"
    )
    parent, child = sorted({row["start_ns"] for row in by_process})
    for name, start in (("parent", parent), ("child", child)):
        found = {row["name"]: row["s"] for row in by_process if row["start_ns"] == start}
        in_python, in_module = spun[name]
        # In Python there is a little more than the spins: what is around them, and what importing was not.
        assert found["spinning"] == pytest.approx(in_module, rel=0.1, abs=TICK_S)
        assert in_python * 0.9 - TICK_S <= found["Python"] <= in_python * 1.1 + 2 * TICK_S
    rows = {row["name"]: row for row in run.report("python_time_sum")}
    assert rows["  spinning"]["total_ns"] / 1e9 == pytest.approx(
        sum(s[1] for s in spun.values()), rel=0.1, abs=2 * TICK_S
    )
    assert rows["extension modules"]["total_ns"] >= rows["  spinning"]["total_ns"]
    parts = ("imports", "Python", "extension modules", "elsewhere on a processor", "not on a processor (waiting)")
    whole = sum(rows[name]["total_ns"] for name in parts if name in rows)
    assert whole == pytest.approx(rows["in all"]["total_ns"], abs=len(rows))
    assert run.rows("SELECT * FROM losses") == []


def test_only_calls_from_c_count(example: Path, profile: Profile) -> None:
    run = profile(example / "main_c", "copy", 300, 5000, python=("time",))
    (border,) = run.sql("SELECT sum(end_ns - start_ns) FROM python_calls WHERE kind = 'border'")[0]
    rows = {row["name"]: row["total_ns"] for row in run.report("python_time_sum")}
    assert rows["in all"] == border
    assert rows["Python"] > 0 and rows["  _cffi_backend"] > 0
    assert rows["Python"] + rows["extension modules"] + rows["imports"] <= border
    assert (
        "(python_time_sum)" in runs.execute([*runs.OCCA_PROF, "report", run.folder]).stdout
    )  # asked for: in the summary


def test_without_samples_they_are_not_told_apart(profile: Profile) -> None:
    run = profile(sys.executable, "-c", "print(sum(range(1000)))")
    names = {row["name"] for row in run.report("python_time_sum")}
    assert "Python and its extension modules" in names and "Python" not in names
    assert run.rows("SELECT * FROM python_samples") == []
    summary = runs.execute([*runs.OCCA_PROF, "report", run.folder]).stdout
    assert "(python_sum)" in summary and "(python_time_sum)" not in summary


def test_code_on_a_stack_of_its_own(profile: Profile, tmp_path: Path) -> None:
    """Behind a fiber's stack there is nothing: a sample taken there looks no further."""
    library = tmp_path / "libfiber.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(PROGRAMS / "fiber.c"), "-o", str(library)], check=True)
    program = (
        "import ctypes, sys; spin = ctypes.CDLL(sys.argv[1]).spin_on_a_fiber; spin.restype = ctypes.c_double;"
        "print(spin(ctypes.c_double(0.2)))"
    )
    run = profile(sys.executable, "-c", program, library, python=("time",))
    spent = float(run.stdout)
    ((elsewhere,),) = run.sql("SELECT sum(cpu_ns) / 1e9 FROM python_samples WHERE part = 'elsewhere'")
    # A late timer's sample stands for more, and may be taken before or after.
    assert spent >= 0.2 and elsewhere >= spent / 2


def test_signals_of_the_program(profile: Profile, tmp_path: Path) -> None:
    """A sample that waits does not end what a process becomes; the program may have the signal for itself, later on too."""
    again = tmp_path / "again.py"
    again.write_text(
        "import os, sys, time\nleft = int(sys.argv[1])\nbegin = time.thread_time()\n"
        "while time.thread_time() - begin < 0.002 + left * 0.001:\n    pass\n"
        "if left:\n    os.execv(sys.executable, [sys.executable, __file__, str(left - 1)])\nprint('end')\n"
    )
    assert profile(sys.executable, again, 10, python=("time",)).stdout == "end\n"
    own = tmp_path / "own.py"
    own.write_text(
        "import os, signal, time\nseen = []\nsignal.signal(signal.SIGURG, lambda *_: seen.append(1))\n"
        "os.kill(os.getpid(), signal.SIGURG)\nbegin = time.thread_time()\n"
        "while time.thread_time() - begin < 0.1 or not seen:\n    pass\nprint(len(seen))\n"
    )
    assert profile(sys.executable, own, python=("time",)).stdout == "1\n"
