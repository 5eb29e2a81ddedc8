"""Documents, help and messages use plain technical English. When a test here fails, use the words on the right of AVOID, or
those of docs/glossary.md. tools/test checks spelling by codespell, configured in pyproject.toml."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from occatrace.cli import commands

ROOT = Path(__file__).resolve().parents[2]
# docs/events comes from the field descriptions of tracepoints/*.yaml.
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
AVOID = {
    r"told|tells|telling|tell of": "report, say, show, print, name",
    r"besides?": "next to, in addition to, in parallel",
    r"nobody|somebody|anybody|everybody|whoever": "no process, other users, all users, the process that",
    r"lets? go( of)?": "release, free",
    r"(the|its|their|'s) begin": "start",
    r"as ever": "as before, unchanged",
    r"stand-ins?|drivers? for tests": "fake driver, fake library",
    r"heed(s|ed)?": "use, apply",
    r"once more": "again",
    r"pieces? of work": "activity",
    r"please(?! report)": "(leave it out)",
    r"goes? past": "bypass",
    r"left alone": "not touched",
    r"in the words of|thereof|wherein|whereof|hereby": "(rephrase)",
}
# The first words of help lines.
VERBS = re.compile(
    "(add|check|compare|compute|count|do|draw|end|exit|explain|include|keep|leave|limit|list|make|name|open|overwrite|pause|predict|prefer|print"
    "|profile|put|query|read|record|refresh|replace|report|resume|run|sample|select|serve|set|show|sort|start|stop|take|trace|use"
    r"|write)\b"
)


def _avoided(text: str) -> list[str]:
    return [
        f"{found[0]!r}: {instead}"
        for words, instead in AVOID.items()
        for found in re.finditer(rf"(?<![\w-])({words})(?![\w-])", text, re.IGNORECASE)
    ]


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name in commands.COMMANDS:
        parser = argparse.ArgumentParser(prog=f"occa_prof {name}", add_help=False)
        importlib.import_module(f"occatrace.cli.{name}").prepare_parser(parser)
        yield name, parser


def _messages(module: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module that are sentences, without docstrings and SQL."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    # A string that is a statement of its own is a docstring.
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            text = node.value
            if (
                len(re.findall("[A-Za-z]{2,}", text)) > 3
                and "\n" not in text
                and not re.search(r"\b(SELECT|FROM|WHERE|JOIN|import)\b|</|/>", text)
            ):
                yield node.lineno, text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages(page: Path) -> None:
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert _avoided(prose) == []


def test_help() -> None:
    found = {name: _avoided(parser.format_help()) for name, parser in _parsers()}
    assert {name: words for name, words in found.items() if words} == {}
    assert _avoided(commands.overview()) == []


def test_every_line_of_help_starts_with_a_verb() -> None:
    lines = {f"{name} {action.dest}": str(action.help) for name, parser in _parsers() for action in parser._actions}
    assert len(lines) > 100
    lines |= commands.COMMANDS
    assert {where: text for where, text in lines.items() if not VERBS.match(text)} == {}


def test_messages() -> None:
    found = {
        f"{module.relative_to(ROOT)}:{line}": words
        for module in sorted((ROOT / "occatrace").rglob("*.py"))
        for line, text in _messages(module)
        if (words := _avoided(text))
    }
    assert found == {}
