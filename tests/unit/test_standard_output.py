"""`-o -` is standard output: what a file would hold, and nothing else."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from occatrace.cli.dispatch import main
from tests.support.runs import OCCA_PROF


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("timeline",), "x.pftrace"),
        (("timeline", "--format", "csv"), "x.csv"),
        (("flamegraph", "--format", "folded"), "x.folded"),
        (("flamegraph", "--format", "pprof"), "x.pb.gz"),
        (("report", "--report", "gpu_kern_sum"), "x.txt"),
        (("trace",), "x.txt"),
        (("export", "--format", "hatchet"), "x.json"),
    ],
    ids=lambda value: "-".join(value).replace("--", "") if isinstance(value, tuple) else None,
)
def test_the_same_as_in_a_file(
    words: tuple[str, ...],
    name: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = words
    assert main([command, str(run), "-o", name, *options]) == 0
    capsysbinary.readouterr()
    assert main([command, str(run), "-o", "-", *options]) == 0
    out = capsysbinary.readouterr().out
    file = Path(name).read_bytes()
    assert out and (gzip.decompress(out) == gzip.decompress(file) if name.endswith(".gz") else out == file)
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("timeline", "--split", "1s"), "-o - takes one file: leave out --split"),
        (("flamegraph",), "-o -: add --format html, speedscope, folded or pprof"),
        (("export",), "-o -: parquet needs a place on a disk; hatchet and extrap can be piped"),
    ],
)
def test_what_is_no_single_file(
    words: tuple[str, ...],
    said: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = words
    assert main([command, str(run), "-o", "-", *options]) == 2
    assert capsys.readouterr().err == f"occa_prof: {said}\n"
    assert not Path("-").exists()


def test_bytes_are_not_for_a_terminal(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["timeline", str(run), "-o", "-"]) == 2
    assert capsys.readouterr().err == "occa_prof: -o -: this is not for a terminal: redirect it to a file or a pipe\n"


def test_a_folder_that_is_not_there(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(run), "-o", "none/x"]) == 2
    said = "cannot write to none/x: the folder none does not exist; choose another file by -o"
    assert capsys.readouterr().err == f"occa_prof: {said}\n"


@pytest.mark.parametrize("command", ["flamegraph --format folded", "timeline", "export --format hatchet"])
def test_a_reader_that_has_gone(command: str, run: Path) -> None:
    words = command.split()
    with subprocess.Popen(
        [*OCCA_PROF, words[0], run, "-o", "-", *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b"" and running.wait() == 141
