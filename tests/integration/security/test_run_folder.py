"""A run folder is data from anybody: nothing in it is trusted, and nothing is written or removed elsewhere because of it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import occatrace
from occatrace import errors
from occatrace.cli.dispatch import main
from occatrace.cli.messages import UsageError
from occatrace.cli.pause import turn
from occatrace.core.bounds import SWITCH_SIZE
from occatrace.core.schema import SCHEMA_VERSION
from occatrace.reports.partial import merge_files
from occatrace.run import control, layout
from occatrace.run import folder as runs
from occatrace.store import stream
from occatrace.store.made import Made, check_files, read_made, write_made
from occatrace.store.merge import merge_tables
from occatrace.store.tables import open_store
from tests.support.suites.security import untouched

Give = Callable[[Path], Path]

# By key of run.json: a value that has the wrong type, and what is said of it.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"program": None}, "program is null, not a list"),
    ({"program": ["a", 1]}, "program[1] is 1, not a text"),
    ({"traced": -1}, "traced is -1, not a list"),
    ({"processes": {"1": 2}}, "processes is dict, not a list"),
    ({"processes": [True]}, "processes[0] is true, not a number"),
    ({"processes": [1 << 80]}, f"processes[0] is {1 << 80}, too large a number"),
    ({"notes": "text"}, 'notes is "text", not a list'),
    ({"ended": 3}, "ended is 3, not a text"),
    ({"exit_status": "0"}, 'exit_status is "0", not a number'),
    ({"host": ["h"]}, "host is list, not a text"),
    ({"session": []}, "session is list, not an object"),
    ({"session": {"shm": "relative"}}, 'session.shm is "relative", not an absolute path'),
    ({"session": {"buffers": {"cpus": "2"}}}, 'session.buffers.cpus is "2", not a number'),
    ({"job": {"ranks": [{"rank": "0"}]}}, 'job.ranks[0].rank is "0", not a number'),
    (
        {"captures": {"h": [["0, 0); DROP TABLE calls; --", 1]]}},
        'captures.h[0][0] is "0, 0); DROP TABLE calls; --", not a',
    ),
    ({"captures": {"h": [[0]]}}, "captures.h[0] has 1 values, not 2"),
    ({"choice": {"A": 1}}, "choice.A is 1, not a text"),
    ({"clocks": {"h": 5}}, "clocks.h is 5, not an object"),
    ({"id": "../../../etc"}, 'id is "../../../etc", not the id of a run'),
    ({"schema": True}, "has no schema number"),
]
COMMANDS = (["report"], ["query"], ["trace"], ["timeline"], ["flamegraph"], ["top", "--once"], ["export", "-o", "out"])


def one_line(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 2, words
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("occa_prof: ") and err.count("\n") == 1, err
    return err


def write_facts(run: Path, **changes: Any) -> None:
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | changes))


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said.partition(" ")[0] for _, said in WRONG])
def test_wrong_types_are_told_in_one_line(
    run: Path, changes: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_facts(run, **changes)
    error = one_line(capsys, "report", run)
    assert said in error and ("run.json is damaged: " in error or "schema" in changes)
    with pytest.raises(occatrace.RunError):
        occatrace.open(run).facts  # noqa: B018


@pytest.mark.parametrize("content", ["[" * 100_000, "", "3", "null", "[]", '"x"', "9" * 5000, '{"schema": 1e999}'])
def test_what_is_no_object(run: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "run.json").write_text(content)
    for command in COMMANDS if content == "[]" else COMMANDS[:1]:
        assert "run.json" in one_line(capsys, command[0], run, *command[1:])


def test_a_pipe_in_the_place_of_run_json_is_not_waited_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json")
    assert "is not a file" in one_line(capsys, "report", run)


@pytest.mark.parametrize("name", ["processes", "host_clocks", "ranges"])
def test_a_pipe_in_the_place_of_a_table_is_not_waited_for(
    run: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run)]) == 0
    capsys.readouterr()
    (run / "tables" / f"{name}.parquet").unlink()
    os.mkfifo(run / "tables" / f"{name}.parquet")
    assert f"{name}.parquet is not a file; remove " in one_line(capsys, "report", run)


def test_a_pipe_in_any_folder_of_tables_is_not_waited_for(tmp_path: Path) -> None:
    """Tables of the run and of a node, and partial summaries: what reads a folder of them asks first."""
    folder = tmp_path / "tables"
    folder.mkdir()
    write_made(folder, Made(SCHEMA_VERSION, "1"))
    (folder / "rows.parquet").touch()
    check_files(folder)
    os.mkfifo(folder / "hist.parquet")
    with duckdb.connect() as con:
        for read in (
            lambda: read_made(folder),
            lambda: merge_tables([folder], tmp_path / "merged", con),
            lambda: merge_files([folder], tmp_path / "summed", con),
        ):
            with pytest.raises(errors.StoreError, match=r"hist\.parquet is not a file"):
                read()


def test_a_small_file_with_any_number_of_rows_is_not_read_whole(run: Path) -> None:
    assert main(["report", str(run)]) == 0
    file = run / "tables" / "messages.parquet"
    with duckdb.connect() as con:
        columns = [row[0] for row in con.execute(f"DESCRIBE FROM '{file}'").fetchall()]
        con.execute(
            f"COPY (SELECT {', '.join(f'NULL AS {name}' for name in columns)} FROM range(1_000_000))"
            f" TO '{file}' (FORMAT parquet, COMPRESSION zstd)"
        )
    assert file.stat().st_size < 64 << 10
    with open_store(run) as store:
        assert store.con.execute("SELECT count(*) FROM messages").fetchall() == [(1_000_000,)]
        assert store.con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'messages'").fetchall() == []


def test_texts_of_run_json_cannot_steer_a_terminal(run: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    texts = ["a\x1b[2Jb", "a\nb", "\ud800", "\u202eabc", "[red]x[/red]"]
    write_facts(run, program=texts, host=texts[0], notes=texts, user=texts[2], cwd=texts[3])
    for words in ((), ("--format", "html"), ("--format", "json"), ("--format", "markdown"), ("--format", "csv")):
        assert main(["report", str(run), *words]) == 0
        out, err = capsysbinary.readouterr()
        assert b"\x1b" not in out + err and b"Traceback" not in err


def test_tables_json_is_checked(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "tables" / "tables.json"
    for content, said in (
        ('{"schema": "2"}', 'schema is "2", not a number'),
        ('{"schema": 1, "problems": [1]}', "problems[0] is 1, not a text"),
        ('{"schema": 1, "version": []}', "version is list, not a text"),
        ("[]", "not an object"),
        ("[" * 100_000, "not JSON"),
    ):
        file.write_text(content)
        error = one_line(capsys, "report", run)
        assert "tables.json is damaged" in error and said in error and "remove" in error


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"parts": [{"name": "../../victim", "level": 0, "bytes": 0, "rows": {}}]}, "the name of a part"),
        ({"parts": [{"name": "000000-000000", "level": 0, "bytes": 0, "rows": {"x AS SELECT 1; --": 1}}]}, "no table"),
        ({"state": "../../../victim/metadata"}, "the name of a state"),
        ({"parts": 3}, "parts is 3, not a list"),
        ({"consumed": "1"}, 'consumed is "1", not a number'),
        ({"state": "state-000000.npz"}, "is damaged"),
        ({"parts": [{"name": "000000-000000", "level": 0, "bytes": 0, "rows": {}}]}, "records.json"),
    ],
)
def test_what_stream_kept_is_checked(
    tmp_path: Path, victim: Path, manifest: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names in it become paths, and names of tables SQL."""
    run = tmp_path / "run"
    kept = run / "stream" / "h"
    (run / "trace" / "h").mkdir(parents=True)
    (kept / "000000-000000").mkdir(parents=True)
    (kept / "000000-000000" / "records.json").write_text("[1]")
    (run / "run.json").write_text(json.dumps({"schema": 1, "program": ["x"], "host": "h"}))
    whole = {"version": stream.VERSION, "state": "", "parts": [], "consumed": -1, "events": 0, "until": 0, "keep": 0}
    (kept / stream.MANIFEST).write_text(json.dumps(whole | manifest))
    assert said in one_line(capsys, "report", run)
    assert untouched(victim)


