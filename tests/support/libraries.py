"""Variants of shared libraries for tests."""

from __future__ import annotations

from pathlib import Path


def without(library: Path, folder: Path, function: str) -> Path:
    """A copy, in a folder of its own, of a library that lacks a function: it has it by another name."""
    name = b"\0" + function.encode() + b"\0"
    content = library.read_bytes()
    assert name in content, f"{library} has no {function}"
    folder.mkdir()
    copy = folder / library.name
    copy.write_bytes(content.replace(name, name[:-2] + b"_\0"))
    return copy
