"""The start of the interpreter and its imports, against what CPython itself says of the same process."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.suites.python import Profile, Run

IMPORTTIME = re.compile(r"import time: +(\d+) \| +(\d+) \| ( *)(\S+)$")


def by_cpython(text: str) -> list[tuple[int, int, int, str]]:
    """Depth, self and total in ns of the modules that -X importtime tells of."""
    found = (IMPORTTIME.match(line) for line in text.splitlines())
    return [(len(m[3]) // 2, int(m[1]) * 1000, int(m[2]) * 1000, m[4]) for m in found if m]


def test_imports_agree_with_importtime(profile: Profile) -> None:
    program = "import json, decimal, http.client, xml.dom.minidom"
    for _ in range(8):  # whoever is interrupted between the two clocks tries again
        run = profile(sys.executable, "-X", "importtime", "-c", program)
        theirs = by_cpython(run.stderr)
        ours: Counter[str] = Counter()
        for row in run.calls("import"):
            ours[row["name"]] += row["ns"]
        assert len(theirs) > 40
        known: Counter[str] = Counter()
        for _, _, total, name in theirs:
            known[name] += total
        # Ours is inside of theirs. What importlib.import_module brings is not told by CPython.
        assert all(0 < ours[name] <= total for name, total in known.items()), (known, ours)
        outermost = {name for depth, _, _, name in theirs if depth == 0}
        close = sum(ours[name] for name in outermost) / sum(known[name] for name in outermost)
        if close > 0.9:
            break
    assert 0.9 < close <= 1
    # The tree: self and total of each, as it stands in the report.
    tree = run.report("python_import_sum")
    assert {row["name"] for row in tree} >= {name for *_, name in theirs}
    minidom = next(row for row in tree if row["name"] == "xml.dom.minidom")
    assert (minidom["part"], minidom["calls"], minidom["failed"]) == ("program", 1, 0)
    at = tree.index(minidom)
    below = []
    for row in tree[at + 1 :]:
        if row["depth"] <= minidom["depth"]:
            break
        below.append(row)
    assert sum(row["self_ns"] for row in [minidom, *below]) == minidom["total_ns"]
    assert {"xml.dom.minicompat", "xml.dom.xmlbuilder"} <= {row["name"] for row in below if row["depth"] == 1}


def test_start_of_the_interpreter(profile: Profile) -> None:
    program = "import sys, time; print(time.monotonic_ns()); import json; print(*sys.path, sep=';'); print(time.monotonic_ns())"
    run = profile(sys.executable, "-c", program)
    first, paths, last = run.stdout.splitlines()
    assert paths == runs.execute([sys.executable, "-c", program]).stdout.splitlines()[1]
    (start,), (whole,) = run.calls("start"), run.calls("run")
    version = ".".join(map(str, sys.version_info[:3]))
    assert start["name"].startswith(f"CPython {version}") and whole["name"] == "-c"
    assert start["start_ns"] < start["end_ns"] <= int(first) < int(last) <= whole["end_ns"]
    assert whole["start_ns"] == start["end_ns"]
    imports = run.calls("import")
    before = [row for row in imports if row["end_ns"] <= start["end_ns"]]
    site = next(row for row in imports if row["name"] == "site")
    assert site in before and start["inner_ns"] == sum(row["ns"] for row in before if row["parent"] is None)
    json = next(row for row in imports if row["name"] == "json")
    assert int(first) <= json["start_ns"] < json["end_ns"] <= int(last)
    decoder = next(row for row in imports if row["name"] == "json.decoder")
    assert (decoder["parent"], decoder["depth"]) == (json["number"], 1)
    assert run.rows("SELECT * FROM losses") == []
    rows = {row["name"]: row for row in run.report("python_sum")}
    assert rows[f"start of {start['name']}"]["self_ns"] == start["ns"] - start["inner_ns"]
    assert rows["imports by the program"]["total_ns"] == sum(
        row["ns"] for row in imports if row["start_ns"] > start["end_ns"] and row["parent"] is None
    )


def test_a_module_as_program(profile: Profile) -> None:
    run = profile(sys.executable, "-X", "utf8", "-m", "json.tool", "--help")
    assert [row["name"] for row in run.calls("run")] == ["-m json.tool"]
    assert "argparse" in {row["name"] for row in run.calls("import")}


def test_failed_imports_and_tracebacks_are_as_without_us(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import json\nraise RuntimeError('at import')\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import traceback\n"
        "for name in ('broken', 'absent', 'json.absent'):\n"
        "    try:\n        __import__(name)\n"
        "    except Exception:\n        print(traceback.format_exc())\n"
        "import importlib\nprint(importlib.import_module('json').__name__, importlib.reload(importlib).__name__)\n"
    )
    run = profile(sys.executable, program)
    assert run.stdout == runs.execute([sys.executable, program]).stdout and "at import" in run.stdout
    failed = [
        row["name"]
        for row in run.calls("import")
        if row["failed"] and not row["name"].startswith(("apport", "sitecustom", "usercustom"))
    ]
    assert failed == ["broken", "absent", "json.absent"]


def test_a_python_below_is_recorded_where_it_uses_something(profile: Profile) -> None:
    below = "import json{}; print('below')"
    program = (
        "import subprocess, sys; [subprocess.run([sys.executable, '-c', word], check=True) for word in sys.argv[1:]]"
    )
    run = profile(sys.executable, "-c", program, below.format(""), below.format(", occatrace; occatrace.mark('here')"))
    assert run.stdout == "below\n" * 2
    assert len(run.calls("start")) == 2  # its own, and of the one below that marks something
    (mark,) = run.rows("SELECT process FROM ranges")
    assert "json" in {row["name"] for row in run.calls("import") if row["process"] == mark["process"]}


def test_off(profile: Profile) -> None:
    run = profile(sys.executable, "-c", "import occatrace, json; occatrace.mark('here')", python=("off",))
    assert run.rows("SELECT * FROM python_calls") == [] and len(run.rows("SELECT * FROM ranges")) == 1


@pytest.mark.parametrize("word", ["function", "lines:x", "time:1", "functions:", "functions:a;b"])
def test_bad_words(word: str) -> None:
    done = runs.execute([*runs.OCCA_PROF, "--python", word, "true"])
    assert done.returncode == 2 and word in done.stderr.splitlines()[-1]


def test_audit_hooks_are_left_to_the_program(profile: Profile) -> None:
    """Ours is out of the list again: what is audited costs the program nothing more, and its own hooks work."""
    program = "import sys; seen = []; sys.addaudithook(lambda event, _: seen.append(event)); id(sys); print(seen[0])"
    run: Run = profile(sys.executable, "-c", program)
    assert run.stdout == "builtins.id\n"