@pytest.mark.parametrize(
    "name", ["tables", "trace/h/link", "tables/calls", ".tables.lock", "samples", "nodes", "stream"]
)
def test_nothing_is_written_through_links_in_a_run(run: Path, victim: Path, tmp_path: Path, name: str) -> None:
    """Results go to a folder for the moment, as with a run that cannot be written to."""
    if name.startswith("tables"):
        shutil.rmtree(run / "tables")
    link = run / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    target = victim / "metadata" if name.startswith(".") else victim
    link.symlink_to(target)
    before = sorted(p.name for p in run.iterdir())
    main(["report", str(run), "--report", "api_trace"])
    main(["query", str(run), "SELECT count(*) FROM calls"])
    assert untouched(victim)
    assert sorted(p.name for p in run.iterdir()) == before
    assert main(["timeline", str(run)]) == 2
    assert main(["report", str(run), "--plot", "kernels"]) == 2
    assert main(["flamegraph", str(run)]) == 2
    assert untouched(victim)
    assert sorted(p.name for p in run.iterdir()) == before


@pytest.mark.parametrize("name", ["timeline.pftrace", "flamegraph.html"])
def test_a_result_replaces_a_link_and_does_not_follow_it(
    run: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    out = tmp_path / name
    out.symlink_to(elsewhere)  # to nothing yet
    command = "timeline" if name.startswith("timeline") else "flamegraph"
    assert "exists already" in one_line(capsys, command, run, "-o", out)
    assert not elsewhere.exists()
    elsewhere.write_text("kept")
    assert main([command, str(run), "-o", str(out), "--force"]) == 0
    assert elsewhere.read_text() == "kept" and not out.is_symlink()


def test_a_run_of_another_user_is_only_read(run: Path, give: Give, capsys: pytest.CaptureFixture[str]) -> None:
    """Root could write there; the user who owns it could exchange what root writes to."""
    shutil.rmtree(run / "tables" / "calls")
    give(run)
    before = sorted(str(p) for p in run.rglob("*"))
    assert main(["report", str(run)]) == 0
    assert main(["query", str(run), "SELECT 1"]) == 0
    capsys.readouterr()
    assert "of another user" in one_line(capsys, "timeline", run)
    assert sorted(str(p) for p in run.rglob("*")) == before
    (run / "tables").chmod(0o777)
    assert not runs.is_writable(run)


def test_a_folder_that_everybody_may_change_is_only_read(run: Path) -> None:
    assert runs.is_writable(run)
    (run / "tables").chmod(0o777)
    assert not runs.is_writable(run)


@pytest.mark.parametrize("what", ["pause", "resume", "stop"])
def test_the_place_of_a_switch_is_not_trusted(tmp_path: Path, victim: Path, what: str) -> None:
    """A byte of that file would have been turned."""
    run = tmp_path / "run"
    (run / "control").mkdir(parents=True)
    note = run / "control" / f"{os.uname().nodename}.json"
    page = victim / "switch"
    for file in (victim / "metadata", page, victim / "x" / "switch", Path("/dev/zero")):
        page.write_bytes(b"\1" * SWITCH_SIZE)
        note.write_text(json.dumps({"file": str(file), "pid": 1}))
        with pytest.raises(UsageError, match="not being recorded any more"):
            turn(run, what)
        assert control.state(run) == "recording"
        assert page.read_bytes() == b"\1" * SWITCH_SIZE
    for content in ('{"file": 3, "pid": 1}', '{"pid": 1}', "[", '{"file": "/x", "pid": "1"}'):
        note.write_text(content)
        with pytest.raises(UsageError):
            turn(run, what)
        assert control.holders(run) == []


def test_commands_for_other_nodes_are_not_written_through_links(tmp_path: Path, victim: Path) -> None:
    run = tmp_path / "run"
    (run / "control").mkdir(parents=True)
    (run / "control" / "other.json").write_text('{"file": "/x", "pid": 1}')
    (run / "control" / "other.command").symlink_to(victim / "metadata")
    with pytest.raises(UsageError, match="links"):
        turn(run, "pause")
    assert (victim / "metadata").read_text() == "this is metadata"


# ---- making a run ----


def test_an_empty_folder_becomes_its_owners_only(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir(mode=0o755)
    folder.chmod(0o777)
    made = runs.create(folder, runs.RunInfo(program=("x",)))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((made.path / "run.json").stat().st_mode) == 0o600


def test_tables_are_their_owners_only(run: Path) -> None:
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (run / "tables").iterdir()}
    assert modes == {0o600, 0o700}


def test_an_empty_folder_of_another_user_is_refused(tmp_path: Path, give: Give) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    give(folder)
    with pytest.raises(errors.RunError, match=r"belongs to another user .*: choose another folder by -o"):
        runs.create(folder, runs.RunInfo(program=("x",)))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("words", [("-o", "x" * 300), ("-o", f"{'x' * 300}/y"), ("--log-file", "x" * 300)])
def test_a_name_that_is_too_long_is_told_before_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    error = one_line(capsys, *words, sys.executable, "-c", "open('ran', 'w')")
    assert "File name too long" in error and list(tmp_path.iterdir()) == []


def test_the_folder_of_a_program_with_a_long_name(tmp_path: Path) -> None:
    assert len(runs.default_folder("p" * 255, layout.new_id()).name) < 200
