"""`occa_prof flamegraph RUN`: host time by nesting of calls, for viewers of flame graphs."""

from __future__ import annotations

import argparse
from pathlib import Path

from occatrace.cli.dispatch import UsageError
from occatrace.cli.timeline import check_output
from occatrace.run import open_run

EPILOG = """\
FILE.speedscope.json opens at https://www.speedscope.app (it stays on your machine); FILE.folded is for flamegraph.pl,
inferno and the like. Times are ns of host time: OCCA calls, in them the backend's calls, all threads of a process together.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.epilog = EPILOG
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="where to write (default: RUN/flamegraph.speedscope.json)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    import duckdb

    from occatrace import flamegraph
    from occatrace.tables import StoreError, open_store
    from occatrace.timeline import Options

    folder = open_run(args.run)
    output: Path = args.output or folder.path / "flamegraph.speedscope.json"
    write = {".json": flamegraph.speedscope, ".folded": flamegraph.folded}.get(output.suffix)
    if write is None:
        raise UsageError(f"{output}: name it .speedscope.json or .folded, which tells the format")
    check_output(output, args.force)
    try:
        with open_store(folder.path) as store:
            found = flamegraph.stacks(store, Options(counters=False))
        output.touch(mode=0o600)
        with output.open("w", encoding="utf-8", errors="replace") as out:
            write(found, out)
    except StoreError as error:
        raise UsageError(str(error)) from None
    except duckdb.Error as error:
        raise UsageError(f"{folder.path}: no flame graph can be made: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror or error})") from None
    count = sum(len(tree.names) for tree in found)
    where = " (open it at https://www.speedscope.app)" if output.suffix == ".json" else ""
    print(f"{output}: {count:,} stacks of {len(found)} process{'es' if len(found) != 1 else ''}{where}")
    return 0
