"""A tarball of a wheel with a CPython: for module systems, and for systems without a new enough Python. It may lie anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from . import base, fail

# What no program of ours imports, and what would only build others.
LEFT_OUT = "__pycache__ site-packages config-* idlelib lib2to3 tkinter turtledemo ensurepip test pydoc_data"
COMMAND = """#!/bin/sh
here=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
exec "$here/python/bin/python3" -I "$here/python/bin/occa_prof.py" "$@"
"""
START = "import sys\n\nfrom occatrace.entry import main\n\nsys.exit(main())\n"
SCRIPT = """
top=/tarball/NAME; python=$top/python; lib=$python/lib/pythonMAIN; site=$lib/site-packages
rm -rf /tarball; mkdir -p $python/bin $site $top/bin $top/share $top/modulefiles/occatrace
cp /opt/pythonMAIN/bin/pythonMAIN $python/bin/; ln -s pythonMAIN $python/bin/python3
tar -C /opt/pythonMAIN/lib/pythonMAIN EXCLUDED -cf - . | tar -C $lib -xf -
export PATH=/opt/pythonMAIN/bin:$PATH
pip() { /opt/pythonMAIN/bin/pythonMAIN -m pip "$@"; }
pip install -q --target $site WHEEL
rm -rf $site/bin
# Programs may run other Pythons: annotations in them need a module of theirs.
cp -n /TREE/occatrace/_annotate.cpython-3*.so $site/occatrace/
ln -s ../python/lib/pythonMAIN/site-packages/occatrace/man $top/share/man
ln -s python/lib/pythonMAIN/site-packages/occatrace/include $top/include
mkdir -p $top/licenses
cp /TREE/LICENSE $top/licenses/; cp /opt/pythonMAIN/lib/pythonMAIN/LICENSE.txt $top/licenses/python.txt
for module in $lib/lib-dynload/*.so; do
    for library in $(ldd $module | sed -n 's/.* => \\(.*lib\\(ssl\\|crypto\\|ffi\\|bz2\\|lzma\\|z\\|uuid\\)[.].*\\) (.*/\\1/p'); do
        cp -nL $library $python/lib/
        package=$(dpkg -S $library 2> /dev/null || dpkg -S /usr$library || true)
        package=${package%%:*}
        [ -z "$package" ] || cp /usr/share/doc/$package/copyright $top/licenses/$package.txt
    done
    patchelf --set-rpath '$ORIGIN/../..' $module
done
strip --strip-unneeded $python/bin/pythonMAIN $lib/lib-dynload/*.so
cp /TREE/packaging/modules/occatrace.lua $top/modulefiles/occatrace/VERSION.lua
cp /TREE/packaging/modules/occatrace.tcl $top/modulefiles/occatrace/VERSION
$python/bin/python3 -I -m compileall -q -j0 --invalidation-mode unchecked-hash $lib || true
"""


def make(to: Path, wheels: Sequence[Path]) -> Path:
    """The tarball of the wheel for the base's main Python; returns its path.

    Raises SystemExit."""
    main = base.MAIN
    wheel = next((path for path in wheels if f"-cp{main.replace('.', '')}-" in path.name), None)
    if wheel is None:
        raise fail(f"a tarball needs the wheel for Python {main}: tools/wheel --python {main} --tarball")
    version = wheel.name.split("-")[1]
    name = f"occatrace-{version}-linux-x86_64"
    excluded = " ".join(f"--exclude='./{pattern}' --exclude='*/{pattern}'" for pattern in LEFT_OUT.split())
    shutil.copy(wheel, base.BASE / "tmp" / wheel.name)
    script = SCRIPT.replace("EXCLUDED", excluded).replace("WHEEL", f"/tmp/{wheel.name}").replace("NAME", name)
    script = script.replace("MAIN", main).replace("TREE", base.TREE).replace("VERSION", version)
    base.inside("making the tarball", "tarball", script)
    top = base.BASE / "tarball" / name
    (top / "bin" / "occa_prof").write_text(COMMAND)
    (top / "bin" / "occa_prof").chmod(0o755)
    (top / "python" / "bin" / "occa_prof.py").write_text(START)
    base.inside("packing the tarball", "tarball-pack", f"cd /tarball; tar -czf /tarball/{name}.tar.gz {name}")
    to.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(base.BASE / "tarball" / f"{name}.tar.gz", to / f"{name}.tar.gz"))
