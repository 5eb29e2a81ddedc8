"""Every command ends when it is asked to and when its output cannot be written: with the documented status, at most one line,
no traceback, and nothing left behind.

Signals come at moments of the program, not of the clock: when it imports a module, makes a folder, removes one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from occatrace.cli.commands import COMMANDS
from tests.support.fake import demo_trace, recorded
from tests.support.foreign import nsys

COMMAND = (sys.executable, "-m", "occatrace.cli")
PATIENCE = 300.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Sends a signal to its own process when Python is about to do what MOMENT says (audit event and part of its argument).
HOOK = """
import os, sys
event, part, number, marker = os.environ.pop("OCCATRACE_TEST_MOMENT").split("|")
def hook(name, args):
    if name == event and any(isinstance(arg, (str, os.PathLike)) and part in str(arg) for arg in args) \\
            and not os.path.exists(marker):
        os.close(os.open(marker, os.O_CREAT))
        os.kill(os.getpid(), int(number))
sys.addaudithook(hook)
"""
# Of every command: the first import after the handlers are there, and the command's own module.
EARLY = (("import", "occatrace.cli.dispatch"), ("open", "/{name}."))
# Of those that read runs: a module in C++, which must not see an exception of ours; temporary files made, and removed.
MODULE, MADE, REMOVED = ("import", "_duckdb"), ("os.mkdir", ".scratch-"), ("shutil.rmtree", ".scratch-")
LATER = {
    "report": (MODULE, REMOVED),
    "trace": (REMOVED,),
    "query": (MADE,),
    "export": (REMOVED,),
    "compare": (MODULE,),
    "timeline": (MADE,),
    "flamegraph": (REMOVED,),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run for all of them: none changes it."""
    return recorded(tmp_path_factory.mktemp("ending"), demo_trace())


def words_of(run: Path, tmp: Path) -> dict[str, tuple[object, ...]]:
    """Something for each command to do with a finished run."""
    return {
        "run": ("--show-config",),
        "report": (run,),
        "top": (run,),
        "annotate": (run,),
        "trace": (run,),
        "query": (run, "FROM kernels"),
        "export": (run, "-o", tmp / "export", "--force"),
        "import": (nsys(tmp / f"{os.urandom(4).hex()}.sqlite"), "-o", tmp / "imported", "--force"),
        "compare": (run, run),
        "ci": (run, run, "-o", tmp / "site"),
        "why": (run,),
        "efficiency": (run,),
        "timeline": (run, "-o", tmp / "timeline", "--force"),
        "view": (run, "--no-browser", "--port", "-1"),
        "flamegraph": (run, "-o", tmp / "flames.html", "--force"),
        "doctor": ("--help",),
        "paths": (),
        "completion": ("bash",),
        "help": (),
        "digest": (run,),
        "mcp": (run.parent,),
        "schema": ("report",),
        "start": ("a/name/that/is/none",),
        "stop": ("a/name/that/is/none",),
        "pause": (run,),
        "resume": (run,),
        "env": (),
    }


# While an export is written.
WRITTEN = (("os.mkdir", "/.export."), ("open", "tables.json"))


def heard() -> None:
    """In a child: signals are not ignored, as they are where the tests were started in the background."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def execute(name: str, run: Path, tmp_path: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """A command, with a folder for temporary files of its own."""
    (tmp_path / "tmp").mkdir(exist_ok=True)
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), **more.pop("env", {})}
    words = [*COMMAND, name, *map(str, words_of(run, tmp_path)[name])]
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | more
    more["preexec_fn"] = heard
    return subprocess.run(words, text=True, env=env, timeout=PATIENCE, check=False, **more)


def left(run: Path, tmp_path: Path) -> list[str]:
    """Temporary files."""
    hidden = [path.name for path in run.iterdir() if path.name.startswith(".") and path.name != ".tables.lock"]
    partial = [path.name for path in (*run.iterdir(), *tmp_path.iterdir()) if "partial" in path.name]
    return [*hidden, *partial, *(path.name for path in (tmp_path / "tmp").iterdir())]


def test_every_command_is_here(tmp_path: Path) -> None:
    assert set(words_of(tmp_path, tmp_path)) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_signals(name: str, run: Path, tmp_path: Path) -> None:
    """The status says which signal; nothing is said of it and nothing stays."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(HOOK)
    path = f"{site}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    for number, (event, part) in enumerate((*EARLY, *LATER.get(name, ()))):
        sent = SIGNALS[(number + len(name)) % len(SIGNALS)]
        marker = tmp_path / f"marker{number}"
        moment = f"{event}|{part.format(name=name)}|{int(sent)}|{marker}"
        done = execute(name, run, tmp_path, env={"OCCATRACE_TEST_MOMENT": moment, "PYTHONPATH": path})
        assert marker.exists() and done.returncode == 128 + sent, (moment, done)
        if (event, part) != REMOVED:  # it has done its work then
            assert (done.stdout, done.stderr) == ("", ""), moment
        assert "Traceback" not in done.stderr, moment
        assert not left(run, tmp_path), moment


