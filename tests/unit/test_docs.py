"""The documentation keeps up with the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    p
    for folder in ("native", "occatrace", "tools", ".ci")
    for p in (ROOT / folder).rglob("*")
    if p.is_file() and p.suffix in {".c", ".cpp", ".h", ".py", ".j2", ".sql", ""} and "__pycache__" not in p.parts
]


def test_every_environment_variable_is_documented() -> None:
    read = re.compile(r"(?:getenv\(\"|environ(?:\.get\(|\[)\"|\$\{?)(OCCATRACE_[A-Z_]+)")
    used = {name for p in SOURCES for name in read.findall(p.read_text(errors="replace"))}
    assert "OCCATRACE_MODE" in used
    text = (ROOT / "docs/environment.md").read_text()
    # The scripts of tools/ have variables of their own, which nobody sets from outside.
    assert {n for n in used if f"`{n}`" not in text} == set()


def test_links_in_the_documentation_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_nothing_refers_to_what_a_reader_does_not_have() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *SOURCES]:
        assert "../shared" not in page.read_text(errors="replace"), page


def test_the_pages_of_the_events_are_those_of_the_model(tmp_path: Path) -> None:
    """When this fails: tools/generate.py --model tracepoints --docs docs"""
    command = [
        sys.executable,
        str(ROOT / "tools/generate.py"),
        "--model",
        str(ROOT / "tracepoints"),
        "--docs",
        str(tmp_path),
    ]
    subprocess.run(command, check=True)
    fresh = {p.name: p.read_text() for p in (tmp_path / "events").iterdir()}
    assert len(fresh) >= 4
    assert {p.name: p.read_text() for p in (ROOT / "docs/events").iterdir()} == fresh


def test_every_test_that_the_security_page_names_exists() -> None:
    page = (ROOT / "docs/security.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 30
    assert [f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / file).read_text()] == []
    # And each line of the tables names one.
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.endswith("| test |")]
    assert [row for row in rows if "::test_" not in row] == []
