"""The command line without a program: options and programs told apart, buffers planned, runs made and opened."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from occatrace import errors
from occatrace.cli import choice, commands, dispatch, program, rank, recording
from occatrace.cli import run as run_command
from occatrace.cli.dispatch import main
from occatrace.cli.messages import UsageError
from occatrace.core import apis
from occatrace.errors import DaemonError, RunError
from occatrace.record import job
from occatrace.record.session import plan_buffers, possible_cpus, program_environment
from occatrace.run import folder, install, limits, opening, ranks

MIB = 1 << 20


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(allow_abbrev=False)
    run_command.prepare_parser(made)
    return made


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        ("./a.out", ""),
        ("./a.out -m HIP", ""),
        ("-m full ./a.out -m HIP", "-m full"),
        ("-mfull ./a.out", "-mfull"),
        ("--mode=full -q ./a.out", "--mode=full -q"),
        ("-o run --report a --report b prog --report c", "-o run --report a --report b"),
        ("-l ./a.out -l", "-l"),
        ("-q -- report", "-q"),
        ("-q -- -odd-name -x", "-q"),
        ("-", ""),
        ("--nosuch ./a.out", "--nosuch"),
    ],
)
def test_split(words: str, ours: str) -> None:
    own, rest = dispatch.split_program(parser(), words.split())
    assert own == ours.split()
    assert rest == [w for w in words.split()[len(own) :] if w != "--"]


def test_arguments_after_two_dashes_keep_theirs() -> None:
    assert dispatch.split_program(parser(), ["--", "prog", "--", "-q"]) == ([], ["prog", "--", "-q"])


def test_help_names_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", out, re.M) for name in commands.COMMANDS)


def test_no_abbreviations(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        dispatch.main(["--quie", "true"])
    assert left.value.code == 2


@pytest.mark.parametrize(("text", "cpus"), [("0\n", 1), ("0-1\n", 2), ("0-127", 128), ("0-3,8-11", 12)])
def test_possible_cpus(text: str, cpus: int) -> None:
    assert possible_cpus(text) == cpus


@pytest.mark.parametrize(
    ("cpus", "free", "most"),
    [(2, 64 * MIB, 16 * MIB), (128, 64 * MIB, 16 * MIB), (2, 32 << 30, 64 * MIB), (256, 512 << 30, 256 * MIB)],
)
def test_buffers_fit(cpus: int, free: int, most: int) -> None:
    buffers = plan_buffers(cpus, free)
    assert buffers.total <= most
    assert buffers.size & (buffers.size - 1) == 0
    assert buffers.count & (buffers.count - 1) == 0
    # No smaller than need be.
    assert buffers.total * 2 > most or buffers.size == 4 * MIB


def test_small_buffers_are_told() -> None:
    assert "small trace buffers" in (plan_buffers(128, 64 * MIB).note or "")
    assert plan_buffers(2, 64 * MIB).note is None
    assert plan_buffers(128, 500 << 30).note is None


def test_no_room_is_an_error() -> None:
    with pytest.raises(DaemonError, match="--shm-path"):
        plan_buffers(256, 8 * MIB)


def test_buffers_fit_into_the_address_space_that_a_process_may_have() -> None:
    assert plan_buffers(2, 32 << 30, space=None).total == 40 * MIB
    assert plan_buffers(2, 32 << 30, space=1 << 30).total == 20 * MIB
    assert "ulimit -v" in (plan_buffers(128, 32 << 30, space=1 << 30).note or "")


@pytest.mark.parametrize(
    ("space", "files", "cpus", "message"),
    [
        (resource.RLIM_INFINITY, (1024, 4096), 2, None),
        (768 * MIB, (80, 4096), 2, None),
        (768 * MIB - 1, (1024, 4096), 2, "may map only 767 MiB .ulimit -v., .* tracing takes up to 256 MiB"),
        (
            resource.RLIM_INFINITY,
            (79, 4096),
            2,
            "may open only 79 files .ulimit -n., of which LTTng takes 16: allow 80",
        ),
        (resource.RLIM_INFINITY, (100, 100), 2, "only 100 files .ulimit -Hn., LTTng's daemon needs 104 for 2 CPUs"),
        (resource.RLIM_INFINITY, (512, 1 << 20), 256, "LTTng takes 524: allow 588"),
        (resource.RLIM_INFINITY, (resource.RLIM_INFINITY, resource.RLIM_INFINITY), 256, None),
    ],
)
def test_limits_that_are_too_low_are_told_before_the_program_starts(
    monkeypatch: pytest.MonkeyPatch, space: int, files: tuple[int, int], cpus: int, message: str | None
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)  # root's daemon may have more than we
    monkeypatch.setattr(resource, "getrlimit", {resource.RLIMIT_AS: (space, space), resource.RLIMIT_NOFILE: files}.get)
    if message is None:
        limits.check(cpus)
    else:
        with pytest.raises(DaemonError, match=message):
            limits.check(cpus)


def test_the_daemon_gets_as_many_descriptors_as_are_allowed() -> None:
    """Whatever the soft limit is: the keeper raises it, or lowers it, for a daemon closes every possible one as it starts."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for soft, wanted in ((80, 300), (300, 100)):
        ours, theirs = socket.socketpair()
        with tempfile.TemporaryFile() as said:
            keeper = subprocess.Popen(
                [install.KEEPER, "-c", str(theirs.fileno()), "-n", str(wanted), "/bin/sh", "-c", "ulimit -n >&0"],
                pass_fds=[theirs.fileno()],
                stdin=said,
                preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard)),
            )
            theirs.close()
            assert ours.recv(1) == b"X"  # it has ended
            ours.close()
            assert keeper.wait() == 0
            said.seek(0)
            assert said.read() == b"%d\n" % wanted