@pytest.mark.parametrize("moment", WRITTEN)
@pytest.mark.parametrize("before", [False, True])
def test_an_export_is_whole_or_not_there(before: bool, moment: tuple[str, str], run: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(HOOK)
    if before:
        assert execute("export", run, tmp_path).returncode == 0
    there = sorted((tmp_path / "export").glob("*"))
    told = "|".join((*moment, str(int(signal.SIGTERM)), str(tmp_path / "marker")))
    path = f"{site}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    done = execute("export", run, tmp_path, env={"OCCATRACE_TEST_MOMENT": told, "PYTHONPATH": path})
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert sorted((tmp_path / "export").glob("*")) == there and bool(there) == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".export")] and not left(run, tmp_path)


NATIVE = """
import hashlib, sys, threading
from pathlib import Path
from occatrace.core import halfway, signals
from occatrace.cli import ending
signals.hear(signals.leave)
ending.undo_first()
ending.watch()
halfway.make_folder(Path(sys.argv[1]))
print("ready", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", (1 << 31) - 1)
"""


@pytest.mark.parametrize("sent", SIGNALS)
def test_native_code_is_ended(sent: signal.Signals, tmp_path: Path) -> None:
    """Where no handler in Python runs: this one takes half an hour and does not look for signals."""
    words: list[str | Path] = [sys.executable, "-c", NATIVE, tmp_path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=heard) as running:
        assert running.stdout and running.stdout.readline() == "ready\n"
        running.send_signal(sent)
        assert running.wait(PATIENCE) == 128 + sent
    assert list(tmp_path.iterdir()) == []


def test_ignored_signals_stay_ignored(run: Path, tmp_path: Path) -> None:
    """As under nohup."""
    script = f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({COMMAND[0]!r}, {[*COMMAND, 'env']!r})"
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(HOOK)
    moment = f"open|/env.|{int(signal.SIGHUP)}|{tmp_path / 'marker'}"
    env = {**os.environ, "OCCATRACE_TEST_MOMENT": moment, "PYTHONPATH": str(site)}
    start = [sys.executable, "-S", "-c", script]
    done = subprocess.run(start, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (tmp_path / "marker").exists() and done.returncode == 0 and "LD_PRELOAD" in done.stdout, done


def test_the_script_of_a_clone(run: Path, tmp_path: Path) -> None:
    """Python is started with the signals blocked, and has them as they were when the command begins."""
    script = Path(sys.executable).parent / "occa_prof"
    if not script.exists() or "occatrace.entry" not in script.read_text():
        pytest.skip("there is no script of tools/setup")
    done = subprocess.run([script, "report", run], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and "addVectors" in done.stdout, done.stderr
    words: list[str | Path] = [script, "-q", "-o", tmp_path / "shown", "grep", "^SigBlk", "/proc/self/status"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.split() == ["SigBlk:", f"{0:016x}"], done.stderr


# What goes to standard output: everything but what is for a file, a running program, or asked for by a client.
SPEAKING = sorted(set(COMMANDS) - {"top", "view", "mcp", "start", "stop", "pause", "resume"})


@pytest.mark.parametrize("name", SPEAKING)
def test_output_that_cannot_be_written(name: str, run: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = execute(name, run, tmp_path, stdout=full)
    assert done.returncode == 2, done
    said = [line for line in done.stderr.splitlines() if not line.startswith("! ")]
    assert said == ["occa_prof: cannot write to standard output: No space left on device"]
    assert not left(run, tmp_path)


@pytest.mark.parametrize("name", COMMANDS)
def test_closed_streams(name: str, run: Path, tmp_path: Path) -> None:
    """All three closed, as a daemon may start things: the status tells what cannot be told otherwise."""
    words = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *COMMAND, name, *map(str, words_of(run, tmp_path)[name])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_the_interpreter_waits_for_what_is_being_imported() -> None:
    """A program that ends at once: DuckDB's module is then still being initialized."""
    code = """
import atexit, sys
atexit.register(lambda: print({"_duckdb", "duckdb"} & set(sys.modules) != set()))
from occatrace.cli import recording
from occatrace.run.control import Plan
recording.start_loading(Plan())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_nothing_is_taken_apart_at_the_end() -> None:
    """That takes 20 ms and more with DuckDB and numpy. Functions for the end of the interpreter are called."""
    code = """if True:
        import atexit, sys
        from occatrace.entry import main
        class Object:
            def __del__(self, write=sys.stderr.write):
                write("taken apart")
        kept = Object()
        atexit.register(lambda: print("at exit", flush=True))
        sys.exit(main())
    """
    done = subprocess.run([sys.executable, "-c", code, "nosuch"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 127 and done.stdout == "at exit\n"
    assert "not found" in done.stderr and "taken apart" not in done.stderr
