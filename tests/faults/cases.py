"""A case of the fuzzing: what differs from a valid input, and the command that reads it."""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")


@dataclass(frozen=True)
class Case:
    """`words`: of occa_prof, or "decode" and a decoder; {in} is the folder of the input, {out} an empty one. `files`: content
    by path below {in}; None: the file is not there."""

    part: str
    base: str
    words: tuple[str, ...]
    files: Mapping[str, bytes | None]
    said: str = ""  # what was wrong when it was found

    @property
    def name(self) -> str:
        """The part, and a digest of all that is read."""
        digest = hashlib.sha256(repr((self.base, self.words, sorted(self.files.items()))).encode())
        return f"{self.part}-{digest.hexdigest()[:10]}"

    def put(self, base: Path, folder: Path) -> None:
        """Make the input in `folder`, which is not there yet."""
        shutil.copytree(base, folder, symlinks=True)
        for name, content in self.files.items():
            path = folder / name
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            if content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def save(self, folder: Path) -> Path:
        """Write the case as a folder below `folder`."""
        path = folder / self.name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        facts = {
            "part": self.part,
            "base": self.base,
            "words": self.words,
            "files": sorted(name for name, content in self.files.items() if content is not None),
            "removed": sorted(name for name, content in self.files.items() if content is None),
            "said": self.said,
        }
        (path / "case.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        for at, name in enumerate(facts["files"]):
            content = self.files[name]
            assert content is not None
            (path / f"{at}.xz").write_bytes(lzma.compress(content))
        return path


def load(path: Path) -> Case:
    """A case from its folder."""
    facts = json.loads((path / "case.json").read_text(encoding="utf-8"))
    files: dict[str, bytes | None] = dict.fromkeys(facts["removed"])
    for at, name in enumerate(facts["files"]):
        files[name] = lzma.decompress((path / f"{at}.xz").read_bytes())
    return Case(facts["part"], facts["base"], tuple(facts["words"]), files, facts["said"])


def corpus(folder: Path = CORPUS) -> Iterator[Case]:
    """The cases that failed once."""
    for file in sorted(folder.glob("*/case.json")):
        yield load(file.parent)