def test_choice_of_apis() -> None:
    entries: dict[str, Any] = {name: {} for name in ("cl", "mpi", "annotation", "process")} | {
        "blas": {"on_request": True}
    }
    model = {"apis": entries}

    def chosen(words: str) -> str:
        result = apis.parse(words, model)
        return "" if result is None else result.variable

    assert chosen("default") == ""
    assert chosen("CL, nvtx") == "annotation,cl,nvtx"
    assert chosen("default,blas") == "annotation,blas,cl,itt,mpi,nvtx,roctx"
    assert chosen("none") == "none"
    assert chosen("cl,tbb") == "annotation,cl,itt,tbb"
    names = "there are: annotation, blas, cl, itt, mpi, nvtx, roctx, tbb, default, none"
    for wrong in ("cl,x", "process", "", "none,cl"):
        with pytest.raises(apis.UnknownName, match=names):
            apis.parse(wrong, model)


def test_environment_has_only_what_is_chosen(tmp_path: Path) -> None:
    model = apis.read_model()
    only_mpi = program_environment({"NVTX_INJECTION64_PATH": "theirs"}, "full", tmp_path, apis.parse("mpi", model))
    assert only_mpi["OCCATRACE_TRACE"] == "mpi"
    assert "OPENCL_LAYERS" not in only_mpi and "INTEL_LIBITTNOTIFY64" not in only_mpi
    assert only_mpi["NVTX_INJECTION64_PATH"] == "theirs"
    itt = program_environment({"OCCATRACE_TRACE": "x"}, "full", tmp_path, apis.parse("itt", model))
    assert "INTEL_LIBITTNOTIFY64" in itt and "NVTX_INJECTION64_PATH" not in itt
    assert itt["OCCATRACE_TRACE"] == "annotation,itt"
    assert "OCCATRACE_TRACE" not in program_environment({"OCCATRACE_TRACE": "x"}, "full", tmp_path)


def test_unknown_api_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"^--trace: no API 'opengl' is traced; there are: .*cuda.*opencl.*, none$"):
        choice.traced_of("opengl")


def test_environment_keeps_what_was_there(tmp_path: Path) -> None:
    env = program_environment({"LD_PRELOAD": "theirs.so", "OPENCL_LAYERS": "layer.so", "X": "y"}, "full", tmp_path)
    # Between them what belongs to libraries of this system.
    assert re.fullmatch(r"[^:]*/liboccatrace\.so(:[^:]*/liboccatrace_\w+\.so)*:theirs\.so", env["LD_PRELOAD"])
    assert env["OPENCL_LAYERS"].startswith("layer.so")
    assert (env["X"], env["OCCATRACE_MODE"]) == ("y", "full")
    assert env["ASAN_OPTIONS"] == "verify_asan_link_order=0"
    theirs = program_environment({"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=1"}, "full", tmp_path)
    assert theirs["ASAN_OPTIONS"] == "verify_asan_link_order=0:detect_leaks=0:verify_asan_link_order=1"


def test_signals_are_touched_for_samples_only(tmp_path: Path) -> None:
    """The library is there with --sample-stacks, before the core, which has none of its functions."""
    plain, sampled = (program_environment({}, "full", tmp_path, None, wanted)["LD_PRELOAD"] for wanted in (False, True))
    assert install.SIGNALS.name not in plain
    assert [Path(path).name for path in sampled.split(":")][:2] == [install.SIGNALS.name, install.PRELOAD.name]
    functions = {}
    for library in (install.SIGNALS, install.PRELOAD):
        symbols = subprocess.run(
            ["nm", "-D", "--defined-only", library], text=True, capture_output=True, check=True
        ).stdout
        functions[library] = {line.split()[-1] for line in symbols.splitlines()}
    assert {"sigaction", "signal", "pthread_sigmask", "sigwait", "pthread_create"} <= functions[install.SIGNALS]
    assert not functions[install.SIGNALS] & functions[install.PRELOAD]


def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "tool").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}/one:{tmp_path}/two")
    with pytest.raises(program.ProgramError) as barred:
        program.find("tool")
    assert barred.value.status == program.NOT_EXECUTABLE
    (tmp_path / "two" / "tool").touch(mode=0o755)
    assert program.find("tool") == tmp_path / "two" / "tool"
    with pytest.raises(program.ProgramError) as absent:
        program.find("other")
    assert absent.value.status == program.NOT_FOUND


