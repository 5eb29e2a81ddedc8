"""C headers as facts: functions, enumerations, and the size of structures that are passed by value, by clang's syntax tree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMPILERS = ("clang-19", "clang")


class ImportFailed(Exception):
    """A header cannot be read; the message says why."""


@dataclass(frozen=True)
class Parameter:
    """A parameter as it is written and as it is with all names of types resolved."""

    name: str
    spelled: str
    canonical: str


@dataclass(frozen=True)
class Declaration:
    """A function of the headers."""

    name: str
    returns: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Enumeration:
    """An enumeration: its tag or the name that it was given, and its constants."""

    name: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Headers:
    """What a set of headers declares."""

    functions: tuple[Declaration, ...]
    enumerations: Mapping[str, Enumeration]
    typedefs: Mapping[str, str]  # name: canonical type


def read(text: str, options: Sequence[str], prefix: str | tuple[str, ...], language: str = "c") -> Headers:
    """The functions that begin with `prefix` (or one of them), and all enumerations, of a source text. Raises ImportFailed."""
    tree = _tree(text, options, language)
    functions: dict[str, Declaration] = {}
    enumerations: dict[str, Enumeration] = {}
    typedefs: dict[str, str] = {}
    for node in _nodes(tree):
        kind, name = node["kind"], node.get("name", "")
        if kind == "FunctionDecl" and name.startswith(prefix):
            functions.setdefault(name, _function(node))
        elif kind == "EnumDecl" and name:
            enumerations[name] = Enumeration(name, tuple(_constants(node)))
        elif kind == "TypedefDecl":
            typedefs[name] = node["type"].get("desugaredQualType", node["type"]["qualType"])
    return Headers(tuple(functions.values()), enumerations, typedefs)


def merged(newer: Headers, older: Headers) -> Headers:
    """What either declares; where they differ, as the newer one has it."""
    known = {f.name for f in newer.functions}
    enumerations = dict(older.enumerations)
    for name, enumeration in newer.enumerations.items():
        there = {text for text, _ in enumeration.values}
        more = tuple(pair for pair in older.enumerations.get(name, enumeration).values if pair[0] not in there)
        enumerations[name] = Enumeration(name, enumeration.values + more)
    functions = newer.functions + tuple(f for f in older.functions if f.name not in known)
    return Headers(functions, enumerations, {**older.typedefs, **newer.typedefs})


def sizes(text: str, options: Sequence[str], types: Sequence[str], language: str = "c") -> dict[str, tuple[int, int]]:
    """Size and alignment in bytes of types. Raises ImportFailed."""
    lines = [f'  printf("%zu %zu\\n", sizeof({t}), _Alignof({t}));' for t in types]
    program = "\n".join([text, "#include <stdio.h>", "int main(void) {", *lines, "  return 0;", "}"])
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "sizes.c", Path(folder) / "sizes"
        source.write_text(program)
        _run([*options, "-x", language, str(source), "-o", str(binary)])
        out = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    pairs = (line.split() for line in out.splitlines())
    return {t: (int(size), int(alignment)) for t, (size, alignment) in zip(types, pairs, strict=True)}


def _run(arguments: Sequence[str]) -> str:
    for compiler in COMPILERS:
        try:
            # A compiler cache in its place would hand it preprocessed text, from which other enumerations come.
            done = subprocess.run(
                [compiler, *arguments],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "CCACHE_DISABLE": "1"},
            )
        except FileNotFoundError:
            continue
        if done.returncode != 0:
            raise ImportFailed(f"{compiler}: {done.stderr.strip()[:2000]}")
        return done.stdout
    raise ImportFailed(f"none of {', '.join(COMPILERS)} is installed: apt-get install clang-19")


def _tree(text: str, options: Sequence[str], language: str) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "headers.c"
        source.write_text(text)
        out = _run([*options, "-x", language, "-fsyntax-only", "-Xclang", "-ast-dump=json", str(source)])
    tree: Mapping[str, Any] = json.loads(out)
    return tree


def _nodes(tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for node in tree.get("inner", ()):
        if node["kind"] == "LinkageSpecDecl":
            yield from _nodes(node)
        else:
            yield node


def _function(node: Mapping[str, Any]) -> Declaration:
    parameters = [p for p in node.get("inner", ()) if p["kind"] == "ParmVarDecl"]
    return Declaration(
        node["name"],
        re.split(r"\s*\(", node["type"]["qualType"], maxsplit=1)[0],
        tuple(
            Parameter(
                p.get("name", f"argument{i}"),
                p["type"]["qualType"],
                p["type"].get("desugaredQualType", p["type"]["qualType"]),
            )
            for i, p in enumerate(parameters)
        ),
    )


def _constants(node: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    following = 0
    for constant in node.get("inner", ()):
        if constant["kind"] != "EnumConstantDecl":
            continue
        value = _value(constant)
        following = following if value is None else value
        yield constant["name"], following
        following += 1


def _value(node: Mapping[str, Any]) -> int | None:
    for inner in node.get("inner", ()):
        if inner["kind"] == "ConstantExpr" and "value" in inner:
            return int(inner["value"])
        found = _value(inner)
        if found is not None:
            return found
    return None
