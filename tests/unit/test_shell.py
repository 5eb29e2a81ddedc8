"""The command line as people type it: suggestions, help by topic, completion in real shells, manual pages."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from occatrace import reports
from occatrace.cli import bar, completion, elsewhere, examples, manual
from occatrace.cli import help as topics
from occatrace.cli.commands import COMMANDS
from occatrace.cli.dispatch import main
from occatrace.cli.parser import of_command
from occatrace.core import progress
from occatrace.run import install
from tests.support.runs import PATIENCE, ROOT


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 2) -> str:
    """The one line that a wrong command gives."""
    try:
        assert main(words) == status
    except SystemExit as ended:
        assert ended.code == status
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    return err


@pytest.mark.parametrize(
    ("words", "status", "suggestion"),
    [
        ("--tracee x true", 2, "did you mean --trace?"),
        ("--versio", 2, "did you mean --version?"),
        ("--modus x true", 2, "did you mean --mode?"),
        ("report RUN --repor x", 2, "did you mean --report?"),
        ("report RUN --names ok", 2, "did you mean okl?"),
        ("report RUN and more", 2, "unexpected arguments: and more"),
        ("report RUN --format xml", 2, "choose from table, csv"),
        ("--format html true", 2, "`occa_prof report RUN --format html -o FILE`"),
        ("export RUN --format Thicket -o x", 2, "`occa_prof export RUN --format hatchet -o FILE`"),
        ("export RUN --format pprof -o x", 2, "`occa_prof flamegraph RUN -o x.pb.gz`"),
        ("report RUN --format junit", 2, "`occa_prof compare RUNS… --format junit`"),
        ("--print-gpu-trace true", 2, "here: --report gpu_trace"),
        ("--stats=true true", 2, "here: the summary is printed anyway"),
        ("--report cuda_gpu_kern_sum PYTHON", 2, "did you mean gpu_kern_sum?"),
        ("--report occa_kern_summ PYTHON", 2, "did you mean occa_kern_sum?"),
        ("--rows 3 report RUN", 127, "`report` is a subcommand: its options follow it"),
        ("stats RUN", 127, "did you mean `occa_prof report`?"),
        ("rport RUN", 127, "did you mean `occa_prof report`?"),
        ("profile ./a.out", 127, "did you mean `occa_prof PROGRAM`?"),
        ("version", 127, "did you mean `occa_prof --version`?"),
        ("help timelin", 2, "did you mean `occa_prof help timeline`?"),
        ("help stats", 2, "did you mean `occa_prof report`?"),
        ("help qqqq", 2, "`occa_prof help` lists the topics"),
    ],
)
def test_mistyped_words_get_a_suggestion(
    words: str, status: int, suggestion: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert suggestion in said(capsys, *words.replace("PYTHON", sys.executable).split(), status=status)


def test_what_other_tools_call_it_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    """No suggestion names an option, a report or a format that there is not, and none is for an option that there is."""
    own = of_command("run")[0]._option_string_actions
    assert not set(elsewhere.OPTIONS) & set(own)
    for text in (*elsewhere.OPTIONS.values(), *elsewhere.FORMATS.values()):
        words = re.findall(r"`occa_prof (\S+)([^`]*)`", text) or [("run", text)]
        for command, rest in words:
            known = of_command(command)[0]._option_string_actions
            assert set(re.findall(r"(?<!\S)--?[a-z][\w-]*", rest)) <= set(known), text
            for name in re.findall(r"--format ([a-z]\w*)", rest):
                assert name in (known["--format"].choices or ()), text
    asked = re.findall(r"--report (\w+_\w+(?:,\w+)*)", " ".join(elsewhere.OPTIONS.values()))
    assert asked and {name for names in asked for name in names.split(",")} <= set(reports.definitions())


def test_other_profilers_reports_are_known(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for theirs, ours in {
        "cuda_gpu_kern_sum": "gpu_kern_sum", "gpukernsum": "gpu_kern_sum", "cuda_api_sum": "api_sum", "cudaapisum": "api_sum",
        "gputrace": "gpu_trace", "cuda_gpu_trace": "gpu_trace", "cuda_gpu_mem_time_sum": "gpu_mem_time_sum",
        "nvtx_sum": "range_sum", "nvtx_pushpop_sum": "range_sum", "print-gpu-trace": "gpu_trace",
    }.items():  # fmt: skip
        assert f"did you mean {ours}?" in said(capsys, "report", str(run), "--report", theirs), theirs


def test_help_of_topics(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert main(["help"]) == 0
    out = capsys.readouterr().out
    assert "  mpi-jobs" in out and "MPI jobs" in out
    assert main(["help", "timeline"]) == 0
    assert "usage: occa_prof timeline" in capsys.readouterr().out
    assert main(["help", "--page", "timeline"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/timeline.md").read_text()
    assert main(["help", "gpu_kern_sum"]) == 0
    assert "| `total_ns` | ns | Total |" in capsys.readouterr().out
    # An installed package has no clone around it, but pages of its own.
    monkeypatch.setattr(install, "PACKAGE", tmp_path / "occatrace")
    monkeypatch.setattr(install, "DOCS", tmp_path / "occatrace/docs")
    (tmp_path / "occatrace/docs").mkdir(parents=True)
    (tmp_path / "occatrace/docs/colours.md").write_text("# Colours\n")
    assert main(["help", "colours"]) == 0
    assert capsys.readouterr().out == "# Colours\n"


def test_words_that_lead_to_pages_do() -> None:
    pages = topics.topics()
    assert {target for target in topics.ALSO.values() if target not in pages} == set()
    text = "".join(of_command(name)[0].format_help() for name in COMMANDS)
    named = set(re.findall(r"occa_prof help ([a-z-]+)[)`.]", re.sub(r"\s+", " ", text)))
    assert {"choosing", "counters", "schema", "critical-path"} <= named <= set(pages)
    assert "docs/" not in text


def test_help_names_each_subcommand_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == "usage: occa_prof [OPTIONS] PROGRAM [ARGUMENTS...]" and sum("usage:" in line for line in lines) == 1
    )
    first = [line.split()[0] for line in lines if line.startswith("  ")]
    assert [word for word in first if word in COMMANDS] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_defaults(name: str) -> None:
    parser, _ = of_command(name)
    text = parser.format_help()
    assert "examples:" in text
    for action in parser._actions:
        if action.default not in (None, False, [], "==SUPPRESS=="):
            assert "default" in (action.help or ""), action.option_strings
    for words, _about in examples.EXAMPLES.get(name, ()):
        found = re.search(rf"occa_prof {name} ?(.*?)(\)\"|$)", words)
        assert found, words
        given = shlex.split(re.sub(r" [|>] .*", "", found[1]))
        assert parser.parse_known_args(given)[1] == []


# ---- completion ----

BASH = r"""
eval "$(occa_prof completion bash)"
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
while IFS= read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
    _python_argcomplete occa_prof
    IFS=,; printf '%s\n' "${COMPREPLY[*]}"; unset IFS
