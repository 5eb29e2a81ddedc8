"""Shims: libraries of ours with a vendor's soname, found before the vendor's, which they need under another name.

Only for vendors' libraries that this system has: a program that looks for an absent driver must find what it would have
found without us, nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from occatrace.run import install, linker


@dataclass(frozen=True)
class Shim:
    """A shim and the vendor's library that it stands before."""

    name: str
    soname: str
    real: str  # the name by which the shim needs the vendor's library

    @property
    def library(self) -> Path:
        """The library of ours."""
        return install.LIB / "shims" / self.name / self.soname


SHIMS = (Shim("cuda", "libcuda.so.1", "libcuda_real.so.1"),)


def environment(
    inherited: Mapping[str, str], folder: Path, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, str]:
    """Variables that put the shims of the vendors' libraries there are, and that are wanted, before them; links are made
    in `folder`."""
    links = folder / "shims"
    made = False
    for shim in SHIMS:
        real = linker.find(shim.soname, inherited) if wanted(shim.name) else None
        if real is None or not shim.library.exists() or real == shim.library.resolve():
            continue
        links.mkdir(mode=0o700, exist_ok=True)
        for name, target in ((shim.soname, shim.library), (shim.real, real)):
            if not (links / name).is_symlink():
                (links / name).symlink_to(target)
        made = True
    if not made:
        return {}
    path = ":".join(filter(None, [str(links), inherited.get("LD_LIBRARY_PATH", "")]))
    return {"LD_LIBRARY_PATH": path}
