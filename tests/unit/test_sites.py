"""Places in the code: names of sites, and what the debug information of a file built here says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from occatrace.ingest import call_sites, elf
from occatrace.ingest.call_sites import Lines, Site


def test_names_of_sites() -> None:
    assert call_sites.parse("/a/b c+d.so+0x1f") == Site("/a/b c+d.so", 0x1F)
    assert [call_sites.parse(text) for text in ("add+0x1f", "/a/b.so", "/a/b.so+0xg", "?+0x1f")] == [None] * 4


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("main", "main"),
        ("main._omp_fn.0", "main"),
        ("solve(double*, int) [clone ._omp_fn.12]", "solve(double*, int)"),
        ("__subr_MOD_step._omp_fn.3", "__subr_MOD_step"),
        ("region.omp_outlined", "region"),
        ("region(int) [clone .omp_outlined_debug__.2]", "region(int)"),
        ("__omp_offloading_fe00_2708f7_main_l16", "main"),
        ("__omp_offloading_fe00_2708f7_step_one_l7_debug__", "step_one"),
        ("??", ""),
    ],
)
def test_functions_as_their_authors_named_them(given: str, expected: str) -> None:
    assert call_sites.function_name(given) == expected


@pytest.mark.compiles
def test_lines_of_a_program(tmp_path: Path) -> None:
    source = tmp_path / "two.c"
    source.write_text("int one(int x) {\n  return x * 3;\n}\n\nint two(int x) {\n  return x + 4;\n}\n")
    library = tmp_path / "libtwo.so"
    command = ["gcc", "-g", "-O0", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    listing = subprocess.run(["nm", str(library)], text=True, capture_output=True, check=True).stdout
    offsets = {words[2]: int(words[0], 16) for words in map(str.split, listing.splitlines()) if len(words) == 3}
    asked = [Site(str(library), offsets[name]) for name in ("one", "two")]
    absent = Site("/nowhere/lib.so", 7)
    runtime = tmp_path / "libgomp.so.1"
    shutil.copy(library, runtime)
    of_runtime = Site(str(runtime), offsets["one"])
    found = call_sites.resolve([*asked, absent, of_runtime])
    assert [(found[s].function, Path(found[s].file).name, found[s].line) for s in asked] == [
        ("one", "two.c", 1),
        ("two", "two.c", 5),
    ]
    # What is not there, and the runtimes themselves, stay file and offset.
    assert found[absent] == absent and found[of_runtime] == of_runtime


def test_without_a_tool_a_place_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    site = Site("/bin/true", 4096)
    assert call_sites.tool() is None
    assert call_sites.resolve([site]) == {site: site}


@pytest.mark.compiles
def test_without_debug_information_the_function_is_known(tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    source.write_text("int one(int x) { return x * 3; }\n")
    library = tmp_path / "libone.so"
    subprocess.run(["gcc", "-O0", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    listing = subprocess.run(["nm", str(library)], text=True, capture_output=True, check=True).stdout
    offset = next(int(line.split()[0], 16) for line in listing.splitlines() if line.endswith(" T one"))
    site = Site(str(library), offset + 4)
    assert call_sites.resolve([site])[site] == Site(str(library), offset + 4, "one")


@pytest.mark.compiles
def test_what_was_inlined_out_of_a_header(tmp_path: Path) -> None:
    """It stands where it was inlined, where nobody wants to hear of that header."""
    header, source, library = tmp_path / "occa/inner.hpp", tmp_path / "two.c", tmp_path / "libtwo.so"
    header.parent.mkdir()
    header.write_text("static inline __attribute__((always_inline)) int inner(int x) {\n  return x % 13 + 7;\n}\n")
    source.write_text('#include "occa/inner.hpp"\nint two(int x) {\n  x *= 5;\n  return inner(x);\n}\n')
    subprocess.run(["gcc", "-g", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    listing = subprocess.run(["nm", "-S", str(library)], text=True, capture_output=True, check=True).stdout
    start, size = next((int(w[0], 16), int(w[1], 16)) for w in map(str.split, listing.splitlines()) if w[-1] == "two")
    found = call_sites.resolve([Site(str(library), offset) for offset in range(start, start + size)]).values()
    inlined = [site for site in found if site.file == str(header)]
    assert inlined
    moved = call_sites.outside(found, re.compile(r"/occa/[^/]*[.]hpp$"))
    assert {(moved[site].function, moved[site].file, moved[site].line) for site in inlined} == {("two", str(source), 4)}
    assert all(moved[site] == site for site in found if site not in inlined)


@pytest.mark.compiles
def test_functions_of_a_stripped_library(tmp_path: Path) -> None:
    """Tools name the exported function before an address, whatever follows that: a function without a symbol has no name."""
    source, library, stripped = (tmp_path / name for name in ("two.c", "libtwo.so", "libstripped.so"))
    source.write_text(
        "__attribute__((noinline)) int shown(int x) { return x * 3; }\n"
        "__attribute__((noinline)) static int hidden(int x) { return x * 7 + shown(x); }\n"
        "int (*also(void))(int) { return hidden; }\n"
    )
    command = ["gcc", "-O1", "-fno-toplevel-reorder", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    subprocess.run(["strip", "-o", str(stripped), str(library)], check=True)
    listing = subprocess.run(["nm", str(library)], text=True, capture_output=True, check=True).stdout
    at = {words[2]: int(words[0], 16) for words in map(str.split, listing.splitlines()) if len(words) == 3}
    assert at["shown"] < at["hidden"] < at["also"]
    for file, names in ((library, {"shown", "hidden", "also"}), (stripped, {"shown", "also"})):
        found = _chains(call_sites.lines_of(str(file), sorted(at[name] for name in ("shown", "hidden", "also"))))
        assert found == {at[name]: [(name, "", 0)] for name in names}
    known = elf.functions(stripped)
    assert known is not None and not known.is_whole
    beyond = np.array([0, at["shown"] - 1, at["also"], 1 << 62], np.uint64)
    assert known.cover(beyond).tolist() == [False, False, True, False]
    cut = tmp_path / "cut.so"
    cut.write_bytes(stripped.read_bytes()[:5000])
    assert elf.functions(source) is None and elf.functions(tmp_path / "none") is None
    assert (broken := elf.functions(cut)) is None or not broken.cover(beyond).any()


def _chains(lines: Lines) -> dict[int, list[tuple[str, str, int]]]:
    return {
        int(offset): [(s.function, s.file, s.line) for s in lines.chain("/x", int(offset))] for offset in lines.offsets
    }


def test_lines_in_arrays() -> None:
    texts = ["", "f", "g", "/occa/inner.hpp", "/a.c", "?"]
    # 10: g inlined into f; 20: nothing known; 30: a function without a line; 40: inlined, all of it in the header.
    lines = Lines(texts, [10, 20, 30, 40], [0, 2, 3, 4, 6], [2, 1, 0, 1, 2, 1], [3, 4, 0, 0, 3, 3], [7, 8, 0, 0, 9, 10])
    assert lines.inlined().tolist() == [True, False, False, True]
    assert lines.has_files().tolist() == [True, False, False, True]
    assert lines.callers(re.compile("/occa/")).tolist() == [1, 2, 3, 4]
    assert lines.find(np.array([5, 10, 40, 41], np.uint64)).tolist() == [-1, 0, 3, -1]
    known = lines.known()
    expected = {
        10: [("g", "/occa/inner.hpp", 7), ("f", "/a.c", 8)],
        30: [("f", "", 0)],
        40: [("g", "/occa/inner.hpp", 9), ("f", "/occa/inner.hpp", 10)],
    }
    assert _chains(known) == expected and lines.chain("/x", 11) == []
    better = Lines(["", "h", "/b.c"], [5, 30], [0, 1, 4], [1, 1, 1, 0], [2, 0, 2, 2], [1, 2, 3, 4])
    more = {5: [("h", "/b.c", 1)], 30: [("h", "", 2), ("h", "/b.c", 3), ("", "/b.c", 4)]}
    assert _chains(known.replaced_by(better)) == dict(sorted((expected | more).items()))
    assert _chains(Lines().replaced_by(better)) == more and _chains(known.replaced_by(Lines())) == expected
    assert Lines().callers(re.compile("x")).tolist() == [] and Lines().find(np.array([1], np.uint64)).tolist() == [-1]


def test_a_tool_that_stops_on_the_way_has_said_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = "0x1\nf\n/a.c:1\n0x2\ng\n/a.c:2 (discriminator 3)\n"
    for name, text in (("addr2line", answers), ("llvm-addr2line", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'end'\n{text}end\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert _chains(call_sites.lines_of("/x", [1, 2])) == {1: [("f", "/a.c", 1)], 2: [("g", "/a.c", 2)]}
    assert _chains(call_sites.lines_of("/x", [1, 2, 3])) == {}
