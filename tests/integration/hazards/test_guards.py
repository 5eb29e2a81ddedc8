"""What a child of fork() must not wait for: locks that another thread of its parent held."""

from __future__ import annotations

import subprocess

import pytest

from occatrace.run import install

# Run once as an API starts, and with effects: two threads must not both do it.
STARTS = {"once", "started"}


@pytest.mark.parametrize("backend", ["opencl", "cuda_callbacks", "hip"])
def test_nothing_is_made_under_the_compilers_lock(backend: str) -> None:
    """In a child such a lock stays held for ever if another thread was making the thing: mpirun's ranks were never started."""
    library = install.LIB / f"liboccatrace_{backend}.so"
    symbols = subprocess.run(["nm", "-C", library], text=True, capture_output=True, check=True).stdout
    assert "after_fork_child" in symbols
    guarded = {line.rsplit("::", 1)[-1] for line in symbols.splitlines() if "guard variable for" in line}
    assert guarded <= STARTS


def test_every_provider_says_that_it_is_taken_apart() -> None:
    """Then other threads are recorded no more. LTTng would lose some of their calls, as it takes events apart one by one."""
    providers = sorted(install.LIB.glob("liboccatrace_tp_*.so"))
    assert len(providers) > 10
    for provider in providers:
        assert (
            "occatrace_at_unload"
            in subprocess.run(["nm", "-D", provider], text=True, capture_output=True, check=True).stdout
        )
