"""A comparison for CI: JUnit XML, and the workflow commands of GitHub Actions, whose warnings stand beside the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from occatrace.core.units import duration
from occatrace.reports import Report

FORMATS = ("junit", "github")


@dataclass(frozen=True)
class Verdict:
    """What became of one name in one variant."""

    variant: str
    kind: str
    name: str
    words: str
    ratio: float | None
    noise: float | None  # percent
    before_ns: float | None
    after_ns: float | None

    @property
    def slower(self) -> float:
        """0.05: 5 % slower beyond the noise; 0: not slower."""
        return self.ratio - 1 if self.ratio is not None and self.words.endswith("slower") else 0.0

    @property
    def text(self) -> str:
        """One line for people."""
        times = ""
        if self.before_ns is not None and self.after_ns is not None:
            times = f": median {duration(round(self.before_ns))} → {duration(round(self.after_ns))}"
        noise = "" if self.noise is None else f", noise {self.noise:.0f} %"
        return f"{self.name} ({self.kind}) {self.words}{times}{noise}"


def verdicts(report: Report, labels: Sequence[str]) -> list[Verdict]:
    """All names of a comparison (reports/compare.py), but for the sums."""
    at = {column.name: place for place, column in enumerate(report.columns)}
    out = []
    for number, label in enumerate(labels[1:], 2):
        places = [at[f"{name}_{number}"] for name in ("verdict", "ratio", "noise", "med_ns")]
        for row in report.rows:
            words, ratio, noise, after = (row[place] for place in places)
            if row[0] != "total":
                out.append(Verdict(label, row[0], row[1], words, ratio, noise, row[at["med_ns_1"]], after))
    return out


def slowest(found: Sequence[Verdict], above: float) -> list[Verdict]:
    """Those that are slower by more than this (0.05: 5 %), the worst first."""
    return sorted((each for each in found if each.slower > above), key=lambda each: -each.slower)


def junit(found: Sequence[Verdict], above: float, out: TextIO) -> None:
    """A test case per name; a failure is slower by more than `above`. Times are medians in s."""
    failed = len(slowest(found, above))
    skipped = sum(each.ratio is None for each in found)
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    out.write(
        f'<testsuite name="occa_prof compare" tests="{len(found)}" failures="{failed}" errors="0" skipped="{skipped}">\n'
    )
    for each in found:
        time = "" if each.after_ns is None else f' time="{each.after_ns / 1e9:.9f}"'
        words = (each.name, f"{each.variant}.{each.kind}")
        name, group = (quoteattr(_xml(word)) for word in words)
        out.write(f"  <testcase classname={group} name={name}{time}")
        if each.slower > above:
            out.write(f">\n    <failure message={quoteattr(_xml(each.text))}>{escape(_xml(each.text))}</failure>\n  ")
            out.write("</testcase>\n")
        elif each.ratio is None:
            out.write(f"><skipped message={quoteattr(_xml(each.words or 'not compared'))}/></testcase>\n")
        else:
            out.write("/>\n")
    out.write("</testsuite>\n")


def _xml(text: str) -> str:
    """Without what XML 1.0 cannot have."""
    return "".join(c if c >= " " or c in "\t\n" else f"\\x{ord(c):02x}" for c in text)


def github(found: Sequence[Verdict], above: float, out: TextIO) -> None:
    """An error per name that is slower by more than `above`, a warning for what else changed, and a summary."""
    failed = slowest(found, above)
    for each in failed:
        out.write(f"::error title=occa_prof: slower::{_message(each.text)}\n")
    changed = [e for e in found if e.words.endswith(("slower", "new", "gone")) and e not in failed]
    for each in changed:
        out.write(f"::warning title=occa_prof: changed::{_message(each.text)}\n")
    faster = sum(each.words.endswith("faster") for each in found)
    out.write(
        f"::notice title=occa_prof compare::{len(found)} names compared: {len(failed)} slower, {faster} faster,"
        f" {len(changed)} otherwise changed\n"
    )


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
