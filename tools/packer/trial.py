"""A trial of wheels in fresh roots of Debian releases: as an ordinary user, without compiler, LTTng and Babeltrace."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import DIST, RESULTS, ROOT, base, fail

# The program's own needs (OpenCL), and those of the base's CPythons, which serve where a release has none that is new enough.
PACKAGES = {
    "bullseye": ["libssl1.1", "libffi7", "libbz2-1.0", "liblzma5"],
    "": ["python3", "python3-venv", "libgomp1", "ocl-icd-libopencl1"],
}

# In the root, as an ordinary user: what is asked for, and what came of it. Compared are the demo's own count of its kernel
# calls, and the known number of ranges, by both readers of traces.
TRIAL = """set -eu
cd /tmp
for tool in WITHOUT; do ! command -v $tool || exit 1; done
OCCA=COMMAND
$OCCA doctor > doctor.txt || { cat doctor.txt; exit 1; }
grep -q 'lttng-sessiond: .*LTTNG' doctor.txt || { cat doctor.txt; exit 1; }
$OCCA -o run -l /mnt/home/self-test ranges > /dev/null 2> report.txt || { cat report.txt; exit 1; }
grep -q inner report.txt || { cat doctor.txt report.txt; exit 1; }
test -s run/timeline.pftrace
for decoder in fast babeltrace2; do
    rm -rf run/tables
    OCCATRACE_DECODER=$decoder $OCCA query --format csv run "SELECT count(*) FROM ranges WHERE name = 'inner'" > found
    test "$(tail -n 1 found)" = 10 || { echo "$decoder: $(cat found)"; exit 1; }
