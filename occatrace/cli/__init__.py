"""The command `occa_prof`: one module per subcommand, each with `prepare_parser` and `run`."""

from occatrace.cli.dispatch import main

__all__ = ["main"]
