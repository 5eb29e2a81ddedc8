"""Where `occa_prof` begins: from here on SIGINT, SIGTERM and SIGHUP end it quietly, whatever is being imported.

Imports nothing that takes time before that. What a signal does later is in `occatrace/cli/ending.py`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes some ms
import gc
import sys

from occatrace.core.signals import ENDING, hear, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


def main(started_blocked: bool = False) -> int:
    """The command with the words of this process, and its end. Returns its exit status if other threads still have to end.
    `started_blocked`: by a script of tools/setup, which starts Python with these signals blocked and without `site`: both
    would end in a traceback otherwise."""
    hear(leave)
    if started_blocked:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, ENDING)
    from occatrace.cli import early

    early.begin(sys.argv[1:])
    gc.disable()  # imports make little that is garbage, and take a tenth less
    if sys.flags.no_site:
        import site

        site.main()
    from occatrace.cli import dispatch

    try:
        status = dispatch.main()
    except SystemExit as ended:  # of argparse
        status = ended.code if isinstance(ended.code, int) else 0
    early.end()
    from occatrace.cli.ending import settle

    return _end(settle(status))


def _end(status: int) -> int:
    """End this process without taking its objects and libraries apart, which takes 20 ms and more. What was registered for
    the end of the interpreter is called; threads that must end first are left to the interpreter. The one that imports the
    analysis need not: nothing is taken apart below it."""
    if "threading" in sys.modules:
        import threading

        main_thread = threading.main_thread()
        if any(not t.daemon and t is not main_thread and t.name != "load" for t in threading.enumerate()):
            return status
    import atexit
    import posix

    atexit._run_exitfuncs()
    posix._exit(status & 255)