done
test -x /opt/demo/bin/demo || exit 0
export OCCA_DIR=/opt/demo/occa OCCA_CACHE_DIR=/tmp/occa POCL_CACHE_DIR=/tmp/pocl OCL_ICD_VENDORS=/opt/demo/pocl/pyopencl/.libs/pocl.icd
export LD_LIBRARY_PATH=/opt/demo/pocl/pyopencl/.libs
cp -r /opt/demo/cache/* /tmp/
$OCCA -o demo -l /opt/demo/bin/demo -m OpenCL -s 4 --truth truth.json > out.txt 2> report.txt \\
    || { cat out.txt report.txt; exit 1; }
grep -q dotProduct report.txt || { cat report.txt; exit 1; }
test -s demo/timeline.pftrace
$OCCA query --format csv demo 'SELECT count(*) FROM kernel_runs' > found
PYTHON -c '
import json, sys
truth = sum(kernel["calls"] for kernel in json.load(open("truth.json"))["kernels"].values())
found = int(open("found").read().split()[-1])
print("kernel calls:", found)
sys.exit(0 if truth == found > 0 else f"the demo made {truth} kernel calls, the run has {found}")
'
"""


COMPILERS = ("gcc", "cc")


OF_THE_WHEEL = " of the wheel"


def script(command: str, python: str, without: Sequence[str] = COMPILERS, lttng: str = OF_THE_WHEEL) -> str:
    """The script of a trial of an occa_prof with its Python, in which these programs are not there, nor those of LTTng where
    the wheel's are expected. `lttng`: what `occa_prof doctor` says of the daemon."""
    tools = ("lttng-sessiond", "lttng-crash") if lttng == OF_THE_WHEEL else ()
    filled = TRIAL.replace("WITHOUT", " ".join((*without, *tools, "babeltrace2"))).replace("LTTNG", lttng)
    return filled.replace("COMMAND", command).replace("PYTHON", python)


def newest(pattern: str) -> Path:
    """The file of build/dist that was made last.

    Raises SystemExit where there is none."""
    found = sorted(DIST.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        raise fail(f"there is no {pattern} in build/dist: tools/wheel builds it")
    return found[-1]


def in_root(
    root: Path, home: Path, *, writable: bool, network: bool, script: str, hidden: Sequence[str | Path] = ()
) -> str:
    """Run a script as an ordinary user in a root of which only /tmp and perhaps the home can be written, with 64 MB of
    /dev/shm and no /run; in place of `hidden` files are empty ones. Returns what it printed.

    Raises SystemExit where it fails."""
    words = ["bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--uid", "1000"]
    words += ["--gid", "1000"]
    words += [] if network else ["--unshare-net"]
    words += ["--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(64 << 20), "--tmpfs", "/dev/shm", "--tmpfs", "/tmp", "--tmpfs", "/mnt"]
    words += ["--bind" if writable else "--ro-bind", str(home), "/mnt/home", "--chdir", "/tmp"]
    if root != Path("/") and (base.BASE / "opt").is_dir():
        words += ["--ro-bind", str(base.BASE / "opt"), "/opt"]
    for path in ("/etc/resolv.conf", "/etc/ssl/certs", "/etc/pip.conf"):
        if Path(path).exists() and network:
            words += ["--ro-bind", path, path] if (root / path[1:]).exists() else []
    words += [word for path in hidden for word in ("--ro-bind", "/dev/null", str(path))]
    words += ["--setenv", "HOME", "/mnt/home", "--setenv", "PATH", "/usr/bin:/bin", "/bin/sh", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise fail(f"{root.name}: failed:\n" + (done.stdout + done.stderr)[-3000:])
    return done.stdout


def interpreters(root: Path, wanted: Sequence[str] | None) -> dict[str, str]:
    """The Pythons of a root by version: its own, or those of the base where its own is older than 3.10."""
    (own,) = [
        path.name.removeprefix("python") for path in (root / "usr/bin").glob("python3.?*") if path.name[-1].isdigit()
    ]
    if tuple(map(int, own.split("."))) >= (3, 10):
        found = {own: f"/usr/bin/python{own}"}
    else:
        found = {entry.short: base.python(entry.short) for entry in base.PYTHONS}
        found = {short: path for short, path in found.items() if (base.BASE / path[1:]).exists()}
    found = {short: path for short, path in found.items() if not wanted or short in wanted}
    if not found:
        raise fail(f"{root.name} has none of these Pythons; its own is {own}")
    return found


def check(release: str, wanted: Sequence[str] | None, mirror: str | None, tarball: Path | None = None) -> None:
    """Install the newest wheels, or unpack a tarball, in a fresh root of a Debian release, and profile programs there.

    Raises SystemExit where something is not as it should be."""
    root = base.PLACE / release
    base.debootstrap(release, root, [*PACKAGES[""], *PACKAGES.get(release, [])], mirror)
    shutil.rmtree(root / "run", ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="wheel-") as made_home:
        home = Path(made_home)
        if base.BASE.is_dir():
            shutil.copy(base.programs(), home / "self-test")
        else:
            source = ROOT / "tests" / "programs" / "annotation" / "own.c"
            words = ["cc", "-O1", f"-I{ROOT / 'include'}", str(source), "-o", str(home / "self-test"), "-lpthread"]
            subprocess.run(words, check=True)
        if tarball:
            setup = f"cd; tar -xzf {tarball.name}; mv {tarball.name.removesuffix('.tar.gz')} moved"
            shutil.copy(tarball, home / tarball.name)
            in_root(root, home, writable=True, network=False, script=setup)
            profile(root, home, "tarball", "/mnt/home/moved/bin/occa_prof", "/mnt/home/moved/python/bin/python3")
            return
        for short, python in interpreters(root, wanted).items():
            wheel = newest(f"occatrace-*-cp{short.replace('.', '')}-*.whl")
            shutil.copy(wheel, home / wheel.name)
            setup = f"cd; {python} -m venv venv{short} && venv{short}/bin/pip install -q ./{wheel.name}"
            in_root(root, home, writable=True, network=True, script=setup)
            place = f"/mnt/home/venv{short}/bin"
            profile(root, home, f"Python {short}", f"{place}/occa_prof", f"{place}/python")


def profile(root: Path, home: Path, what: str, command: str, python: str, lttng: str = OF_THE_WHEEL) -> None:
    """Profile programs with an installed occa_prof, and say how it went. `lttng`: what the doctor says of the daemon.

    Raises SystemExit where something is not as it should be."""
    for writable in (True, False):
        told = in_root(
            root, home, writable=writable, network=False, script=script(command, python, lttng=lttng)
        ).strip()
        kind = "writable" if writable else "read-only"
        print(
            f"{root.name}, {what}: recorded, reported, timeline written{told and '; ' + told};"
            f" {kind} home, no /run, 64 MB of /dev/shm",
            flush=True,
        )
        note(root, what, kind)


def note(root: Path, what: str, home: str) -> None:
    """Add a trial that went well to the results for tools/support, with the release and the C library of the root."""
    facts = dict(re.findall(r'^(NAME|VERSION_ID)="?(.*?)"?$', (root / "etc/os-release").read_text(), re.M))
    library = re.search(
        r"^Package: libc6\n(?:\S.*\n| .*\n)*?Version: ([\d.]+)", (root / "var/lib/dpkg/status").read_text(), re.M
    )
    system = f"{facts['NAME'].removesuffix(' GNU/Linux')} {facts.get('VERSION_ID', '')}, {platform.machine()}"
    part = "Debian packages" if what == "packages" else "tarball" if what == "tarball" else "wheel"
    trial = {
        "part": f"{part}: ordinary user, fresh system",
        "system": f"{system}, glibc {library[1] if library else 'unknown'}",
        "versions": "" if part != "wheel" else what,
        "trial": f"{home} home",
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "wheels.jsonl").open("a") as file:
        file.write(json.dumps(trial) + "\n")
