"""Flame graphs of a program that knows its own times, in every form, in a browser and in speedscope itself."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.integration.html.test_page import CONTRAST, LOOKS, show
from tests.support.browser import Browser
from tests.support.npm import package
from tests.support.suites.html import Keep, Run
from tests.support.suites.reports import occa_prof

SPEEDSCOPE = "1.25.0"


def written(run: Run, path: Path, *words: str) -> Path:
    told = occa_prof("flamegraph", run.folder, "-o", path, *words)
    assert told.returncode == 0, told.stderr
    assert path.stat().st_mode & 0o077 == 0
    return path


def folded(run: Run, path: Path, weight: str) -> dict[tuple[str, ...], int]:
    """Stacks below the process."""
    lines = written(run, path, "--weight", weight).read_text(encoding="utf-8").splitlines()
    parts = [line.rpartition(" ") for line in lines]
    return {tuple(stack.split(";")[1:]): int(value) for stack, _, value in parts}


def test_times_are_those_that_went_by(nested: Run, tmp_path: Path) -> None:
    """Each range's own time is at least what the program spun in it, and at most what was left to it of the time from before
    its begin to after its end; together they are the time of the outermost."""
    stacks = folded(nested, tmp_path / "time.folded", "time")
    paths = {
        "run": ("run",),
        "setup": ("run", "setup"),
        "step": ("run", "step"),
        "exchange": ("run", "step", "exchange"),
    }
    spun, within = nested.truth["spun_ns"], nested.truth["within_ns"]
    assert spun.keys() == within.keys() == paths.keys()
    for name, path in paths.items():
        below = sum(spun[other] for other, longer in paths.items() if longer[: len(path)] == path and other != name)
        assert spun[name] <= stacks[path] <= within[name] - below, name
    assert sum(spun.values()) <= sum(time for stack, time in stacks.items() if stack[0] == "run") <= within["run"]
    malloc = {stack[-2]: time for stack, time in stacks.items() if stack[-1] == "occa::device::malloc"}
    assert set(malloc) == {"setup", "exchange"}
    backend = {stack for stack in stacks if stack[-1] == "clCreateBuffer"}
    expected = {("run", "setup"), ("run", "step", "exchange")} if nested.mode == "OpenCL" else set()
    assert {stack[:-2] for stack in backend} == expected


def test_memory_is_where_it_was_allocated(nested: Run, tmp_path: Path) -> None:
    for weight in ("memory", "peak"):
        found: dict[str, int] = defaultdict(int)
        for stack, size in folded(nested, tmp_path / f"{weight}.folded", weight).items():
            found[stack[stack.index("occa::device::malloc") - 1]] += size
        assert found == nested.truth["allocated" if weight == "memory" else "peak"]


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_viewer(nested: Run, browser: Browser, look: str, tmp_path: Path, keep: Keep) -> None:
    """Point, zoom, search, other weights; offline; legible."""
    path = written(nested, tmp_path / "flame.html")
    before = len(browser.requests)
    show(browser, path, LOOKS[look])
    assert browser.requests[before:] == [path.as_uri()]
    frames = "[...document.querySelectorAll('.frame')]"
    one = f"{frames}.find(f => f.getAttribute('aria-label').startsWith('exchange:'))"
    widths = dict(
        browser.run(f"{frames}.map(f => [f.getAttribute('aria-label').split(':')[0], f.getBoundingClientRect().width])")
    )
    truth = nested.truth["spun_ns"]
    assert widths["exchange"] / widths["setup"] == pytest.approx(truth["exchange"] / truth["setup"], rel=0.5)
    assert widths["step"] > widths["exchange"] and widths["run"] > widths["step"] + widths["setup"]
    ratio, where = browser.run(CONTRAST)
    assert ratio >= 4.5, f"{ratio:.1f}: {where}"
    picture = tmp_path / f"flame-{nested.mode}-{look}.png"
    browser.long_picture(picture, 1200)
    keep(picture)
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    # Point at it.
    browser.run(f"{one}.dispatchEvent(new PointerEvent('pointerover', {{bubbles: true}}))")
    told = browser.run("document.querySelector('.told').textContent")
    assert told.startswith("exchange ") and " of step" in told and "3 calls" in told
    # Zoom, and back.
    browser.run(f"{one}.click()")
    full = browser.run("document.querySelector('.graph').clientWidth")
    assert browser.run(f"{one}.getBoundingClientRect().width") == pytest.approx(full, abs=1)
    assert browser.run(f"{frames}.filter(f => f.classList.contains('outer')).length") == 4  # all, process, run, step
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert browser.run(f"{one}.getBoundingClientRect().width") == pytest.approx(widths["exchange"], abs=1)
    # Search.
    browser.run(
        "(() => { const i = document.querySelector('input'); i.value = '/^(setup|step)$/'; i.dispatchEvent(new Event('input')); })()"
    )
    found = browser.run(
        f"{frames}.filter(f => f.classList.contains('found')).map(f => f.getAttribute('aria-label').split(':')[0])"
    )
    assert sorted(found) == ["setup", "step"]
    assert browser.run("document.querySelector('.told').textContent").startswith("found: ")
    # Memory.
    browser.run("document.querySelector('[data-measure=memory]').click()")
    label = browser.run(f"{one}.getAttribute('aria-label')")
    assert label.startswith("exchange: 12.00 MiB, 80.0 % of all")


def test_bad_input(nested: Run, tmp_path: Path) -> None:
    for words, hint in (
        (("-o", tmp_path / "x.xyz"), ".folded"),
        (("-o", tmp_path / "no" / "x.html"), "does not exist"),
        (("-o", tmp_path / "x.html", "--weight", "peak"), "--weight"),
    ):
        told = occa_prof("flamegraph", nested.folder, *words)
        assert told.returncode == 2 and hint in told.stderr and len(told.stderr.splitlines()) == 1


@pytest.fixture(scope="session")
def speedscope() -> Path:
    """The folder of the real application, as its npm package has it."""
    return package("speedscope", SPEEDSCOPE) / "dist" / "release"


def test_speedscope_opens_it(nested: Run, speedscope: Path, browser: Browser, tmp_path: Path, keep: Keep) -> None:
    """The application itself, from disk: it takes the file, shows the frames, and its schema has no objection."""
    path = written(nested, tmp_path / "x.speedscope.json")
    content = path.read_bytes()
    schema = json.loads((speedscope / "file-format-schema.json").read_text(encoding="utf-8"))
    assert objections(json.loads(content), schema, schema) == []
    assert objections({**json.loads(content), "profiles": [{"type": "sampled"}]}, schema, schema), "the check can fail"
    script = tmp_path / "load.js"
    script.write_text(f"speedscope.loadFileFromBase64('x.speedscope.json', '{base64.b64encode(content).decode()}')")
    browser.look(width=1280, height=800)
    browser.open(f"{(speedscope / 'index.html').as_uri()}#localProfilePath={script}")
    browser.wait("document.title.includes('host time')", 30)
    assert browser.run("document.body.innerText.toLowerCase().includes('error')") is False
    picture = tmp_path / f"speedscope-{nested.mode}.png"
    browser.picture(picture)
    keep(picture)
    browser.open("about:blank")


def objections(value: Any, rule: dict[str, Any], schema: dict[str, Any], at: str = "$") -> list[str]:
    """What a JSON schema (of the words that speedscope's uses) has against a value."""
    if "$ref" in rule:
        target: Any = schema
        for word in rule["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        return objections(value, target, schema, at)
    if "anyOf" in rule:
        every = [objections(value, choice, schema, at) for choice in rule["anyOf"]]
        return [] if [] in every else min(every, key=len)
    types: dict[str, Any] = {"object": dict, "array": list, "string": str, "number": (int, float)}
    if "type" in rule and not isinstance(value, types[rule["type"]]):
        return [f"{at}: not of type {rule['type']}"]
    out = [f"{at}: {value!r} is not {rule['const']!r}"] if "const" in rule and value != rule["const"] else []
    if "enum" in rule and value not in rule["enum"]:
        out.append(f"{at}: {value!r} is none of {rule['enum']}")
    if isinstance(value, dict):
        out += [f"{at}: lacks {name}" for name in rule.get("required", ()) if name not in value]
        for name, inner in rule.get("properties", {}).items():
            if name in value:
                out += objections(value[name], inner, schema, f"{at}.{name}")
    if isinstance(value, list) and "items" in rule:
        for number, item in enumerate(value):
            out += objections(item, rule["items"], schema, f"{at}[{number}]")
    return out
