"""The one list of the variables by which launchers tell a process its rank, and what they say of this process.

The traced program's side has the same list in C: `python -m occatrace.run.ranks` writes it when the native layer is built.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RANK_VARIABLE = "OCCATRACE_RANK_VAR"  # names the variable that holds the rank, before all of the list
JOB_VARIABLE = "OCCATRACE_JOB"  # the job, as occa_prof understood it


@dataclass(frozen=True)
class Launcher:
    """A launcher's variables; of each kind the first that is set counts, of `job` all together name the job."""

    name: str
    rank: str
    size: Sequence[str] = ()
    local_rank: Sequence[str] = ()
    local_size: Sequence[str] = ()
    job: Sequence[str] = ()
    needs: str = ""  # the rank counts only where this is set as well
    joins: bool = True  # ranks of one job have MPI in common; else they may be separate programs


# The first whose rank is set counts: MPI's own before the resource manager's, which may speak of the batch script.
LAUNCHERS: Sequence[Launcher] = (
    Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
        ("OMPI_MCA_orte_precondition_transports", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"),
    ),
    Launcher(
        "MVAPICH",
        "MV2_COMM_WORLD_RANK",
        ("MV2_COMM_WORLD_SIZE",),
        ("MV2_COMM_WORLD_LOCAL_RANK",),
        ("MV2_COMM_WORLD_LOCAL_SIZE",),
        ("PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"),
    ),
    Launcher(
        "MVAPICH 3",
        "MVP_COMM_WORLD_RANK",
        ("MVP_COMM_WORLD_SIZE",),
        ("MVP_COMM_WORLD_LOCAL_RANK",),
        ("MVP_COMM_WORLD_LOCAL_SIZE",),
        ("PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"),
    ),
    Launcher(
        "PALS",
        "PALS_RANKID",
        ("PALS_SIZE", "PMI_SIZE"),
        ("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"),
        ("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        ("PALS_APID",),
    ),
    Launcher(
        "jsrun",
        "JSM_NAMESPACE_RANK",
        ("JSM_NAMESPACE_SIZE",),
        ("JSM_NAMESPACE_LOCAL_RANK",),
        ("JSM_NAMESPACE_LOCAL_SIZE",),
        ("LSB_JOBID", "PMIX_NAMESPACE"),
    ),
    Launcher(
        "Flux",
        "FLUX_TASK_RANK",
        ("FLUX_JOB_SIZE", "PMI_SIZE"),
        ("FLUX_TASK_LOCAL_ID",),
        (),
        ("FLUX_JOB_ID",),
    ),
    Launcher(
        "PMIx",
        "PMIX_RANK",
        ("PMIX_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        ("PMIX_LOCAL_RANK", "SLURM_LOCALID"),
        ("PMIX_LOCAL_SIZE",),
        ("PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"),
    ),
    Launcher(
        "MPICH, Intel MPI",
        "PMI_RANK",
        ("PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        ("MPI_LOCALRANKID", "SLURM_LOCALID"),
        ("MPI_LOCALNRANKS",),
        ("PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"),
    ),
    # PyTorch's; its names are common words, so all of those that it sets have to be there.
    Launcher(
        "torchrun",
        "RANK",
        ("WORLD_SIZE",),
        ("LOCAL_RANK",),
        ("LOCAL_WORLD_SIZE",),
        ("TORCHELASTIC_RUN_ID",),
        needs="TORCHELASTIC_RUN_ID",
        joins=False,  # its job has no name of its own
    ),
    Launcher(
        "Slurm",
        "SLURM_PROCID",
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        ("SLURM_LOCALID",),
        (),
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        needs="SLURM_STEP_ID",  # in a batch script the rank is 0 and says nothing
        joins=False,
    ),
)


# Programs that start ranks: occa_prof before one of them sees only what runs on this machine.
COMMANDS = (
    *("mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec", "mpiexec.openmpi", "mpiexec.mpich", "mpiexec.hydra"),
    *("orterun", "prterun", "prun", "srun", "jsrun", "aprun", "flux", "mpirun_rsh", "ibrun"),
)


@dataclass(frozen=True)
class Place:
    """Where a process stands among its fellows. What no variable says is None; without a rank it stands alone."""

    rank: int | None = None
    size: int | None = None
    local_rank: int | None = None
    local_size: int | None = None
    job: str = ""
    launcher: str = ""
    joins: bool = False


def place(environment: Mapping[str, str] | None = None) -> Place:
    """What the environment says of this process."""
    env = os.environ if environment is None else environment
    named = env.get(RANK_VARIABLE, "")
    own = _number(env.get(named)) if named else None
    known = next(
        (x for x in LAUNCHERS if _number(env.get(x.rank)) is not None and (not x.needs or env.get(x.needs))), None
    )
    if known is None and own is None:
        return Place(job=env.get(JOB_VARIABLE, ""))
    entry = known or Launcher("", named)
    rank = own if own is not None else _number(env.get(entry.rank))
    return Place(
        rank,
        _first(env, entry.size),
        _first(env, entry.local_rank),
        _first(env, entry.local_size),
        env.get(JOB_VARIABLE) or ".".join(filter(None, (env.get(name) for name in entry.job))),
        named if own is not None else entry.name,
        entry.joins or own is not None,
    )


def _number(text: str | None) -> int | None:
    """A rank or a size; anything else is not one."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 9:
        return None
    return int(text)


def _first(env: Mapping[str, str], names: Sequence[str]) -> int | None:
    return next((number for number in (_number(env.get(name)) for name in names) if number is not None), None)


def parse_list(text: str) -> frozenset[int]:
    """Ranks from `0-3,8`. Raises ValueError, with a line that says what is wrong."""
    out: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = _number(first), _number(last) if dash else _number(first)
        if low is None or high is None or high < low:
            raise ValueError(f"{part.strip()!r} is neither a rank nor a range of ranks: write for instance 0-3,8")
        if high - low > 10_000_000:
            raise ValueError(f"{part.strip()!r} is too long a range")
        out.update(range(low, high + 1))
    return frozenset(out)


def header() -> str:
    """The same list for the traced program's side, in C."""

    def names(values: Sequence[str]) -> str:
        return "{" + ", ".join([*(f'"{value}"' for value in values), "0"]) + "}"

    most = 1 + max(len(x) for launcher in LAUNCHERS for x in (launcher.size, launcher.local_rank, launcher.job))
    rows = [
        f'  {{"{x.rank}", {names(x.size)}, {names(x.local_rank)}, {names(x.job)},'
        f" {f'{chr(34)}{x.needs}{chr(34)}' if x.needs else '0'}}}, /* {x.name} */"
        for x in LAUNCHERS
    ]
    return "\n".join(
        [
            "/* Generated by `python -m occatrace.run.ranks` from occatrace/run/ranks.py; do not edit. */",
            f'#define OCCATRACE_RANK_VARIABLE "{RANK_VARIABLE}"',
            f'#define OCCATRACE_JOB_VARIABLE "{JOB_VARIABLE}"',
            "static const struct occatrace_launcher {",
            f"  const char *rank, *size[{most}], *local_rank[{most}], *job[{most}], *needs;",
            "} occatrace_launchers[] = {",
            *rows,
            "};",
            "",
        ]
    )


if __name__ == "__main__":
    print(header(), end="")
