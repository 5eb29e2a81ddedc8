"""Which LTTng is used where a wheel brings one, and what is said where the wheel's parts cannot run."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from occatrace.cli import choice, dispatch
from occatrace.run import install


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel's parts, and another LTTng in PATH."""
    for folder in ("bundle/bin", "system"):
        (tmp_path / folder).mkdir(parents=True)
        for name in ("lttng-sessiond", "lttng-crash"):
            program = tmp_path / folder / name
            program.write_text("")
            program.chmod(0o755)
    monkeypatch.setattr(install, "BUNDLE", tmp_path / "bundle")
    monkeypatch.setattr(install, "NEEDS", tmp_path / "bundle" / "needs.json")
    monkeypatch.setenv("PATH", str(tmp_path / "system"))
    monkeypatch.setenv(install.SYSTEM_LTTNG, "")
    monkeypatch.delenv("OCCATRACE_SESSIOND", raising=False)
    return tmp_path / "bundle"


def needs(bundle: Path, machine: str, glibc: str) -> None:
    (bundle / "needs.json").write_text(json.dumps({"machine": machine, "glibc": glibc}))


def test_the_wheels_lttng_is_found_before_the_systems(bundle: Path) -> None:
    sessiond = install.sessiond()
    assert sessiond == bundle / "bin" / "lttng-sessiond"
    assert install.lttng_tool("lttng-crash") == bundle / "bin" / "lttng-crash"
    assert install.daemon_environment(sessiond) == {
        "LTTNG_CONSUMERD64_BIN": str(bundle / "bin" / "lttng-consumerd"),
        "LTTNG_SESSION_CONFIG_XSD_PATH": str(bundle / "share"),
    }


def test_the_systems_lttng_where_it_is_asked_for(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = argparse.ArgumentParser()
    choice.add_session(group, "")
    choice.choose_lttng(group.parse_args([]))
    assert install.bundled()
    choice.choose_lttng(group.parse_args(["--system-lttng"]))
    sessiond = install.sessiond()
    assert sessiond == bundle.parent / "system" / "lttng-sessiond"
    assert install.lttng_tool("lttng-crash") == bundle.parent / "system" / "lttng-crash"
    assert install.daemon_environment(sessiond) == {}


def test_a_named_daemon_goes_before_the_wheels(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = bundle.parent / "system" / "lttng-sessiond"
    monkeypatch.setenv("OCCATRACE_SESSIOND", str(named))
    assert install.sessiond() == named
    assert install.daemon_environment(named) == {}


def test_without_a_wheel_the_systems_lttng(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "BUNDLE", bundle / "missing")
    assert install.sessiond() == bundle.parent / "system" / "lttng-sessiond"
    assert install.unsuitable() is None


@pytest.mark.parametrize(
    ("machine", "library", "said"),
    [
        (None, "glibc 2.35", None),
        (None, "glibc 3.0", None),
        ("sparc64", "glibc 2.36", "was built for sparc64, and this machine is"),
        (None, "glibc 2.9", "needs glibc 2.35 or later, and this system has glibc 2.9"),
        (None, None, "needs the C library glibc 2.35 or later, and this system has another"),
    ],
)
def test_one_line_where_the_wheel_cannot_run(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, machine: str | None, library: str | None, said: str | None
) -> None:
    needs(bundle, machine or os.uname().machine, "2.35")
    monkeypatch.setattr(os, "confstr", lambda name: library)
    told = install.unsuitable()
    if said is None:
        assert told is None
        return
    assert (
        told and said in told and told.endswith("from its sources here (occa_prof help install)") and "\n" not in told
    )
    # A native module that cannot be loaded is explained by it, not by the loader's words.
    assert dispatch.words_of(ImportError("libc.musl")) == (told, 2)


def test_a_c_library_that_does_not_know_the_question(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def confstr(name: str) -> str:
        raise ValueError("unrecognized configuration name")

    needs(bundle, os.uname().machine, "2.35")
    monkeypatch.setattr(os, "confstr", confstr)
    assert "this system has another" in (install.unsuitable() or "")
