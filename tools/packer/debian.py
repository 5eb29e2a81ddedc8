"""Debian packages by dpkg-buildpackage, from a source package whose parts are made here, and a trial of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from . import CACHE, ROOT, base, fail, logged, output, system_tools, trial

PLACE = CACHE / "deb"
LOGS = PLACE / "logs"
LEFT_OUT = ("tests/", "docs/notebooks/", ".ci/")  # of the sources: nothing of it is built or installed
PACKAGES = ("occatrace", "python3-occatrace", "occatrace-duckdb")


def version() -> str:
    """The version of occatrace.

    Raises SystemExit where the changelog of the packaging has another."""
    (own,) = re.findall(r'^__version__ = "(.*)"', (ROOT / "occatrace/__init__.py").read_text(), re.MULTILINE)
    head = (ROOT / "packaging/debian/changelog").read_text().split("\n", 1)[0]
    if f"({own}-" not in head:
        raise fail(f"packaging/debian/changelog begins with {head!r}, and occatrace has version {own}")
    return str(own)


def archive(path: Path, top: str, files: dict[str, Path]) -> None:
    """A compressed archive of files by name, below one folder; of root's, as releases are."""

    def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info

    with tarfile.open(path, "w:gz") as into:
        for name, file in sorted(files.items()):
            into.add(file, f"{top}/{name}", recursive=False, filter=anonymous)


def wheel_of_duckdb(folder: Path) -> Path:
    """DuckDB's wheel for the system's Python, from the package registry.

    Raises SystemExit where it cannot be had."""
    text = (ROOT / "pyproject.toml").read_text()
    (wanted,) = re.findall(r'"(duckdb[^"]*)"', text.split("[project.optional-dependencies]")[0])
    python = output("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
    ]
    logged("getting DuckDB's wheel", LOGS / "duckdb.log", [*words, "--python-version", python, wanted])
    (wheel,) = folder.glob("duckdb-*.whl")
    return wheel


def source(to: Path) -> Path:
    """The source package's tree with its archives next to it, in a folder; returns the tree.

    Raises SystemExit."""
    name = f"occatrace-{version()}"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    listed = output("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    files = {file: ROOT / file for file in listed if file and not file.startswith(LEFT_OUT) and (ROOT / file).is_file()}
    main = to / f"occatrace_{version()}.orig.tar.gz"
    archive(main, name, files)
    with tempfile.TemporaryDirectory(prefix="deb-") as scratch:
        wheel = wheel_of_duckdb(Path(scratch))
        second = to / f"occatrace_{version()}.orig-duckdb.tar.gz"
        archive(second, "duckdb", {wheel.name: wheel})
    for packed, where in ((main, to), (second, to / name)):
        subprocess.run(["tar", "-xzf", str(packed), "-C", str(where)], check=True)
    shutil.copytree(ROOT / "packaging" / "debian", to / name / "debian")
    if address := os.environ.get("DEBEMAIL"):
        # As for Debian's own tools; the address in the files is a placeholder.
        maintainer = f"{os.environ.get('DEBFULLNAME') or 'The occatrace authors'} <{address}>"
        for file in (to / name / "debian" / "control", to / name / "debian" / "changelog"):
            file.write_text(re.sub(r"The occatrace authors <[^>]*>", lambda _: maintainer, file.read_text()))
    return to / name


def make(to: Path, jobs: int) -> list[Path]:
    """Build the packages on this system, print what lintian says, and put them into a folder; returns their paths.

    Raises SystemExit where something is missing."""
    system_tools("dpkg-buildpackage=dpkg-dev", "lintian", "dh=debhelper")
    tree = source(PLACE / "build")
    missing = subprocess.run(["dpkg-checkbuilddeps"], cwd=tree, capture_output=True, text=True, check=False)
    if missing.returncode:
        command = ["apt-get", "build-dep", "-y", "--no-install-recommends", str(tree)]
        if os.getuid():
            raise fail(f"{missing.stderr.strip()}: {' '.join(command)}, as root")
        logged("installing what the build needs", LOGS / "build-dep.log", command)
    # Nothing is to be had of the network meanwhile, where a namespace without one can be made.
    alone = ["unshare", "--net"] if not os.getuid() else []
    words = [*alone, "dpkg-buildpackage", "-us", "-uc", f"-j{jobs}"]
    logged("building the packages", LOGS / "build.log", words, cwd=tree)
    changes = next((PLACE / "build").glob("*.changes"))
    words = ["lintian", "--no-cfg", *(["--allow-root"] if not os.getuid() else []), str(changes)]
    subprocess.run(words, check=False)
    to.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(path, to / path.name)) for path in sorted((PLACE / "build").glob("*.deb"))]


def check(release: str, packages: list[Path], mirror: str | None) -> None:
    """Install packages in a fresh root of a Debian release, and profile a program there as an ordinary user.

    Raises SystemExit where something is not as it should be."""
    root = PLACE / release
    base.debootstrap(release, root, [], mirror)
    with tempfile.TemporaryDirectory(prefix="deb-") as made_home:
        home = Path(made_home)
        for path in packages:
            shutil.copy(path, root / "tmp" / path.name)
        install = ["apt-get", "install", "-y", "--no-install-recommends", "--allow-downgrades", "--reinstall"]
        words = ["chroot", str(root), *install, *(f"/tmp/{path.name}" for path in packages)]
        logged(
            f"installing them in {release}",
            LOGS / "install.log",
            words,
            os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        )
        shutil.rmtree(root / "run", ignore_errors=True)
        program = ROOT / "tests" / "programs" / "annotation" / "own.c"
        words = ["cc", "-O1", f"-I{root / 'usr/include'}", str(program), "-o", str(home / "self-test"), "-lpthread"]
        subprocess.run(words, check=True)
        trial.profile(root, home, "packages", "occa_prof", "python3", lttng="/usr/bin/lttng-sessiond")
