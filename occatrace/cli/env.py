"""`occa_prof env`: what a profiled program gets in its environment; to look at, or for an LTTng session of your own."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from occatrace.cli import choice
from occatrace.core import events
from occatrace.record.filters import SAMPLE_STACKS
from occatrace.record.session import program_environment


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Options that change the environment."""
    parser.description = (
        "Print the environment of a profiled program, as lines for a shell.\n"
        "Use it to record into an LTTng session of your own; `occa_prof report` reads its trace:\n\n"
        "  lttng create my-session --output=trace\n"
        "  lttng enable-event --userspace 'occatrace_*'\n"
        "  lttng start\n"
        '  eval "$(occa_prof env)"; ./a.out\n'
        "  lttng destroy\n"
        "  occa_prof report trace"
    )
    parser.add_argument("-m", "--mode", choices=events.MODES, default="default", help="set the recording mode")
    choice.add_trace(parser)
    choice.add_device_time(parser)


def run(args: argparse.Namespace) -> int:
    """Print `export` lines."""
    inherited = choice.with_device_time(os.environ, args.device_time)
    traced, sampled = choice.traced_of(args.trace), bool(inherited.get(SAMPLE_STACKS))
    environment = program_environment(inherited, args.mode, Path("/nonexistent"), traced, sampled)
    for name in sorted(environment):
        if environment[name] != os.environ.get(name):
            print(f"export {name}={shlex.quote(environment[name])};")
    return 0
