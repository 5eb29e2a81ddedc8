"""Where the native parts and LTTng's programs lie, in strings. Imports nothing that takes time: it is needed before anything
else is imported (occatrace/record/keeper.py). `install.py` has the same as paths, and all the rest."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LIB = f"{PACKAGE}/lib"
BUNDLE = f"{PACKAGE}/bundle"  # LTTng's programs and libraries, in a wheel of tools/wheel
SYSTEM_LTTNG = "OCCATRACE_SYSTEM_LTTNG"  # set from --system-lttng

KEEPER = f"{LIB}/occatrace-keeper"
DAEMON_LIBRARY = f"{LIB}/liboccatrace_daemon.so"
CORE_EVENTS = f"{LIB}/liboccatrace_tp_core.so"


def bundled() -> bool:
    """Whether LTTng's programs are those of the wheel: where it brings them, unless the system's are asked for."""
    return os.path.isdir(BUNDLE) and os.environ.get(SYSTEM_LTTNG, "") in ("", "0")


def sessiond() -> str | None:
    """LTTng's session daemon: of OCCATRACE_SESSIOND, of the wheel, of PATH, or where systems put it outside a user's
    PATH."""
    named = os.environ.get("OCCATRACE_SESSIOND")
    if named:
        return named if os.access(named, os.X_OK) else None
    return lttng_tool("lttng-sessiond")


def lttng_tool(name: str) -> str | None:
    """A program of LTTng: of the wheel, of PATH, or where systems put it outside a user's PATH."""
    if bundled():
        return f"{BUNDLE}/bin/{name}"
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in (*folders, "/usr/local/bin", "/usr/bin"):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def daemon_environment(program: str) -> dict[str, str]:
    """What a session daemon has to be told: that of the wheel finds its consumer and its schema nowhere else."""
    if program != f"{BUNDLE}/bin/lttng-sessiond":
        return {}
    return {
        "LTTNG_CONSUMERD64_BIN": f"{BUNDLE}/bin/lttng-consumerd",
        "LTTNG_SESSION_CONFIG_XSD_PATH": f"{BUNDLE}/share",
    }
