"""tools/get_occa: where it looks, that it does nothing twice, and what it says of mistakes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def get_occa(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("OCCATRACE_CACHE", "XDG_CACHE_HOME")} | environment
    command = [str(ROOT / "tools/get_occa"), *options]
    return subprocess.run(command, text=True, capture_output=True, timeout=300, env=env, check=False)


def test_the_cache_is_found_as_told(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home")}
    xdg = home | {"XDG_CACHE_HOME": str(tmp_path / "xdg")}
    own = xdg | {"OCCATRACE_CACHE": str(tmp_path / "own")}
    assert get_occa("--print", **home).stdout == f"{tmp_path}/home/.cache/occatrace/occa-1.0.8-gcc\n"
    assert get_occa("--print", **xdg).stdout == f"{tmp_path}/xdg/occatrace/occa-1.0.8-gcc\n"
    assert get_occa("--print", "--clang", **own).stdout == f"{tmp_path}/own/occa-1.0.8-clang\n"
    assert not (tmp_path / "own").exists()


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    library = tmp_path / "occa-1.0.8-gcc" / "lib" / "libocca.so"
    library.parent.mkdir(parents=True)
    library.touch()
    done = get_occa(OCCATRACE_CACHE=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path}/occa-1.0.8-gcc\n", "")
    assert not list(tmp_path.glob(".building-*"))


@pytest.mark.parametrize("options", [["--nonsense"], ["--python", "/no/such/venv"]])
def test_mistakes_are_told_in_words(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "occa-1.0.8-gcc" / "lib").mkdir(parents=True)
    (tmp_path / "occa-1.0.8-gcc" / "lib" / "libocca.so").touch()
    done = get_occa(*options, OCCATRACE_CACHE=str(tmp_path))
    assert done.returncode != 0
    assert done.stderr.startswith("get_occa: ") and options[-1] in done.stderr
