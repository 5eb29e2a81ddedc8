"""`occa_prof PROGRAM` as a shell sees it: exit status, streams, signals, errors, and what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from occatrace.record.session import SHM, plan_buffers, possible_cpus
from occatrace.store.tables import open_store
from tests.support.suites.session import (
    CLONE,
    IS_ROOT,
    OCCA_PROF,
    PYTHON,
    ROOT,
    Person,
    environment,
    left_of,
    nothing_left,
    processes_named,
    processes_of,
    wait_for,
)

TICK_BYTES = 12  # of an event of the probe in the trace


def profile(person: Person, *words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    return person.run([*OCCA_PROF, *map(str, words)], **more)


def info(run: Path) -> dict[str, Any]:
    """run.json of a run of somebody else's."""
    result: dict[str, Any] = json.loads((run / "run.json").read_text())
    return result


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_recorded(person: Person, folder: Path, probe: Path) -> None:
    done = profile(person, "-o", "run", probe, 10)
    assert done.returncode == 0, done.stderr
    run = info(folder / "run")
    assert run["exit_status"] == 0
    assert run["ended"]
    assert run["program"] == [str(probe), "10"]
    assert len(run["processes"]) == 1
    assert run["session"]["state"] == "recorded"
    assert not [note for note in run["notes"] if "no record" in note]
    assert (folder / "run").stat().st_mode & 0o777 == 0o700
    nothing_left(run["id"])


def test_damage_is_told(user: Person, folder: Path, probe: Path) -> None:
    assert profile(user, "-q", "-m", "full", "-o", "run", probe, "50").returncode == 0
    whole = profile(user, "report", "run", "--verify")
    assert (whole.returncode, whole.stderr) == (0, "")
    assert whole.stdout.endswith(" bytes: as they were recorded\n")
    streams = sorted((folder / "run/trace").rglob("64-bit/occatrace_*"))
    changed, missing = streams[0], next((folder / "run/trace").rglob("metadata"))
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    missing.unlink()
    done = profile(user, "report", "run", "--verify")
    assert (done.returncode, done.stderr) == (2, "")
    first, second, last = done.stdout.splitlines()
    assert first.startswith(f"{missing} is missing (") and second.startswith(f"{changed} was changed: ")
    assert last == f"2 of {whole.stdout.split(',')[0]} damaged"


@pytest.mark.parametrize("status", [0, 3, 255])
def test_exit_status(user: Person, probe: Path, status: int) -> None:
    assert profile(user, "-o", "run", probe, 1, "exit", status).returncode == status


@pytest.mark.parametrize("sent", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM])
def test_status_of_a_signal(user: Person, folder: Path, probe: Path, sent: signal.Signals) -> None:
    done = profile(user, "-o", "run", probe, 1, "kill", int(sent))
    assert done.returncode == 128 + sent
    run = info(folder / "run")
    assert run["exit_status"] == 128 + sent
    assert run["session"]["state"] == "recorded"
    nothing_left(run["id"])


def test_streams_and_arguments_are_untouched(user: Person) -> None:
    script = 'cat; echo "$@"; echo err >&2'
    done = profile(user, "-q", "sh", "-c", script, "sh", "-o", "x", "--report", "-m", "HIP", "--", input="in\n")
    assert done.stdout == "in\n-o x --report -m HIP --\n"
    assert done.stderr == "err\n"


def test_signals_and_descriptors_are_as_without_us(user: Person) -> None:
    show = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd"
    native = user.run(["sh", "-c", show])
    traced = profile(user, "-q", "sh", "-c", show)
    # posix_spawn of glibc has its own two signals (32, 33) ignored until the program's glibc wants them.
    ignored = re.compile(r"(?<=SigIgn:\t)\w+")
    without_glibcs = ignored.sub(lambda m: f"{int(m[0], 16) & ~0x180000000:016x}", traced.stdout)
    assert without_glibcs == native.stdout


