"""The template of a backend: what tools/new_api makes is generated, compiled, loaded, and its calls are in the report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import occatrace
from tests.support.runs import ROOT

PACKAGE = Path(occatrace.__file__).parent
NEW_API = ROOT / "tools/new_api"


def command(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def flags(package: str) -> list[str]:
    return command("pkg-config", "--cflags", "--libs", package).split()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model of this repository and a new API."""
    folder = tmp_path_factory.mktemp("api")
    shutil.copytree(ROOT / "tracepoints", folder / "tracepoints")
    files = command(sys.executable, NEW_API, "demo", "--into", folder).split()
    assert len(files) <= 10
    assert all((folder / file).exists() for file in files)
    return folder


def with_api(made: Path) -> Path:
    """A copy of the package that knows the API; of the libraries, those that are built of the model."""
    generated = made / "generated"
    command(sys.executable, ROOT / "tools/generate.py", "--model", made / "tracepoints", "--output", generated)
    (generated / "native/ranks.h").write_text(command(sys.executable, "-m", "occatrace.run.ranks"))
    lib = made / "site/occatrace/lib"
    shutil.copytree(PACKAGE, lib.parent, ignore=shutil.ignore_patterns("lib", "_model.json", "__pycache__"))
    lib.mkdir()
    for path in (PACKAGE / "lib").iterdir():
        if path.name != "liboccatrace.so":
            (lib / path.name).symlink_to(path)
    shutil.copy(generated / "occatrace/_model.json", lib.parent)
    includes = [
        f"-I{folder}"
        for folder in (generated / "native", ROOT / "native/emit", ROOT / "native/device", ROOT / "include")
    ]
    shared = ["-shared", "-fPIC", "-fvisibility=hidden", *includes]
    core = [*sorted((ROOT / "native/emit").glob("*.c")), generated / "native/trampolines.c"]
    version = f'-DOCCATRACE_VERSION="{occatrace.__version__}"'
    options = [version, "-fexceptions", "-fno-plt", "-lpthread", "-ldl", "-Wl,-z,now"]
    command("gcc", "-std=gnu11", "-O1", *shared, *core, "-o", lib / "liboccatrace.so", *options)
    provider = generated / "native/provider_demo.c"
    command("gcc", "-O0", *shared, provider, "-o", lib / "liboccatrace_tp_demo.so", *flags("lttng-ust"), "-ldl")
    backend = made / "native/intercept/demo/demo.cpp"
    link = [f"-L{lib}", "-loccatrace", "-Wl,-rpath,$ORIGIN"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    command("g++", "-std=c++17", "-O0", *warnings, *shared, backend, "-o", lib / "liboccatrace_demo.so", *link)
    return lib.parent.parent


def test_a_backend_from_the_template(made: Path, tmp_path: Path) -> None:
    site = with_api(made)
    # The test of the API itself, in a tree of its own.
    for name in ("__init__.py", "conftest.py"):
        if (ROOT / "tests" / name).exists():
            shutil.copy(ROOT / "tests" / name, made / "tests" / name)
    (made / "tests/support").symlink_to(ROOT / "tests/support")
    (made / "tests/integration/__init__.py").touch()
    path = os.pathsep.join([str(site), str(made), sysconfig.get_paths()["purelib"]])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    test = made / "tests/integration/demo/test_demo.py"
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        f"--rootdir={made}",
        f"--basetemp={tmp_path / 'inner'}",
        str(test),
    ]
    done = subprocess.run(words, cwd=made, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_name_is_checked(made: Path) -> None:
    for name, message in (("1x", "expected lower case letters"), ("demo", "exists")):
        words: list[str | Path] = [sys.executable, NEW_API, name, "--into", made]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and message in done.stderr
