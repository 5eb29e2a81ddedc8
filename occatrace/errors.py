"""What goes wrong with runs, as one line for a person."""

from __future__ import annotations


class RunError(Exception):
    """A run cannot be made or opened; one line that says why and what to do."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the user's own lines that led here, none of ours, and the reason."""
        import traceback
        from pathlib import Path

        ours = str(Path(__file__).parent)
        frames = traceback.extract_tb(self.__traceback__)
        # The first lines are those of IPython, which executes the cell.
        cells = [at for at, frame in enumerate(frames) if "IPython" not in Path(frame.filename).parts]
        users = [frame for frame in frames[cells[0] if cells else 0 :] if not frame.filename.startswith(ours)]
        lines = traceback.format_list(users) if len(users) > 1 else []
        return [line.rstrip("\n") for line in (*lines, f"{type(self).__name__}: {self}")]


class ChoiceError(ValueError):
    """A value that cannot be meant; one line that says what could be."""


class SwitchError(Exception):
    """A run cannot be paused or resumed; one line that says why."""


class DaemonError(Exception):
    """The daemon cannot be had; the message says why."""


class StoreError(RunError):
    """The tables of a run cannot be made or opened; the message says why and what to do."""
