"""Which rank a process is: the list of variables, in Python and in the traced program's side."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from occatrace.run import ranks

ROOT = Path(__file__).resolve().parents[2]
PRINTS = """
#include "rank.h"
#include <stdio.h>
int main(void) {
  struct occatrace_place p;
  occatrace_find_place(&p);
  printf("%d %d %d [%s]", p.rank, p.size, p.local_rank, p.job);
}
"""

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_MCA_orte_precondition_transports": "a-b",
    "PMIX_NAMESPACE": "77",
    "PMIX_RANK": "3",
    "SLURM_PROCID": "0",
}
SLURM = {"SLURM_JOB_ID": "42", "SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_LOCALID": "2", "SLURM_NTASKS_X": "9"}
TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none",
    "MASTER_ADDR": "localhost",
}  # fmt: skip
CASES: Mapping[str, tuple[Mapping[str, str], ranks.Place]] = {
    "nothing": ({}, ranks.Place()),
    "open mpi": (OPEN_MPI, ranks.Place(3, 8, 1, 4, "a-b.77", "Open MPI", True)),
    "hydra": (
        {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2", "PMI_FD": "6"},
        ranks.Place(0, 2, 0, 2, "", "MPICH, Intel MPI", True),
    ),
    "batch script": (SLURM, ranks.Place()),
    "srun": (SLURM | {"SLURM_STEP_ID": "0"}, ranks.Place(5, 6, 2, None, "42.0", "Slurm", False)),
    "srun with pmi": (
        SLURM | {"SLURM_STEP_ID": "1", "PMI_RANK": "5", "PMI_SIZE": "6", "PMI_JOBID": "42.1"},
        ranks.Place(5, 6, 2, None, "42.1.42.1", "MPICH, Intel MPI", True),
    ),
    "srun with pmix": (
        SLURM | {"SLURM_STEP_ID": "1", "PMIX_RANK": "5", "PMIX_NAMESPACE": "slurm.pmix.42.1"},
        ranks.Place(5, 6, 2, None, "slurm.pmix.42.1.42.1", "PMIx", True),
    ),
    "pals": (
        {"PALS_RANKID": "9", "PALS_LOCAL_RANKID": "1", "PALS_APID": "x", "PMI_RANK": "9", "PMI_SIZE": "16"},
        ranks.Place(9, 16, 1, None, "x", "PALS", True),
    ),
    "flux": (
        {"FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "4", "FLUX_TASK_LOCAL_ID": "1", "FLUX_JOB_ID": "f1"},
        ranks.Place(1, 4, 1, None, "f1", "Flux", True),
    ),
    "jsrun": (
        {"JSM_NAMESPACE_RANK": "2", "JSM_NAMESPACE_SIZE": "4", "JSM_NAMESPACE_LOCAL_RANK": "0", "LSB_JOBID": "5"},
        ranks.Place(2, 4, 0, None, "5", "jsrun", True),
    ),
    "mvapich": (
        {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": "1"},
        ranks.Place(1, 2, 1, None, "", "MVAPICH", True),
    ),
    "torchrun": (TORCHRUN, ranks.Place(3, 4, 1, 2, "none", "torchrun", False)),
    "torchrun within srun": (
        SLURM | {"SLURM_STEP_ID": "0"} | TORCHRUN,
        ranks.Place(3, 4, 1, 2, "none", "torchrun", False),
    ),
    "RANK of something else": ({"RANK": "3", "WORLD_SIZE": "4"}, ranks.Place()),
    "a variable of one's own": (
        {"OCCATRACE_RANK_VAR": "MY_ID", "MY_ID": "12"},
        ranks.Place(12, None, None, None, "", "MY_ID", True),
    ),
    "a variable of one's own before the launcher's": (
        OPEN_MPI | {"OCCATRACE_RANK_VAR": "PMIX_RANK", "PMIX_RANK": "6"},
        ranks.Place(6, 8, 1, 4, "a-b.77", "PMIX_RANK", True),
    ),
    "its variable is not set": (
        OPEN_MPI | {"OCCATRACE_RANK_VAR": "MY_ID"},
        ranks.Place(3, 8, 1, 4, "a-b.77", "Open MPI", True),
    ),
    "the job is known": (
        {"PMI_RANK": "1", "OCCATRACE_JOB": "here"},
        ranks.Place(1, None, None, None, "here", "MPICH, Intel MPI", True),
    ),
    "no numbers": ({"PMI_RANK": "-1", "OMPI_COMM_WORLD_RANK": "", "FLUX_TASK_RANK": "1x"}, ranks.Place()),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "ranks.h").write_text(ranks.header())
    (folder / "main.c").write_text(PRINTS)
    emit = ROOT / "native" / "emit"
    command = [compiler, "-Wall", "-Werror", f"-I{folder}", f"-I{emit}", emit / "rank.c", folder / "main.c"]
    subprocess.run([*map(str, command), "-o", str(folder / "place")], check=True)
    yield folder / "place"


@pytest.mark.compiles
@pytest.mark.parametrize("name", CASES)
def test_place(name: str, program: Path) -> None:
    environment, expected = CASES[name]
    assert ranks.place(environment) == expected
    said = subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout
    shown = [-1 if n is None else n for n in (expected.rank, expected.size, expected.local_rank)]
    assert said == f"{shown[0]} {shown[1]} {shown[2]} [{expected.job}]"


def test_lists_of_ranks() -> None:
    assert ranks.parse_list("0-3,8") == {0, 1, 2, 3, 8}
    assert ranks.parse_list("5") == {5}
    for wrong in ("", "a", "3-1", "1-", "-1", "0-3,,8", "1.5"):
        with pytest.raises(ValueError, match="0-3,8"):
            ranks.parse_list(wrong)
