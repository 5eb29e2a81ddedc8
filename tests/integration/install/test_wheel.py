"""A wheel, packed from what is built here, works where nothing of this system's LTTng and Babeltrace is left."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
from packer import trial  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")


def hidden() -> Iterator[Path]:
    """What the wheel must do without: the programs and libraries of LTTng, liburcu and Babeltrace of this system."""
    for name in ("lttng", "lttng-sessiond", "lttng-crash", "babeltrace2"):
        if path := shutil.which(name):
            yield Path(path).resolve()
    for folder in Path("/usr/lib").glob("*-linux-gnu"):
        for pattern in ("liblttng-*.so.*", "liburcu*.so.*", "libbabeltrace2*.so.*", "lttng/libexec/*"):
            yield from (path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink())


def test_a_wheel_brings_all_that_it_needs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    packed = subprocess.run(
        [sys.executable, ROOT / "tools" / "wheel", "--here", "-o", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert packed.returncode == 0, packed.stdout + packed.stderr
    (wheel,) = tmp_path.glob("occatrace-*-manylinux_*.whl")
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        home / "site",
        wheel,
    ]
    subprocess.run(pip, check=True)
    source = ROOT / "tests" / "programs" / "annotation" / "own.c"
    subprocess.run(["cc", "-O1", f"-I{ROOT / 'include'}", source, "-o", home / "self-test", "-lpthread"], check=True)
    command = home / "occa_prof"
    # The wheel's package goes before the clone's, which this Python knows, too.
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, '/mnt/home/site')\n"
        "from occatrace.entry import main\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    gone = list(hidden())
    assert any("lttng-sessiond" in path.name for path in gone)
    script = trial.script("/mnt/home/occa_prof", sys.executable, without=())
    trial.in_root(Path("/"), home, writable=False, network=False, script=script, hidden=gone)
