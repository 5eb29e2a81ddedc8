"""Where `occa_prof` begins: from here on SIGINT, SIGTERM and SIGHUP end it quietly, whatever is being imported.

Imports nothing that takes time before that. What a signal does later is in `occatrace/cli/ending.py`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes some ms
import sys

from occatrace.core.signals import ENDING, hear, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


def main(started_blocked: bool = False) -> int:
    """The command with the words of this process; returns its exit status. `started_blocked`: by a script of tools/setup,
    which starts Python with these signals blocked and without `site`: both would end in a traceback otherwise."""
    hear(leave)
    if started_blocked:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, ENDING)
    if sys.flags.no_site:
        import site

        site.main()
    from occatrace.cli import dispatch

    try:
        status = dispatch.main()
    except SystemExit as ended:  # of argparse
        status = ended.code if isinstance(ended.code, int) else 0
    from occatrace.cli.ending import settle

    return settle(status)
