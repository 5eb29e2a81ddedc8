"""The recipes of packaging/ ask for what pyproject.toml asks for, in the versions that it names."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import occatrace
from tests.support.runs import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from packer import DIST, base

PACKAGING = ROOT / "packaging"
SPACK = PACKAGING / "spack"


def asked() -> dict[str, str]:
    """Packages that are always needed, and their bounds, as pyproject.toml has them: numpy → >=1.24."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    with (ROOT / "pyproject.toml").open("rb") as file:
        words = toml.load(file)["project"]["dependencies"]
    return {found[1]: found[2] for word in words if (found := re.match(r"([a-z]+)([^;]*)", word))}


def spack_range(bounds: str) -> str:
    """Bounds as Spack writes them, where ends are included: >=1.2,<3 → 1.2:2."""
    low, high = (re.search(pattern, bounds) for pattern in (r">=([\d.]+)", r"<(\d+)"))
    return f"{low[1] if low else ''}:{int(high[1]) - 1 if high else ''}"


@contextmanager
def _spack(monkeypatch: pytest.MonkeyPatch, said: list[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> Iterator[None]:
    """A module spack.package whose directives only note what they were given."""

    def directive(name: str) -> Callable[..., None]:
        return lambda *args, **more: said.append((name, args, more))

    made = ModuleType("spack.package")
    for name in ("license", "version", "requires", "depends_on"):
        setattr(made, name, directive(name))
    made.PythonPackage = type("PythonPackage", (), {})  # type: ignore[attr-defined]
    made.InstallError = type("InstallError", (Exception,), {})  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "spack", ModuleType("spack"))
        patch.setitem(sys.modules, "spack.package", made)
        yield


def recipe(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], list[tuple[str, tuple[Any, ...], dict[str, Any]]]]:
    """A recipe of Spack: its names, and its directives."""
    said: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    path = SPACK / "packages" / name / "package.py"
    names: dict[str, Any] = {"__file__": str(path)}
    with _spack(monkeypatch, said):
        exec(compile(path.read_text(), str(path), "exec"), names)
    return names, said


def test_spack_asks_for_what_pyproject_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    names, said = recipe("occatrace", monkeypatch)
    needed = dict(args[0].split("@") for name, args, _ in said if name == "depends_on" and "@" in args[0])
    pythons = [python.short for python in base.PYTHONS]
    assert needed.pop("python") == f"{pythons[0]}:{pythons[-1]}"
    assert needed == {f"py-{name}": spack_range(bounds) for name, bounds in asked().items()}
    assert [args[0] for name, args, _ in said if name == "version"] == [occatrace.__version__]
    assert Path(names["WHEELS"]) == DIST
    # Spack has no package of DuckDB for Python.
    names, own = recipe("py-duckdb", monkeypatch)
    versions = {args[0]: more for name, args, more in own if name == "version"}
    package = names["PyDuckdb"]()
    package.url = f"somewhere/packages/source/d/{package.pypi}"  # as Spack makes it
    for version, more in versions.items():
        tag = version.rpartition("-")[2]
        url = package.url_for_version(version)
        assert url.startswith(f"somewhere/packages/{tag}/d/duckdb/duckdb-{version}-") and url.endswith(".whl")
        assert not more["expand"]
    fits = {more["when"].removeprefix("@"): args[0] for name, args, more in own if name == "depends_on"}
    assert fits.keys() == versions.keys()
    for short in pythons:
        minor = int(short.split(".")[1])
        assert any(
            wanted == f"python@{short}" or (wanted.endswith(":") and minor >= int(wanted[9:-1]))
            for wanted in fits.values()
        ), short


def test_spack_takes_the_newest_wheel_for_its_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, _ = recipe("occatrace", monkeypatch)

    class Version(str):
        """As Spack's: 3.11.2."""

        joined = property(lambda self: self.replace(".", ""))

        def up_to(self, count: int) -> Version:
            return Version(".".join(self.split(".")[:count]))

    class Spec(dict[str, Any]):
        version = "0.1.0"

    package = names["Occatrace"]()
    package.spec = Spec(python=type("Python", (), {"version": Version("3.11.2")}))
    names["WHEELS"] = str(tmp_path)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(Exception, match="no occatrace-0.1.0-cp311-cp311-.*tools/wheel builds it"):
        package.wheel()
    for age, name in enumerate(("cp311-cp311-manylinux_2_31_x86_64", "cp311-cp311-manylinux_2_35_x86_64",
                                "cp312-cp312-manylinux_2_31_x86_64")):  # fmt: skip
        wheel = tmp_path / f"occatrace-0.1.0-{name}.whl"
        wheel.touch()
        os.utime(wheel, (1000 - age, 1000 - age))
    assert package.wheel().endswith("cp311-cp311-manylinux_2_31_x86_64.whl")


def test_conda_asks_for_what_pyproject_asks_for() -> None:
    text = yaml.safe_load((PACKAGING / "conda/recipe.yaml").read_text())
    assert text["context"]["version"] == occatrace.__version__
    run = dict(word.partition(" ")[::2] for word in text["requirements"]["run"])
    assert run.pop("python") == "" and run.pop("__glibc") == f">={base_glibc()}"
    assert run == {{"duckdb": "python-duckdb"}.get(name, name): bounds for name, bounds in asked().items()}


def base_glibc() -> str:
    """The oldest glibc that docs/install.md says the wheels run with."""
    found = re.search(r"glibc ([\d.]+) or later \(`manylinux", (ROOT / "docs/install.md").read_text())
    assert found
    return found[1]


@pytest.mark.parametrize("name", ["docker/Dockerfile", "apptainer/occatrace.def"])
def test_images_take_the_wheel_for_their_python(name: str) -> None:
    text = (PACKAGING / name).read_text()
    (release,) = re.findall(r"debian:(\d+)", text)
    (python,) = set(re.findall(r"occatrace-\*-cp(\d+)-", text))
    assert (release, python) == ("12", "311")  # Debian 12 has Python 3.11
