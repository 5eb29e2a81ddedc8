"""What it takes to know the lines of a million frames: a program of 100 MB with debug information, in which a million of places
make a traced call. CPU time and memory of ours and of addr2line, for the lines alone and for reading the whole run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.runs import OCCA_PROF

FILES, FUNCTIONS, CALLS = 40, 2500, 10
_PADDING = "of_the_discontinuous_galerkin_operator_" * 4  # names as long as those of templates

# Run in a process of its own, so that the memory is its own.
MEASURE = """
import json, resource, sys, time
import numpy as np
from occatrace.ingest import call_sites
import occatrace

wall = 0
what, where, offsets_file = sys.argv[1:]
if what == "lines":
    offsets = np.fromfile(offsets_file, np.uint64)
    begin = time.perf_counter()
    found = call_sites.lines_of(where, memoryview(offsets))
    known = int(found.has_files().sum())
else:
    begin = time.perf_counter()
    with occatrace.open(where) as run:
        wall = time.perf_counter() - begin
        known = run.sql("SELECT count(*) FROM call_sites WHERE line > 0").fetchall()[0][0]
        if known:
            offsets = run.sql('SELECT "offset" FROM call_sites WHERE line > 0 ORDER BY 1').fetchnumpy()["offset"]
            np.asarray(offsets, np.uint64).tofile(offsets_file)
wall = wall or time.perf_counter() - begin
own, tool = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"known": known, "wall": wall, "cpu": own.ru_utime + own.ru_stime, "tool": tool.ru_utime + tool.ru_stime,
                  "mb": own.ru_maxrss / 1024, "tool_mb": tool.ru_maxrss / 1024}))
"""


def build(folder: Path) -> Path:
    """The program: FILES * FUNCTIONS * CALLS places that call OpenCL, each in a line of its own."""
    # One file is compiled; the others are its assembly with other names, which takes a fraction of the time.
    first = folder / "part_0.c"
    names = [
        f"compute_the_residual_of_the_equation_in_part_0_of_the_domain_step_{f}_{_PADDING}" for f in range(FUNCTIONS)
    ]
    with first.open("w", encoding="utf-8") as out:
        out.write("#define CL_TARGET_OPENCL_VERSION 120\n#include <CL/cl.h>\n")
        for name in names:
            out.write(f"cl_uint {name}(cl_uint elements, cl_uint order) {{\n  cl_uint found = elements + order;\n")
            out.write("  clGetPlatformIDs(0, 0, &found);\n" * CALLS)
            out.write("  return found;\n}\n")
        out.write("cl_uint all_in_part_0_of(void) {\n  cl_uint sum = 0;\n")
        out.writelines(f"  sum += {name}(1, 2);\n" for name in names)
        out.write("  return sum;\n}\n")
    subprocess.run(["gcc", "-g", "-O0", "-S", first, "-o", folder / "part.s"], check=True)
    assembly = (folder / "part.s").read_text(encoding="utf-8")
    objects = []
    for number in range(FILES):
        objects.append(folder / f"part_{number}.o")
        other = re.sub(r"part_0(?=[_.])", f"part_{number}", assembly)
        subprocess.run(["as", "-o", objects[-1]], input=other, text=True, check=True)
    main = folder / "main.c"
    calls = "".join(f"  sum += all_in_part_{number}_of();\n" for number in range(FILES))
    heads = "".join(f"unsigned all_in_part_{number}_of(void);\n" for number in range(FILES))
    main.write_text(f"{heads}int main(void) {{\n  unsigned sum = 0;\n{calls}  return sum == 1;\n}}\n", encoding="utf-8")
    program = folder / "program"
    subprocess.run(["gcc", "-g", main, *objects, "-o", program, "-lOpenCL"], check=True)
    return program


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        places = FILES * FUNCTIONS * CALLS
        print(f"{places} places in a program of {program.stat().st_size / 1e6:.0f} MB")
        run = folder / "run"
        subprocess.run([*OCCA_PROF, "-q", "-m", "full", "-o", run, program], check=True)
        print(f"{'':<14}{'known':>10}{'wall s':>8}{'CPU s':>8}{'addr2line s':>13}{'MB':>7}{'addr2line MB':>14}")
        for what, where in (("run", run), ("lines", program)):
            command = [sys.executable, "-c", MEASURE, what, str(where), f"{folder}/offsets"]
            r = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(
                f"{what:<14}{r['known']:>10}{r['wall']:>8.1f}{r['cpu']:>8.1f}{r['tool']:>13.1f}{r['mb']:>7.0f}{r['tool_mb']:>14.0f}"
            )


if __name__ == "__main__":
    main()