done
"""


@pytest.fixture
def shell(run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run called `demo`, in which occa_prof is found."""
    pytest.importorskip("argcomplete")
    command = Path(sys.executable).with_name("occa_prof")
    if not command.exists():
        pytest.skip("occa_prof is not installed beside this Python")
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    folder = run.parent / "here"
    folder.mkdir()
    run.rename(folder / "demo")
    (folder / "made.txt").touch()
    return folder


def test_bash_completes(shell: Path) -> None:
    asked = {
        "occa_prof repo": "report ",
        "occa_prof report d": "demo ",
        "occa_prof report demo --repor": "--report ",
        "occa_prof report demo --report gpu_kern_s": "gpu_kern_sum ",
        "occa_prof report demo --report api_sum,gpu_kern_s": "api_sum,gpu_kern_sum ",
        "occa_prof view demo --at ga": "gap:1 ",
        "occa_prof view demo --at kernel:addV": "addVectors ",
        "occa_prof why demo --what-if kernel:addV": r"addVectors\*0.5 ",
        "occa_prof why demo --what-if build*0,netw": r"build\*0,network\*0 ",
        "occa_prof schema histo": "history ",
        "occa_prof report demo --format mark": "markdown ",
        "occa_prof report demo --filter-name addV": "addVectors ",
        "occa_prof --kernels addV": "addVectors ",
        "occa_prof compare A=d": "demo ",
        "occa_prof -m ta": "tally ",
        "occa_prof --trace cuda,opencl": "cuda,opencl ",
        "occa_prof help mpi-": "mpi-jobs ",
        "occa_prof -q -o x ./program ma": "made.txt ",
        "occa_prof report demo --no-such": "",
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH],
        input="\n".join(asked) + "\n",
        cwd=shell,
        capture_output=True,
        text=True,
        check=True,
    )
    given = dict(zip(asked, done.stdout.splitlines(), strict=True))
    assert {line: words.rstrip() for line, words in given.items()} == {k: v.rstrip() for k, v in asked.items()}


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(shell: Path) -> None:
    script = (
        "occa_prof completion fish | source;"
        "complete -C 'occa_prof report demo --report gpu_kern_s'; complete -C 'occa_prof report d'"
    )
    done = subprocess.run(["fish", "--no-config", "-c", script], cwd=shell, capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["gpu_kern_sum", "demo"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes(shell: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(shell)
        os.environ.update(TERM="dumb", PS1="> ", HOME=str(shell))
        os.execvp("zsh", ["zsh", "-f", "-i"])
    try:

        def until(wanted: str) -> None:
            text = ""
            while wanted not in text:
                assert select.select([terminal], [], [], PATIENCE)[0], text
                text += os.read(terminal, 4096).decode(errors="replace")

        os.write(terminal, b'eval "$(occa_prof completion zsh)"; echo rea""dy\n')
        until("ready")
        os.write(terminal, b"occa_prof report demo --format mark\t")
        until("markdown")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def test_a_broken_line_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "occa_prof x")
    monkeypatch.setenv("COMP_POINT", "zzz")
    assert completion.answer() == 1


# ---- manual pages ----


def test_manual_pages(tmp_path: Path) -> None:
    # As in the build: Python has nothing but its standard library.
    command = [sys.executable, "-B", "-S", "-m", "occatrace.cli.manual", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    pages = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert pages == manual.pages() and len(pages) == len(COMMANDS) + 1
    assert r"\fB\-\-what\-if\fR \fICHANGE\fR" in pages["occa_prof-why.1"]
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-b", "-z", *map(str, sorted(tmp_path.iterdir()))],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and done.stderr == ""


# ---- progress ----


class Drawn:
    """In place of rich's bar."""

    task_ids = (0,)

    def __init__(self) -> None:
        self.lines: list[str] = []

    def start(self) -> None:
        self.lines.append("start")

    def update(self, task: int, *, description: str, total: float | None, completed: float) -> None:
        self.lines.append(f"{description} {completed if total else '?'}")

    def stop(self) -> None:
        self.lines.append("stop")


def test_the_bar_waits_a_second_and_follows_the_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, now = Drawn(), [0.0]
    monkeypatch.setattr(bar, "_live", lambda: drawn)
    monkeypatch.setattr(progress, "_shown", bar.Bar(1.0, lambda: now[0]))
    with progress.phase("short"):
        now[0] = 0.5
        progress.update(0.5)
    assert drawn.lines == []
    now[0] = 1.5
    with progress.phase("outer"):
        with progress.phase("inner"):
            progress.update(0.25)
        assert list(progress.along([1])) == [1]
    assert drawn.lines == ["start", "outer ?", "inner ?", "inner 0.25", "outer ?", "outer ?", "stop"]


def test_the_bar_is_for_terminals_only(run: Path) -> None:
    """The same output in a pipe; what is drawn is on a terminal's standard error, and leaves it."""
    code = "from occatrace.cli import bar, dispatch; bar.DELAY_S = -1; "
    code += f"dispatch.main(['report', {str(run)!r}])"
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert piped.stderr == ""
    ours, theirs = pty.openpty()
    shown = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, text=True, cwd=ROOT,
                             env={**os.environ, "TERM": "xterm"})  # fmt: skip
    os.close(theirs)
    said = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:
            break
        if not more:
            break
        said += more
    assert shown.communicate()[0] == piped.stdout and shown.returncode == 0
    os.close(ours)
    assert b"computing the summary" in said and b"\x1b[?25l" not in said


def test_files_in_the_run_folder_are_made_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("timeline", "flamegraph"):
        assert main([command, str(run)]) == 0
        first = capsys.readouterr().out
        assert main([command, str(run)]) == 0
        assert capsys.readouterr().out == first
