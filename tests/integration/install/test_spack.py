"""Spack installs the packages of packaging/spack, and what it loads records and reports."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.runs import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("spack"), reason="Spack is not installed (spack in PATH)")

PACKAGES = ("pip", "numpy", "duckdb", "rich", "argcomplete")


def externals(folder: Path) -> dict[str, object]:
    """This Python and its packages, as Spack's packages that are there already."""
    place = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for scheme in (f"lib/{place}/site-packages", f"local/lib/{place}/dist-packages"):  # the second one is Debian's
        (folder / scheme).parent.mkdir(parents=True)
        (folder / scheme).symlink_to(sysconfig.get_path("purelib"))
    found = {f"py-{name}": (version(name), folder) for name in PACKAGES}
    found |= {"py-wheel": ("0.40", folder), "python": (platform.python_version(), Path(sys.base_prefix))}
    return {
        name: {"buildable": False, "externals": [{"spec": f"{name}@{number}", "prefix": str(prefix)}]}
        for name, (number, prefix) in found.items()
    }


def test_spack_installs_and_loads_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "packaging" / "spack", tmp_path / "clone/packaging/spack")
    wheel: list[str | Path] = [sys.executable, ROOT / "tools" / "wheel", "--here", "-o", tmp_path / "clone/build/dist"]
    subprocess.run(wheel, check=True, capture_output=True)
    (tmp_path / "config").mkdir()
    config = {"install_tree": {"root": str(tmp_path / "opt")}, "build_stage": [str(tmp_path / "stage")]}
    settings = {
        "packages": externals(tmp_path / "there"),
        "config": {**config, "source_cache": str(tmp_path / "sources")},
        "repos": [str(tmp_path / "clone/packaging/spack")],
    }
    for name, content in settings.items():
        (tmp_path / "config" / f"{name}.yaml").write_text(json.dumps({name: content}))
    environment = os.environ | {
        "SPACK_USER_CONFIG_PATH": str(tmp_path / "config"),
        "SPACK_USER_CACHE_PATH": str(tmp_path / "cache"),
        "OCCATRACE_SYSTEM_LTTNG": "",
    }

    def run(*words: object) -> str:
        done = subprocess.run([str(w) for w in words], env=environment, cwd=tmp_path, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("spack", "install", "--no-cache", "occatrace")
    run("cc", "-O1", f"-I{ROOT / 'include'}", ROOT / "tests/programs/annotation/own.c", "-o", "self-test", "-lpthread")
    said = run(
        "sh", "-c", 'eval "$(spack load --sh occatrace)" && command -v occa_prof && occa_prof -o run ./self-test'
    )
    assert said.startswith(str(tmp_path / "opt"))
    assert "(range_sum)" in said and (tmp_path / "run/run.json").exists()
    assert "1 passed" in run("spack", "test", "run", "occatrace")
