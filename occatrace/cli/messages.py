"""Messages of the command line: errors as one line for the user, and the exit status that they lead to."""

from __future__ import annotations

import contextlib
import sys

from occatrace.core.checked import message
from occatrace.errors import RunError

INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h


class UsageError(Exception):
    """A wrong command line; one line that says what to do."""


class OutputError(OSError):
    """Standard output cannot be written."""


def words_of(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit status."""
    if isinstance(error, (UsageError, RunError)):
        return str(error), 2
    if isinstance(error, ImportError):
        from occatrace.run import install

        if unsuitable := install.unsuitable():
            return unsuitable, 2
    if isinstance(error, OutputError):
        return f"cannot write to standard output: {error.strerror}", 2
    from occatrace.core import reasons

    reason = reasons.reason(error)
    if reason is not None:
        return reason, 2
    return f"internal error: {reasons.internal(error)}", INTERNAL_ERROR


def complain(text: str) -> None:
    """One line for the user on standard error."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):  # the terminal may have gone
        print(f"occa_prof: {chr(10).join(map(message, text.split(chr(10))))}", file=sys.stderr, flush=True)