def test_closed_streams(user: Person, folder: Path, probe: Path) -> None:
    """A daemon's way of starting things: what is closed stays closed for the program, and nothing of ours gets there."""
    words = " ".join([*OCCA_PROF, "-o", "run", str(probe), "5"])
    done = user.run(["sh", "-c", f"{words} <&- 2>&-"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert info(folder / "run")["session"]["state"] == "recorded"
    done = user.run(["sh", "-c", f"{words.replace(' run ', ' run2 ')} >&- <&-"])
    assert done.returncode == 0
    assert info(folder / "run2")["session"]["state"] == "recorded"


def test_program_not_found(user: Person, folder: Path) -> None:
    done = profile(user, "nosuchprogram")
    assert done.returncode == 127
    assert done.stderr == "occa_prof: nosuchprogram: program not found; give its path, or add its folder to PATH\n"
    (folder / "here").touch()
    assert "did you mean ./here?" in profile(user, "here").stderr
    assert "did you mean `occa_prof report`?" in profile(user, "repotr", "run").stderr
    assert "did you mean `occa_prof report RUN --report advice`?" in profile(user, "advice", "run").stderr
    assert "did you mean `occa_prof report RUN --report api_sum`?" in profile(user, "cuda_api_sum", "run").stderr
    assert profile(user, "./nosuch").returncode == 127
    assert sorted(p.name for p in folder.iterdir()) == ["here"]


def test_a_run_in_the_place_of_the_program(user: Person, folder: Path, probe: Path) -> None:
    profile(user, "-q", "-o", "my run", str(probe), "5")
    for name, status in (("my run", 127), ("./my run", 126)):
        done = profile(user, name)
        assert done.returncode == status
        assert done.stderr.endswith("it is a run: `occa_prof report 'my run'` shows it\n")
        assert done.stderr.count("\n") == 1


def test_a_folder_that_cannot_be_written_to(user: Person, folder: Path, probe: Path) -> None:
    """The program runs and is recorded elsewhere; a place that was asked for is not exchanged for another."""
    place, temporary = folder / "fixed", folder / "my tmp"
    place.mkdir()
    temporary.mkdir(mode=0o777)
    temporary.chmod(0o777)
    place.chmod(0o555)
    words = [*OCCA_PROF, str(probe), "5"]
    done = user.run(["sh", "-c", f"cd {place} && TMPDIR='{temporary}' {' '.join(words)}"])
    (run,) = temporary.glob("occatrace-*/run.json")
    assert done.returncode == 0 and info(run.parent)["session"]["state"] == "recorded"
    assert f"the run goes to {run.parent}" in done.stderr and f"occa_prof report '{run.parent}'" in done.stderr
    refused = user.run(["sh", "-c", f"cd {place} && {' '.join([*OCCA_PROF, '-o', 'x', 'true'])}"])
    assert refused.returncode == 2 and "choose another folder by -o" in refused.stderr


def test_program_not_executable(user: Person, folder: Path) -> None:
    (folder / "plain").write_text("x")
    done = profile(user, "./plain")
    assert done.returncode == 126
    assert "chmod +x plain" in done.stderr
    assert profile(user, folder).returncode == 126
    (folder / "nonsense").write_bytes(b"\0\1\2")
    (folder / "nonsense").chmod(0o755)
    assert profile(user, "./nonsense").returncode == 126
    (folder / "orphan").write_text("#!/no/such/interpreter\n")
    (folder / "orphan").chmod(0o755)
    done = profile(user, "./orphan")
    assert done.returncode == 126
    assert "interpreter" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(folder.glob("occatrace-*"))


def test_script_without_interpreter_line(user: Person, folder: Path) -> None:
    (folder / "script").write_text('echo "$0 $1"\n')
    (folder / "script").chmod(0o755)
    assert profile(user, "-q", "./script", "a").stdout == "script a\n"


def test_program_called_like_a_subcommand(user: Person, folder: Path) -> None:
    (folder / "report").write_text("#!/bin/sh\necho mine\n")
    (folder / "report").chmod(0o755)
    assert profile(user, "-q", "--", "./report").stdout == "mine\n"
    assert profile(user, "-q", "./report").stdout == "mine\n"


def test_run_folder_exists(user: Person, folder: Path, probe: Path) -> None:
    profile(user, "-q", "-o", "run", probe, 1)
    first = info(folder / "run")["id"]
    done = profile(user, "-o", "run", probe, 1)
    assert done.returncode == 2
    assert (
        done.stderr == "occa_prof: run exists already: choose another name by -o, or add --force to replace that run\n"
    )
    assert profile(user, "-q", "--force", "-o", "run", probe, 1).returncode == 0
    assert info(folder / "run")["id"] != first
    (folder / "mine").mkdir()
    (folder / "mine" / "precious").touch()
    done = profile(user, "--force", "-o", "mine", probe, 1)
    assert done.returncode == 2
    assert "is not a run" in done.stderr
    assert (folder / "mine" / "precious").exists()


def test_unwritable_output(user: Person, folder: Path, probe: Path) -> None:
    (folder / "locked").mkdir(mode=0o555)
    if IS_ROOT:
        os.chown(folder / "locked", 0, 0)
    for options in (["-o", "locked/run"], ["--log-file", "locked/log"]):
        done = profile(user, *options, probe, 1)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert "Permission denied" in done.stderr
        assert "another" in done.stderr


def test_somebody_elses_run(root: Person, user: Person, folder: Path, probe: Path) -> None:
    assert profile(root, "-q", "-o", "run", probe, 1).returncode == 0
    for words in (["--force", "-o", "run", probe, 1], ["report", "run"]):
        done = profile(user, *words)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_unknown_report_is_told_before_the_program_runs(user: Person) -> None:
    done = profile(user, "--report", "nosuch", "echo", "ran")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no report 'nosuch'; `occa_prof report --list` lists all " in done.stderr


def test_log_file(user: Person, folder: Path, probe: Path) -> None:
    done = profile(user, "-o", "run", "--log-file", "log", probe, 1)
    assert (folder / "log").read_text().endswith("occa_prof: the run is in run; again: occa_prof report run\n")
    assert done.stderr == ""


def test_no_lttng(user: Person, folder: Path, probe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCCATRACE_SESSIOND", "/nonexistent")
    done = profile(user, probe, 1, "exit", 4)
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "runs without being traced: lttng-sessiond is not installed" in done.stderr
    assert "occa_prof doctor" in done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "message"), [("-v 300000", "may map only 292 MiB"), ("-n 64", "may open only 64 files")]
)
def test_limits_too_low_for_tracing_are_one_line(
    user: Person, folder: Path, probe: Path, limit: str, message: str
) -> None:
    """The program runs as it does without us, and nothing else writes to its streams."""
    command = f'ulimit {limit}; exec "$@"'
    done = user.run(["sh", "-c", command, "sh", *OCCA_PROF, str(probe), "1", "exit", "4"])
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "runs without being traced" in done.stderr
    assert message in done.stderr
    assert list(folder.iterdir()) == []


def test_daemon_that_fails_while_the_program_runs(
    user: Person, folder: Path, probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "fake").write_text("#!/bin/sh\nsleep 0.3; echo 'Error: no such luck' >&2\nexit 1\n")
    (folder / "fake").chmod(0o755)
    monkeypatch.setenv("OCCATRACE_SESSIOND", str(folder / "fake"))
    done = profile(user, "-o", "run", probe, 1, "exit", 6)
    assert done.returncode == 6
    assert len(done.stderr.splitlines()) == 1
    assert "ran without being traced: LTTng's daemon ended as it started: Error: no such luck" in done.stderr
    nothing_left(info(folder / "run")["id"])


def test_a_process_that_lttng_takes_only_the_second_time_is_recorded_from_its_begin(
    user: Person, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LTTng's constructor does not wait for the second registration."""
    source = ROOT / "tests" / "programs" / "session" / "refuse_first.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "refuse.so", source, "-ldl"], check=True)
    daemon = folder / "daemon"
    daemon.write_text(
        f'#!/bin/sh\nLD_PRELOAD="$LD_PRELOAD:{folder}/refuse.so" exec {shutil.which("lttng-sessiond")} "$@"\n'
    )
    daemon.chmod(0o755)
    monkeypatch.setenv("OCCATRACE_SESSIOND", str(daemon))
    texts = "[c.occatrace_intern(b'text %d' % i) for i in range(100)]"
    program = f"import ctypes; c = ctypes.CDLL(None); assert c.occatrace_start(); {texts}"
    done = profile(user, "-q", "-o", "run", PYTHON, "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    with open_store(folder / "run") as store:
        assert store.con.execute("SELECT exit FROM processes").fetchall() == [("exit",)]
        assert store.con.execute("SELECT count(*) FROM names WHERE text LIKE 'text %'").fetchone() == (100,)
        assert store.con.execute("SELECT count(*) FROM losses").fetchone() == (0,)


def test_program_that_outlives_its_parent_is_told(user: Person, folder: Path, probe: Path) -> None:
    started = "while [ ! -s said ]; do sleep 0.05; done"
    done = profile(user, "-o", "run", "sh", "-c", f"{probe} 1 sleep 300 > said 2>&1 & {started}")
    assert done.returncode == 0
    assert re.search(r"still running when the program ended, [^:]*: process \d+ \(probe\)\n", done.stderr)
    run_id = info(folder / "run")["id"]
    for each in processes_named(run_id, "probe"):
        os.kill(each, signal.SIGKILL)
    nothing_left(run_id)


def test_a_child_of_fork_that_goes_on_is_told_though_it_recorded_nothing(user: Person, folder: Path) -> None:
    program = folder / "program.py"
    program.write_text(
        "import ctypes, os, signal\n"
        "assert ctypes.CDLL(None).occatrace_start()\n"
        "if (child := os.fork()) == 0:\n"
        "    null = os.open(os.devnull, os.O_RDWR)\n"
        "    for fd in range(3): os.dup2(null, fd)\n"
        "    signal.pause()\n"
        "print(child, flush=True)\n"
    )
    done = profile(user, "-o", "run", PYTHON, program)
    child = int(done.stdout)
    os.kill(child, signal.SIGKILL)
    assert done.returncode == 0
    assert f"still running when the program ended, and not recorded from then on: process {child} (" in done.stderr
    assert child not in info(folder / "run")["processes"]
    nothing_left(info(folder / "run")["id"])


def test_no_control_library(user: Person, folder: Path, probe: Path) -> None:
    """As where liblttng-ctl is not installed: the module cannot be imported."""
    broken = "import sys; sys.modules['occatrace._session'] = None; from occatrace.entry import main; sys.exit(main())"
    done = user.run([PYTHON, "-c", broken, str(probe), "1", "exit", "5"])
    assert done.returncode == 5
    assert len(done.stderr.splitlines()) == 1
    assert "control library cannot be loaded" in done.stderr
    assert list(folder.iterdir()) == []


def start(user: Person, probe: Path, how: str = "wait") -> tuple[subprocess.Popen[str], int]:
    """A profiled program that waits for a signal; with the id of occa_prof."""
    running = user.start([*OCCA_PROF, "-o", "run", str(probe), "5", how], stderr=subprocess.PIPE)
    assert running.stdout
    assert running.stdout.readline() == "ready\n"
    return running, running.pid


@pytest.mark.parametrize("later", ["report", "run"])
def test_all_killed_at_once(user: Person, folder: Path, probe: Path, later: str) -> None:
    """Program, occa_prof, keeper, daemon and consumer: what was written is read, from the trace and from its buffers, by the
    next report or before the next run sweeps them."""
    # More than a sub-buffer holds, so that a part of them is in the trace already, and less than all of them hold.
    size = plan_buffers(possible_cpus(), shutil.disk_usage(SHM).free, SHM).size
    events = 2 * size // TICK_BYTES
    running = user.start(
        [*OCCA_PROF, "-m", "full", "-o", "run", str(probe), str(events), "wait"], stderr=subprocess.PIPE
    )
    assert running.stdout and running.stdout.readline() == "ready\n"
    run = info(folder / "run")
    for sent in (signal.SIGSTOP, signal.SIGKILL):  # stopped, none of them sees another end
        for pid in (running.pid, *processes_of(run["id"])):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)
    running.communicate(timeout=300)
    assert left_of(run["id"]), "the buffers, and the folder of the sockets"
    if later == "run":
        for path in Path("/tmp").glob(f"occatrace-*-{run['id']}-*"):
            os.utime(path, (0, 0))
        assert profile(user, "-o", "other", probe, "5").returncode == 0
        assert left_of(run["id"]) == []
    done = profile(user, "report", "run", "--format", "json")
    assert done.returncode == 0, done.stderr
    (note,) = json.loads(done.stdout)["run"]["notes"]
    assert note.startswith("everything was killed at once: the last ") and "buffers" in note
    assert profile(user, "report", "run", "--verify").returncode == 0
    assert left_of(run["id"]) == []
    shown = subprocess.run(["babeltrace2", folder / "run" / "trace"], text=True, capture_output=True, check=True).stdout
    numbers = [int(number) for number in re.findall(r"occatrace_probe:tick: .* number = (\d+)", shown)]
    assert numbers == list(range(events))


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_forwarded_and_the_report_comes(
    user: Person, folder: Path, probe: Path, sent: signal.Signals
) -> None:
    running, pid = start(user, probe)
    os.kill(pid, sent)
    out, err = running.communicate(timeout=300)
    assert out == f"signal {int(sent)}, 1 times\n"
    assert running.returncode == 0
    assert "occa_prof report run" in err
    run = info(folder / "run")
    assert run["session"]["state"] == "recorded"
    nothing_left(run["id"])


def test_interrupt_from_a_terminal_comes_once(user: Person, folder: Path, probe: Path) -> None:
    """Ctrl-C goes to the whole foreground group: the program has it already."""
    parent, child = pty.openpty()

    def take_terminal() -> None:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    running = subprocess.Popen(
        user.words([*OCCA_PROF, "-o", "run", str(probe), "5", "wait"]),
        stdin=child,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=take_terminal,
        env=environment(),
    )
    assert running.stdout
    assert running.stdout.readline() == "ready\n"
    os.write(parent, b"\x03")
    out, err = running.communicate(timeout=300)
    assert out == "signal 2, 1 times\n"
    assert running.returncode == 0
    assert "occa_prof report run" in err
    os.close(parent)
    os.close(child)


def test_killed_leaves_a_readable_run_and_nothing_else(user: Person, folder: Path, probe: Path) -> None:
    running, pid = start(user, probe)
    wait_for(lambda: list(folder.glob("run/trace/**/metadata")))
    run = info(folder / "run")
    assert run["ended"] is None
    os.kill(pid, signal.SIGKILL)
    running.wait(300)
    # The program waits for a signal; all else goes at once.
    wait_for(lambda: not [left for left in left_of(run["id"]) if not left.startswith("process")])
    done = profile(user, "report", "run", "--format", "json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert [path.name for path in (folder / "run").rglob(".*") if path.name != ".tables.lock"] == []
    for each in processes_of(run["id"]):
        os.kill(each, signal.SIGTERM)
    running.communicate(timeout=300)
    nothing_left(run["id"])


def test_ended_while_it_analyses(user: Person, folder: Path, probe: Path) -> None:
    """The run is kept; the session and temporary files go."""
    slow = """if True:
        import sys, time
        from occatrace import reports
        def summary(*args, **more):
            print("analysing", flush=True)
            time.sleep(30)
        reports.summary = summary
        from occatrace.entry import main
        sys.exit(main())
    """
    (folder / "tmp").mkdir(mode=0o777)
    (folder / "tmp").chmod(0o777)
    command = ["env", f"TMPDIR={folder}/tmp", PYTHON, "-c", slow, "-o", "run", str(probe), "1"]
    running = user.start(command, stderr=subprocess.PIPE)
    assert running.stdout
    assert running.stdout.readline() == "analysing\n"
    os.kill(running.pid, signal.SIGTERM)
    running.communicate(timeout=300)
    assert running.returncode == 128 + signal.SIGTERM
    run = info(folder / "run")
    assert run["exit_status"] == 0
    nothing_left(run["id"])
    assert list((folder / "tmp").iterdir()) == []


def test_the_signal_that_ended_the_program_comes_again(user: Person, folder: Path, probe: Path) -> None:
    """As Slurm sends SIGTERM to the processes of a step, of its job, and by srun: the report is made all the same."""
    slow = """if True:
        import sys
        from occatrace import reports
        summary = reports.summary
        def slow_summary(*args, **more):
            print("analysing", flush=True)
            sys.stdin.readline()
            return summary(*args, **more)
        reports.summary = slow_summary
        from occatrace.entry import main
        sys.exit(main())
    """
    command = [PYTHON, "-c", slow, "-o", "run", str(probe), "5", "wait"]
    running = user.start(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdin and running.stdout and running.stdout.readline() == "ready\n"
    os.kill(running.pid, signal.SIGTERM)
    assert running.stdout.readline() == "signal 15, 1 times\n"
    assert running.stdout.readline() == "analysing\n"
    os.kill(running.pid, signal.SIGTERM)
    _, said = running.communicate("go on\n", timeout=300)
    assert running.returncode == info(folder / "run")["exit_status"] == 0
    assert "the run is in run" in said and "interrupted" not in said
    nothing_left(info(folder / "run")["id"])


def test_stop_and_continue(user: Person, probe: Path) -> None:
    """As by Ctrl-Z and fg: the group is stopped and continued, nothing is lost."""
    running = user.start(
        [*OCCA_PROF, "-o", "run", str(probe), "5", "wait"], stderr=subprocess.PIPE, start_new_session=True
    )
    assert running.stdout
    assert running.stdout.readline() == "ready\n"
    os.killpg(running.pid, signal.SIGSTOP)
    time.sleep(0.3)
    os.killpg(running.pid, signal.SIGCONT)
    os.kill(running.pid, signal.SIGTERM)
    out, _ = running.communicate(timeout=300)
    assert out == "signal 15, 1 times\n"


def test_nothing_to_trace_is_told(user: Person, folder: Path) -> None:
    done = profile(user, "true")
    assert done.returncode == 0
    assert "nothing was recorded" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == []


def test_a_run_of_nothing_opens(user: Person, folder: Path) -> None:
    """Every view of it, with a line that says so."""
    assert profile(user, "-o", "run", "true").returncode == 0
    for words in (("report", "run"), ("report", "run", "--report", "api_trace"), ("trace", "run"), ("timeline", "run")):
        done = profile(user, *words)
        assert done.returncode == 0 and "nothing was recorded" in done.stdout + done.stderr, (words, done.stderr)
    done = profile(user, "query", "run", "SELECT count(*) AS n FROM calls", "--format", "csv")
    assert done.stdout.split() == ["n", "0"], done.stderr


def test_keep_none(user: Person, folder: Path, probe: Path) -> None:
    assert profile(user, "--keep", "none", probe, 1).returncode == 0
    assert list(folder.iterdir()) == []


def test_doctor(user: Person) -> None:
    done = profile(user, "doctor")
    assert done.returncode == 0, done.stdout
    assert "a tracing session: started and ended" in done.stdout
    assert all(name in done.stdout for name in ("vl_convert", "viztracer", "distributed"))
    assert "occatrace[" not in done.stdout, "no package index has it"


def test_paths_and_env(user: Person) -> None:
    lib = profile(user, "paths", "--lib").stdout.strip()
    assert Path(lib.replace(str(CLONE), str(ROOT), 1), "liboccatrace.so").exists()
    assert f"export LD_PRELOAD={lib}/liboccatrace.so" in profile(user, "env").stdout
