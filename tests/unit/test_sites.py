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
from occatrace.ingest.debuginfod import Servers


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
        sites = call_sites.resolve([Site(str(file), offset) for offset in at.values()])
        assert {site.function for site in sites.values() if site.function} >= names
        assert (sites[Site(str(file), at["hidden"])].function == "hidden") is ("hidden" in names)
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
        (tmp_path / name).write_text(f"#!/bin/sh\n/bin/cat <<'end'\n{text}end\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _chains(call_sites.lines_of("/x", [1, 2])) == {1: [("f", "/a.c", 1)], 2: [("g", "/a.c", 2)]}
    assert _chains(call_sites.lines_of("/x", [1, 2, 3])) == {}


SPLIT = "gcc -O1 -gdwarf-5 -gsplit-dwarf -c two.c -o two.o && gcc -shared two.o -o libtwo.so"
FORMS = {
    "split": SPLIT,
    "split, in one file": f"{SPLIT} && llvm-dwp -e libtwo.so -o libtwo.so.dwp && rm two.dwo",
    "split, lost": f"{SPLIT} && rm two.dwo",
    "compressed as before the standard": "objcopy --compress-debug-sections=zlib-gnu whole.so libtwo.so",
    "compressed by zstd": "objcopy --compress-debug-sections=zstd whole.so libtwo.so",
    "common": "cp whole.so libtwo.so && cp whole.so other.so && dwz -5 -m common.debug libtwo.so other.so",
    "beside": "cp whole.so two.debug && objcopy --add-gnu-debuglink=two.debug -S whole.so libtwo.so",
    "in .debug": "mkdir .debug && cp whole.so .debug/two.debug"
    " && objcopy --add-gnu-debuglink=.debug/two.debug -S whole.so libtwo.so",
}


@pytest.mark.compiles
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_debug_information(form: str, tmp_path: Path) -> None:
    """Each tool reads some of them: what one does not know, another one is asked."""
    for word in ("dwz", "llvm-dwp", "llvm-addr2line"):
        if shutil.which(word) is None:
            pytest.skip(f"{word} is not there")
    (tmp_path / "two.c").write_text(
        "static inline __attribute__((always_inline)) int inner(int x) {\n  return x % 13;\n}\n"
        "int two(int *x) {\n  *x = 5;\n  return inner(x[1]);\n}\n"
    )
    options = ["-gdwarf-5", "-fPIC", "-shared", "-fno-schedule-insns"]
    subprocess.run(["gcc", "-O1", *options, "two.c", "-o", "whole.so"], cwd=tmp_path, check=True)
    shell = FORMS[form].replace("-O1", "-O1 -fPIC -fno-schedule-insns")
    made = subprocess.run(shell, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "zstd" in form and made.returncode:
        pytest.skip("binutils without zstd")
    assert made.returncode == 0, made.stderr
    whole, library = tmp_path / "whole.so", tmp_path / "libtwo.so"
    listing = subprocess.run(["nm", "-S", whole], text=True, capture_output=True, check=True).stdout
    start, size = next((int(w[0], 16), int(w[1], 16)) for w in map(str.split, listing.splitlines()) if w[-1] == "two")
    expected, found = (_chains(call_sites.lines_of(str(file), range(start, start + size))) for file in (whole, library))
    lines = {chain[0][2] for chain in expected.values()}
    assert {2, 5} <= lines
    assert {offset: chain[0][2] for offset, chain in found.items()} == {o: c[0][2] for o, c in expected.items()}
    if form not in {"split, lost", "common"}:  # only a line is left of these
        assert found == expected
    assert elf.has_debug_information(library)
    assert elf.debug_link(library) == ("two.debug" if "debug" in form or form == "beside" else "")
    at = Site(str(library), start)
    assert call_sites.resolve([at])[at].line == expected[start][0][2]


@pytest.mark.compiles
def test_debug_information_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "two.c").write_text("int two(int x) {\n  return x;\n}\n")
    shell = (
        "gcc -g -shared -fPIC two.c -o two.debug && objcopy --add-gnu-debuglink=two.debug -S two.debug libtwo.so"
        " && gcc -shared -fPIC two.c -o plain.so"
    )
    subprocess.run(shell, shell=True, cwd=tmp_path, check=True)
    library, plain = tmp_path / "libtwo.so", tmp_path / "plain.so"
    assert elf.has_debug_information(library)
    (tmp_path / "two.debug").unlink()
    assert not elf.has_debug_information(library) and not elf.has_debug_information(plain)
    servers = Servers()
    extension = Path(shutil.copy(plain, tmp_path / "_cl.cpython-311-x86_64-linux-gnu.so"))
    files = (library, plain, extension)
    assert [call_sites.why_no_line(call_sites.Module(str(file), "", 0), servers) for file in files] == [
        "its debug information, two.debug, is not there",
        "no debug information (compile with -g)",
        "called from Python: record with --python lines",
    ]
    cut = tmp_path / "cut.so"
    for length in range(0, 64, 3):
        cut.write_bytes(library.read_bytes()[:length])
        assert elf.debug_link(cut) == "" and not elf.has_debug_information(cut)


@pytest.mark.compiles
def test_each_tool_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two.c").write_text(
        "static inline __attribute__((always_inline)) int inner(int x) { return x % 13 + 2 * x % 19; }\n"
        "int two(int *x) {\n  *x = 5; x[2] = 7;\n  return inner(x[1]);\n}\n"
    )
    library = tmp_path / "libtwo.so"
    command = ["gcc", "-O1", "-g", "-fPIC", "-shared", "two.c", "-o", str(library)]
    subprocess.run(command, cwd=tmp_path, check=True)
    listing = subprocess.run(["nm", "-S", library], text=True, capture_output=True, check=True).stdout
    start, size = next((int(w[0], 16), int(w[1], 16)) for w in map(str.split, listing.splitlines()) if w[-1] == "two")
    found = []
    for name in ("addr2line", "llvm-addr2line", "eu-addr2line"):
        if (program := shutil.which(name)) is None:
            pytest.skip(f"{name} is not there")
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).symlink_to(program)
        with monkeypatch.context() as only:
            only.setenv("PATH", str(folder))
            found.append(_chains(call_sites.lines_of(str(library), range(start, start + size))))
    binutils, llvm, elfutils = found
    assert binutils == llvm == elfutils
    assert {len(chain) for chain in binutils.values()} == {1, 2}


def test_the_newest_tool_of_llvm_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 14 does not find what clang 19 has put into a file of split debug information."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert call_sites.tools() == []
    found: list[str] = []
    for name in ("llvm-addr2line", "llvm-addr2line-9", "llvm-addr2line-14", "llvm-addr2line-19", "llvm-addr2line-15"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{'/' * (len(found) + 1)}")  # what was found for a PATH is kept
        found += [Path(tool).name for tool in call_sites.tools()]
    assert found == ["llvm-addr2line", "llvm-addr2line", "llvm-addr2line-14", *2 * ["llvm-addr2line-19"]]
