"""tools/gpu_check: what it packs works in a root of its own, where there is neither LTTng nor Python nor a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs import PATIENCE
from tests.support.suites.cuda import driver

__all__ = ["driver"]

ROOT = Path(__file__).resolve().parents[3]
# What every machine has; the script of the package uses no more.
TOOLS = ("sh", "dirname", "mktemp", "tail", "cat", "rm")
ENTER = """
mount --make-rprivate / && mount -t proc proc "$1/proc" && mount -t tmpfs none "$1/dev" && mkdir "$1/dev/shm" &&
for device in null urandom; do touch "$1/dev/$device" && mount --bind "/dev/$device" "$1/dev/$device" || exit; done &&
mount -t tmpfs none "$1/run" &&
chroot "$1" /gpu_check/run --self-test &&
LD_LIBRARY_PATH=/driver exec chroot "$1" /gpu_check/run --gpu-test -q -k "own_events and events or static or python"
"""


def copy_with_libraries(program: Path, root: Path) -> None:
    """A program into another root, with its libraries where the loader finds them."""
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    for path in [str(program), *re.findall(r"(/\S+) \(0x", told)]:
        to = root / path.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            shutil.copy(path, to)


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_works_where_there_is_nothing(tmp_path: Path, driver: Path) -> None:
    root = tmp_path / "root"
    for folder in ("proc", "dev", "run", "tmp", "bin", "etc", "var"):
        (root / folder).mkdir(parents=True)
    (root / "var" / "run").symlink_to("/run")
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/tmp:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\n")
    if subprocess.run(["unshare", "-m", "--net", "true"], check=False).returncode != 0:
        pytest.skip("no namespaces here")
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        copy_with_libraries(Path(found), root)
        if not (root / "bin" / tool).exists():
            shutil.copy(found, root / "bin" / tool)
    # The C library in all its parts and the compilers' own, as every machine has them.
    libc = next(root.rglob("libc.so.6"))
    for part in (
        "libm.so.6",
        "libdl.so.2",
        "libpthread.so.0",
        "librt.so.1",
        "libutil.so.1",
        "libresolv.so.2",
        "libstdc++.so.6",
        "libgcc_s.so.1",
    ):
        real = Path("/") / libc.parent.relative_to(root) / part
        if real.exists():
            shutil.copy(real, libc.parent / part)
    subprocess.run([sys.executable, str(ROOT / "tools" / "gpu_check"), "--folder", str(root / "gpu_check")], check=True)
    shutil.copytree(driver, root / "driver", ignore=lambda _, names: [name for name in names if "libcuda" not in name])
    done = subprocess.run(
        ["unshare", "-m", "--net", "sh", "-c", ENTER, "sh", str(root)],
        capture_output=True,
        text=True,
        env={"PATH": "/bin:/usr/bin:/usr/sbin:/sbin"},
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "self-test passed: 10 of 10 ranges recorded"
    # Known answers on the stand-in driver, by events and (which falls back) by CUPTI; its kernels are no machine code. Level Zero
    # has no device.
    assert lines[-1].startswith("2 passed, 5 skipped"), done.stdout
