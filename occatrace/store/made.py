"""tables.json: by which version the tables of a run were made, and from what."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from occatrace.core import checked
from occatrace.errors import StoreError


@dataclass(frozen=True)
class Made:
    """tables.json: who made the tables, and what was wrong with the trace."""

    schema: int
    version: str | None = None
    problems: tuple[str, ...] = ()
    streamed: bool = False  # these tables cannot be made again

    @property
    def maker(self) -> str:
        """For messages."""
        return f"occatrace {self.version}" if self.version else "an occatrace that does not say its version"


def read_made(path: Path) -> Made | None:
    """Of a folder of tables; None where there are none. Raises a StoreError, also for what is no file among the tables."""
    try:
        made = checked.load(Made, path / "tables.json")
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise StoreError(f"{path} is a file, where the tables of the run should be: remove it") from None
    except (OSError, checked.Damaged) as error:
        raise StoreError(f"{path}: tables.json is damaged ({error}); remove {path} to make the tables again") from error
    check_files(path, f"; remove {path} to make the tables again from the trace")
    return made


def check_files(folder: Path, then: str = "") -> None:
    """Raise a StoreError, which says what to do `then`, if a pipe or the like stands in a folder for a table: DuckDB would wait
    for it."""
    for file in folder.glob("*.parquet"):
        if not os.path.isfile(file):  # Path.is_file raises where a link leads to another user's folder
            raise StoreError(f"{file} is not a file{then}")


def write_made(path: Path, made: Made) -> None:
    """For the tables in a new folder, which are for its owner only."""
    said = {name: value for name, value in vars(made).items() if name != "streamed" or value}
    (path / "tables.json").write_text(json.dumps(said, indent=1), encoding="utf-8")
    with contextlib.suppress(PermissionError):  # a file system without modes
        for file in path.iterdir():
            file.chmod(0o600 if file.is_file() else 0o700)
