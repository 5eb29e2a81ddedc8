"""Limits, defaults and layouts that both occa_prof and the traced process must know, once.

C has them from `header()`, which tools/generate.py writes as native/bounds.h.
"""

from __future__ import annotations

# --call-paths: frames of a stack, by default and at most; kinds of calls, bit by bit from the lowest.
PATH_DEPTH, DEEPEST_PATH = 64, 256
PATH_KINDS = ("launch", "copy", "alloc", "build", "wait", "mpi")
# --sample-stacks: samples per second of CPU time, by default and at most.
SAMPLE_HZ, FASTEST_SAMPLES = 100, 1000
# --papi: events, and bytes of a name.
PAPI_MOST, PAPI_LONGEST_NAME = 16, 127
# Lists of numbers: numbers and ranges. Lists of patterns: bytes of a pattern.
MOST_RANGES, LONGEST_PATTERN = 32, 255

# The page of the run's switch: its size, and bytes with one owner each, 1 = on.
SWITCH_SIZE = 4096
COMMANDED, TIMED, EVENTS, UNUSED, ENDED = range(5)

# Histograms of durations have 2**SUB_BITS buckets for each octave, and one for each value below that.
SUB_BITS = 6
SUB = 1 << SUB_BITS
HISTOGRAM_BUCKETS = SUB + (64 - SUB_BITS) * SUB  # for all 64-bit values

# What a traced process needs (occatrace/run/limits.py): bytes of address space that it may map, and descriptors: of LTTng,
# of which some are of each processor, and left for the program.
LEAST_SPACE = 768 << 20
DESCRIPTORS_PER_CPU, OTHER_DESCRIPTORS, LEFT_DESCRIPTORS = 2, 12, 64


def _word(*on: int) -> str:
    """The switch as a 32-bit word, lowest byte first, with these bytes on."""
    return f"{sum(1 << 8 * byte for byte in on):#010x}u"


def header() -> str:
    """The same as definitions in C."""
    defined: dict[str, object] = {
        "PATH_DEPTH": PATH_DEPTH,
        "DEEPEST_PATH": DEEPEST_PATH,
        "PATH_KIND_NAMES": "{" + ", ".join(f'"{kind}"' for kind in PATH_KINDS) + "}",
        "SAMPLE_HZ": SAMPLE_HZ,
        "FASTEST_SAMPLES": FASTEST_SAMPLES,
        "PAPI_MOST": PAPI_MOST,
        "PAPI_LONGEST_NAME": PAPI_LONGEST_NAME,
        "MOST_RANGES": MOST_RANGES,
        "LONGEST_PATTERN": LONGEST_PATTERN,
        "SWITCH_SIZE": SWITCH_SIZE,
        "SWITCH_ON": _word(COMMANDED, TIMED, EVENTS, UNUSED),
        "SWITCH_RUNNING": _word(COMMANDED, TIMED),
        "SWITCH_EVENTS": _word(COMMANDED, TIMED, EVENTS),
        "LEAST_SPACE": f"UINT64_C({LEAST_SPACE})",
        "DESCRIPTORS_PER_CPU": DESCRIPTORS_PER_CPU,
        "OTHER_DESCRIPTORS": OTHER_DESCRIPTORS,
        "LEFT_DESCRIPTORS": LEFT_DESCRIPTORS,
        "HISTOGRAM_SUB_BITS": SUB_BITS,
        "HISTOGRAM_BUCKETS": HISTOGRAM_BUCKETS,
    }
    lines = [f"#define OCCATRACE_{name} {value}" for name, value in defined.items()]
    head = "/* Generated from occatrace/core/bounds.py; do not edit. */\n#ifndef OCCATRACE_BOUNDS_H\n#define OCCATRACE_BOUNDS_H"
    return "\n".join([head, *lines, "#endif", ""])
