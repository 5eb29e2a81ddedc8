"""A cluster of two nodes under a real Slurm: each node has a hostname, /run and /dev/shm of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.runs import PATIENCE, ROOT

PROGRAMS = ROOT / "tests" / "programs" / "slurm"
NODES = ("node1", "node2")
# Seconds between SIGTERM and SIGKILL. Slurm's default is 30.
KILL_WAIT = 20

CONFIGURATION = """
ClusterName=occatrace
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldPort={ports[0]}
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerParameters=sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
KillWait={kill_wait}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=node1 NodeHostname=node1 NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName=node2 NodeHostname=node2 NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=all Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


@dataclass(frozen=True)
class Cluster:
    """A running Slurm, and a folder for the output of its jobs."""

    environment: dict[str, str]
    folder: Path

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """A command that ends by itself."""
        return subprocess.run(
            [str(word) for word in words],
            env=self.environment,
            cwd=self.folder,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )

    def submit(self, script: str, *options: object) -> str:
        """The number of a batch job."""
        done = self.run("sbatch", "--parsable", *options, "--wrap", script)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def wait_for(self, text: str, file: Path, times: int = 1) -> None:
        """Until a job's output has a text so many times."""
        end = time.monotonic() + PATIENCE
        while not file.exists() or file.read_text(encoding="utf-8").count(text) < times:
            assert time.monotonic() < end, self.run("squeue").stdout
            time.sleep(0.05)

    def wait_until_ended(self, job: str) -> None:
        """Until no process of the job is left on any node."""
        end = time.monotonic() + PATIENCE
        while self.run("squeue", "-h", "-j", job).stdout.strip():
            assert time.monotonic() < end, self.run("squeue").stdout
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of somebody who uses the cluster."""
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root")
    missing = [name for name in ("munged", "slurmctld", "slurmd", "mpicc.mpich") if not shutil.which(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("slurm")
    for part in (folder.parent.parent, folder.parent, folder):  # munged insists that others may look for its socket
        part.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(64))
    key.chmod(0o400)
    conf = folder / "slurm.conf"
    conf.write_text(CONFIGURATION.format(folder=folder, ports=_free_ports(3), kill_wait=KILL_WAIT), encoding="utf-8")
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    node = "hostname {}; mount -t tmpfs none /run; mount -t tmpfs -o mode=1777 none /dev/shm; exec slurmd -D -N {}"
    commands = [
        ["munged", "--force", "--foreground", f"--socket={folder}/munge.socket", *files],
        ["slurmctld", "-D"],
        *(["unshare", "--uts", "--mount", "sh", "-c", node.format(name, name)] for name in NODES),
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            quiet = subprocess.DEVNULL
            daemons.append(subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet))
            end = time.monotonic() + PATIENCE
            while command[0] == "munged" and not (folder / "munge.socket").exists() and time.monotonic() < end:
                time.sleep(0.02)
        end = time.monotonic() + PATIENCE
        while True:
            shown = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=environment, text=True, capture_output=True)
            if shown.stdout.split() == ["idle"] * len(NODES):
                break
            logs = "".join(log.read_text(encoding="utf-8", errors="replace")[-500:] for log in folder.glob("*.log"))
            assert time.monotonic() < end, shown.stdout + shown.stderr + logs
            time.sleep(0.1)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()


@pytest.fixture
def cluster(slurm: dict[str, str], tmp_path: Path) -> Cluster:
    return Cluster(slurm, tmp_path)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of tests/programs/slurm: `marks` without MPI, `ring` with MPICH."""
    out = tmp_path_factory.mktemp("slurm-programs")
    subprocess.run(["gcc", "-O1", "-I", ROOT / "include", "-o", out / "marks", PROGRAMS / "marks.c"], check=True)
    subprocess.run(["mpicc.mpich", "-O1", "-o", out / "ring", PROGRAMS / "ring.c"], check=True)
    return out
