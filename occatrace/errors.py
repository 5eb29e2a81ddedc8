"""What goes wrong with runs, as one line for a person."""

from __future__ import annotations


class RunError(Exception):
    """A run cannot be made or opened; one line that says why and what to do."""


class ChoiceError(ValueError):
    """A value that cannot be meant; one line that says what could be."""


class SwitchError(Exception):
    """A run cannot be paused or resumed; one line that says why."""


class DaemonError(Exception):
    """The daemon cannot be had; the message says why."""


class StoreError(RunError):
    """The tables of a run cannot be made or opened; the message says why and what to do."""