def info(**more: object) -> folder.RunInfo:
    return folder.RunInfo(program=("a.out", "-m", "HIP"), **more)  # type: ignore[arg-type]


def test_the_program_gets_the_descriptors_that_we_were_given_and_no_others() -> None:
    """liblttng-ctl, in another thread, opens sockets that every program inherits."""
    given = os.dup(0)
    os.set_inheritable(given, True)
    guard = program.SignalGuard(set(), program.inheritable())
    opened = os.dup(0)
    os.set_inheritable(opened, True)
    try:
        asks = f"test -e /proc/self/fd/{given} && test ! -e /proc/self/fd/{opened}"
        child = program.spawn(Path("/bin/sh"), ["sh", "-c", asks], os.environ, guard)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        os.close(given)
        os.close(opened)


def test_signals_are_heard_again_where_no_run_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    (tmp_path / "there").touch()
    assert main(["-o", str(tmp_path / "there"), "true"]) == 2
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before

    def none(_: object) -> None:
        raise OSError

    monkeypatch.setattr(job, "find_desk", none)
    with pytest.raises(OSError):
        rank.run(argparse.Namespace(), Path("/bin/true"), ranks.Place(0, 2))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_run_json_that_cannot_be_written_takes_nothing_else_with_it(tmp_path: Path) -> None:
    made = folder.create(tmp_path / "r", info())
    (tmp_path / "r" / "run.json").unlink()
    (tmp_path / "r" / "run.json" / "x").mkdir(parents=True)
    said: list[str] = []
    assert recording.note_in(made, said.append, exit_status=3) == made
    (line,) = said
    assert line.startswith("run.json does not say how the run ended: ")


def test_no_empty_folder_stays_where_no_run_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folder, "_write", full)
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        with pytest.raises(RunError, match="No space left"):
            folder.create(tmp_path / name, info())
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_run_round_trip(tmp_path: Path) -> None:
    made = folder.create(tmp_path / "r", info(notes=("x",), processes=(1, 2))).updated(exit_status=3)
    assert opening.open_run(tmp_path / "r") == made
    assert made.info.exit_status == 3


def test_names_that_are_no_text(tmp_path: Path) -> None:
    made = folder.create(tmp_path / "r", folder.RunInfo(program=("caf\udce9",)))
    assert opening.open_run(made.path).info.program == ("caf\udce9",)


def test_default_folder_is_a_plain_name() -> None:
    assert re.fullmatch(r"occatrace-a_b\.out-\d{8}-\d{6}-abcd", str(folder.default_folder("/x/a b.out", "abcd1234")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a run"),
        ("{", "damaged"),
        ("[]", "damaged: it is not an object"),
        ('{"schema": 99}', "newer occatrace"),
    ],
)
def test_what_is_no_run(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(errors.RunError, match=message):
        opening.open_run(tmp_path)


def test_run_in_a_subfolder_is_named(tmp_path: Path) -> None:
    folder.create(tmp_path / "r", info())
    with pytest.raises(errors.RunError, match=r"is not a run, but .*/r is"):
        opening.open_run(tmp_path)
    with pytest.raises(errors.RunError, match="does not exist"):
        opening.open_run(tmp_path / "nosuch")
    with pytest.raises(errors.RunError, match="is a file"):
        opening.open_run(tmp_path / "r" / "run.json")


def test_older_runs_open(tmp_path: Path) -> None:
    """What is missing takes its default; what is not known any more is passed over."""
    (tmp_path / "run.json").write_text(json.dumps({"schema": 1, "program": ["x"], "forgotten": 1}))
    opened = opening.open_run(tmp_path)
    assert opened.info.program == ("x",)
    assert opened.info.notes == ()


@pytest.mark.parametrize(
    ("name", "kinds", "static"),
    [("a", (1,), True), ("pie", (1, 2), True), ("b", (3, 1, 2), False), ("ld-linux.so.2", (1, 2), False)],
)
def test_static_programs_are_known(tmp_path: Path, name: str, kinds: tuple[int, ...], static: bool) -> None:
    """Also those that are position-independent (gcc -static-pie): they have dynamic entries and no loader."""
    head = bytearray(64)
    head[:5] = b"\x7fELF\x02"
    head[32:40] = (64).to_bytes(8, "little")
    head[54:58] = (56).to_bytes(2, "little") + len(kinds).to_bytes(2, "little")
    (tmp_path / name).write_bytes(bytes(head) + b"".join(kind.to_bytes(4, "little") + bytes(52) for kind in kinds))
    assert bool(program.cannot_be_traced(tmp_path / name)) == static


def test_the_command_that_is_suggested_can_be_used() -> None:
    assert folder.again("--x y") == "occa_prof report './--x y'"
    assert folder.again("x") == "occa_prof report x"
