"""A cluster on this machine: nodes are namespaces with a hostname, network, processes, /dev/shm, /run, /tmp and CLOCK_MONOTONIC
of their own, and share one folder by a FUSE file system of each node that behaves like NFS: locks hold within a node only, and
what another node wrote is seen late. Needs root, bindfs and the right to make namespaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.runs import PATIENCE, ROOT

LATE_S = 3  # as long as NFS keeps attributes and the absence of a file by default
SHARED = Path("/mnt/shared")  # on each node

HEAD = """
hostname head
ip link set lo up
ip link add name bridge0 type bridge
ip address add 10.77.255.254/16 dev bridge0
ip link set bridge0 up
mount --make-rprivate /
mount --bind "$1/hosts" /etc/hosts
touch "$1/head.ready"
exec sleep infinity
"""
# /tmp is its own, too: the clone may lie there, and so does what the nodes share.
NODE = """
set -e
hostname "$2"
ip link set lo up
for path in /run /dev/shm /mnt; do mount -t tmpfs -o mode=1777 none $path; done
mkdir /mnt/shared /mnt/clone
bindfs -o attr_timeout=$4,entry_timeout=$4,negative_timeout=$4 "$1/shared" /mnt/shared
mount --bind "$3" /mnt/clone
touch "$1/$2.ready"
mount -t tmpfs -o mode=1777 none /tmp
case $3 in /tmp/*) mkdir -p "$3"; mount --bind /mnt/clone "$3" ;; esac
sleep infinity # this shell stays: the first process has to wait for those that lost their parents
"""
# In place of ssh: [-x] NODE COMMAND
REMOTE = """#!/bin/sh
[ "$1" != -x ] || shift
node=$1
shift
exec nsenter -t "$(cat "{folder}/$node.process")" -u -n -i -m -p -T --wd=/ sh -c "cd {shared}; exec $*"
"""


@dataclass(frozen=True)
class Nodes:
    """Running nodes."""

    folder: Path
    names: tuple[str, ...]
    ahead_ns: dict[str, int]  # CLOCK_MONOTONIC, against the first node
    head: int

    @property
    def shared(self) -> Path:
        """The shared folder as this machine sees it."""
        return self.folder / "shared"

    def mpirun(
        self, each: int, *command: object, launcher: str, timeout: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """A job of MPICH with so many ranks on each node, in the shared folder; this side is none of the nodes."""
        hosts = ",".join(f"{name}:{each}" for name in self.names)
        words = ["nsenter", "-t", str(self.head), "-u", "-n", "-m", f"--wd={self.folder}"]
        words += [launcher, "-launcher", "ssh", "-launcher-exec", str(self.folder / "remote"), "-hosts", hosts]
        words += ["-wdir", str(SHARED), "-n", str(each * len(self.names)), *map(str, command)]
        kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "LTTNG_HOME", "XDG_RUNTIME_DIR", "TMPDIR")}
        kept |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(words, env=kept, text=True, capture_output=True, timeout=timeout, check=False)

    def on(self, node: str, script: str) -> str:
        """What a shell script prints on a node."""
        words = [str(self.folder / "remote"), node, script]
        return subprocess.run(words, text=True, capture_output=True, timeout=PATIENCE, check=True).stdout


def missing() -> str:
    """What is not here of what nodes need; empty if all is."""
    if os.geteuid() != 0:
        return "nodes as namespaces need root"
    tools = [name for name in ("bindfs", "ip", "nsenter") if not shutil.which(name)]
    if tools:
        return f"not installed: {', '.join(tools)}"
    if not Path("/dev/fuse").exists():
        return "no FUSE on this system"
    words = ["unshare", "--net", "--uts", "--mount", "--ipc", "--pid", "--time", "--fork", "--monotonic", "1"]
    words += ["ip", "link", "add", "name", "bridge0", "type", "bridge"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"no namespaces or bridges: {done.stderr.strip()}" if done.returncode else ""


def _child(process: subprocess.Popen[bytes]) -> int:
    """The only child of a process that has just been started."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    _until(lambda: bool(path.read_text().split()), f"{process.args!r} has started nothing")
    return int(path.read_text().split()[0])


def _until(state: object, complaint: str) -> None:
    end = time.monotonic() + PATIENCE
    while not state():  # type: ignore[operator]
        assert time.monotonic() < end, complaint
        time.sleep(0.02)


@contextlib.contextmanager
def nodes(folder: Path, count: int, late_s: float = LATE_S) -> Iterator[Nodes]:
    """So many nodes for a while; `folder` is empty. The clock of each is 1000 s ahead of the one before."""
    names = tuple(f"node{number}" for number in range(count))
    (folder / "shared").mkdir()
    (folder / "shared").chmod(0o1777)
    addresses = {name: f"10.77.0.{number + 1}" for number, name in enumerate(names)} | {"head": "10.77.255.254"}
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {name}\n" for name, a in addresses.items()))
    remote = folder / "remote"
    remote.write_text(REMOTE.format(folder=folder, shared=SHARED))
    remote.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, words: list[str]) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("wb") as log:
            ended_with_us = ["setpriv", "--pdeathsig", "KILL", *words]
            started.append(subprocess.Popen(ended_with_us, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return started[-1]

    try:
        head = start("head", ["unshare", "--net", "--uts", "--mount", "sh", "-ec", HEAD, "sh", str(folder)]).pid
        _until((folder / "head.ready").exists, (folder / "head.log").read_text())
        for number, name in enumerate(names):
            words = [
                "nsenter",
                "-t",
                str(head),
                "-n",
                "-m",
                "--",
                "unshare",
                "--net",
                "--uts",
                "--mount",
                "--ipc",
                "--pid",
            ]
            words += ["--time", "--monotonic", str(1000 * number), "--boottime", str(1000 * number)]
            words += ["--mount-proc", "--fork", "--kill-child", "sh", "-c", NODE, "sh", str(folder), name, str(ROOT)]
            node = _child(start(name, [*words, str(late_s)]))
            (folder / f"{name}.process").write_text(str(node))
            of_head = ["nsenter", "-t", str(head), "-n", "ip", "link"]
            link = f"v{number}"
            subprocess.run(
                [*of_head, "add", "name", link, "type", "veth", "peer", "name", "eth0", "netns", str(node)], check=True
            )
            subprocess.run([*of_head, "set", link, "master", "bridge0", "up"], check=True)
            of_node = ["nsenter", "-t", str(node), "-n", "ip"]
            subprocess.run([*of_node, "address", "add", f"{addresses[name]}/16", "dev", "eth0"], check=True)
            subprocess.run([*of_node, "link", "set", "eth0", "up"], check=True)
        for name in names:
            _until((folder / f"{name}.ready").exists, (folder / f"{name}.log").read_text())
        yield Nodes(folder, names, {name: 1000 * 10**9 * number for number, name in enumerate(names)}, head)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()
