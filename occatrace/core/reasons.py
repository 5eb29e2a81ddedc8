"""Errors of the system and of DuckDB in words: one line that says what is lacking and what to do."""

from __future__ import annotations

import re
from pathlib import Path

from occatrace.core import disk

LONGEST = 400  # characters of an error of DuckDB, which may hold a whole value


def reason(error: BaseException, tables: Path | None = None) -> str | None:
    """Why something failed; None where it is a fault of ours. `tables`: the folder that was read."""
    if isinstance(error, MemoryError):
        return _too_little_memory("")
    if isinstance(error, ImportError):
        # NumPy says much; what failed comes last.
        text = " ".join(str(error).rpartition("Original error was:")[2].split())
        if re.search("failed to map segment|annot allocate memory", text):
            return _too_little_memory(text)
        return f"occatrace is not installed completely ({text}): `occa_prof doctor` says what is missing"
    if isinstance(error, OSError) and disk.is_full(error):
        return f"{disk.WORDS}: {error}; free some space there, and try again"
    if isinstance(error, OSError):
        what = error.filename or error.filename2
        name = what.decode(errors="replace") if isinstance(what, bytes) else what
        advice = error.strerror or str(error)
        return advice if name is None else f"{name}: {advice}"
    if type(error).__module__ not in ("duckdb", "_duckdb"):
        return None
    return of_duckdb(error, tables)


def of_duckdb(error: BaseException, tables: Path | None = None) -> str:
    """The same of an error of DuckDB, without its own advice, which is for those who can set its options."""
    text = _text(error)
    kind = type(error).__name__
    if reason := _of_system(error):
        return reason
    if kind in ("CatalogException", "BinderException", "ParserException"):
        return f"cannot be made of these tables ({text})"
    return f"a table cannot be read ({text}); remove {tables or '`tables` in the run'} to make the tables again from the trace"


def of_query(error: BaseException) -> str:
    """The same where the query is the user's own."""
    return _of_system(error) or " ".join(str(error).split())


def _of_system(error: BaseException) -> str | None:
    text = _text(error)
    if disk.is_full(error):
        return f"{disk.WORDS}: {text}; free some space there, and try again"
    if type(error).__name__ == "OutOfMemoryException" or "bad_alloc" in text or "Cannot allocate memory" in text:
        return _too_little_memory(text)
    return None


def _text(error: BaseException) -> str:
    """Without the advice that DuckDB adds, and not longer than a few lines of a terminal."""
    text = " ".join(re.split(r"\n\n| You might need to | Candidate functions:", str(error))[0].split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def internal(error: BaseException) -> str:
    """A fault of ours, with the line of the program where it is."""
    place, at = "", error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if "occatrace" in Path(file).parts:
            place = f" ({Path(file).name}:{at.tb_lineno})"
        at = at.tb_next
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{place}; please report it; OCCATRACE_DEBUG=1 shows the traceback"


def _too_little_memory(text: str) -> str:
    return (
        "too little memory or temporary space"
        + (f" ({text})" if text else "")
        + ": raise the limit of memory (ulimit -v), or ask for less (--filter-time takes a part of the run)"
    )
