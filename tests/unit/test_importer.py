"""The importers give the committed models: byte for byte where the packages of this system have the same headers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import generated

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from importer import libraries  # noqa: E402
from importer.clang import COMPILERS, ImportFailed  # noqa: E402

# By the version of their package; other headers are other facts.
OPENCL_HEADERS = "3.0~2023.02.06-1"
CUDA_HEADERS = "13.0.96"
CACHE = Path(
    os.environ.get("OCCATRACE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "occatrace")
).expanduser()


def imported(api: str, *includes: Path) -> str:
    """What tools/import_headers.py writes."""
    options = [word for include in includes for word in ("--include", str(include))]
    command: list[str | Path] = [sys.executable, ROOT / "tools/import_headers.py", api, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def committed(api: str) -> str:
    return (ROOT / f"tracepoints/{api}.yaml").read_text(encoding="utf-8")


def cuda_headers() -> Path:
    """The folder of the CUDA headers that tools/setup installs."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(p) / "cu13/include" for p in (found.submodule_search_locations or ())] if found else []
    folder = next((folder for folder in folders if (folder / "cuda.h").exists()), None)
    if folder is None or importlib.metadata.version("nvidia-cuda-runtime") != CUDA_HEADERS:
        pytest.skip(f"nvidia-cuda-runtime {CUDA_HEADERS} is not installed")
    return folder


@pytest.fixture(scope="module")
def clang() -> None:
    if not any(shutil.which(compiler) for compiler in COMPILERS):
        pytest.skip(f"none of {', '.join(COMPILERS)} is installed")


def test_opencl() -> None:
    query = ["dpkg-query", "-W", "-f", "${Version}", "opencl-c-headers"]
    found = (
        subprocess.run(query, capture_output=True, text=True, check=False).stdout if shutil.which("dpkg-query") else ""
    )
    if found != OPENCL_HEADERS:
        pytest.skip(f"opencl-c-headers {OPENCL_HEADERS} is not installed")
    assert imported("opencl", Path("/usr/include")) == committed("opencl")


def test_mpi() -> None:
    headers = [CACHE / "mpi/mpich-5.0.2/include/mpi_abi.h", CACHE / "mpi/mpich-4.3.2/include/mpi_proto.h"]
    if not all(header.exists() for header in headers):
        pytest.skip("the MPI libraries of tools/setup --test are not installed")
    assert imported("mpi", *headers) == committed("mpi")


@pytest.mark.usefixtures("clang")
@pytest.mark.compiles
def test_cuda() -> None:
    assert imported("cuda", cuda_headers()) == committed("cuda")


def meanings(text: str, but: set[str]) -> dict[str, dict[str, Any]]:
    """What a model says of each function, without these keys; of its arguments the names."""
    return {
        str(f.get("event", f["name"])): {key: value for key, value in f.items() if key not in but}
        | {"arguments": [a["name"] for a in f.get("args") or ()]}
        for f in yaml.safe_load(text)["functions"]
    }


# The committed models have several versions of these headers together, which no system has: the oldest and the newest
# agree in what calls mean, and in their names.
@pytest.mark.usefixtures("clang")
@pytest.mark.compiles
def test_cudart() -> None:
    found, model = meanings(imported("cudart", cuda_headers()), {"args"}), meanings(committed("cudart"), {"args"})
    assert len(found) > 300
    assert found.keys() <= model.keys()
    for name, function in found.items():
        arguments = set(function.pop("arguments"))
        assert arguments <= set(model[name].pop("arguments")), name
        assert function == model[name], name


@pytest.mark.usefixtures("clang")
@pytest.mark.compiles
def test_hip() -> None:
    if not Path("/usr/include/hip/hip_runtime_api.h").exists():
        pytest.skip("libamdhip64-dev is not installed")
    but = {"args", "exports"}
    found, model = meanings(imported("hip", Path("/usr/include")), but), meanings(committed("hip"), but)
    assert len(found) > 300
    assert found.keys() <= model.keys()
    differ = {name for name, function in found.items() if function != model[name]}
    # Newer versions give them more, or other names of parameters.
    assert all(
        {key: value for key, value in found[name].items() if key != "arguments"}
        == {key: value for key, value in model[name].items() if key != "arguments"}
        for name in differ
    )
    assert len(differ) < 10


@pytest.mark.usefixtures("clang")
@pytest.mark.compiles
def test_level_zero() -> None:
    if not Path("/usr/include/level_zero/zet_api.h").exists():
        pytest.skip("libze-dev is not installed")
    found, model = meanings(imported("ze", Path("/usr/include")), {"args"}), meanings(committed("ze"), {"args"})
    assert len(found) == 289
    assert found == {name: model.get(name) for name in found}
    # What the marks of the header say: written by the call, and lists with their length.
    of = {f["name"]: {a["name"]: a for a in f.get("args") or ()} for f in generated.model("ze")["functions"]}
    assert of["zeDeviceGet"]["pCount"]["out"] and "out" not in of["zeDeviceGet"]["phDevices"]
    assert of["zeCommandListAppendLaunchKernel"]["phWaitEvents"]["array"] == "numWaitEvents"
    assert of["zeMemAllocDevice"]["pptr"]["out"]
    assert of["zeInit"]["flags"]["enum"] == "ze_init_flag_t"


HEADER = """\
/* A library on top. cublasNotThis(int x); */
#define cublasMacro(x) cublasOther(x)
typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1, // once more
    CUBLAS_STATUS_LATER,
} cublasStatus_t;
cublasStatus_t CUBLASWINAPI cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle,
                              int m, const float *A);
const char *cublasGetStatusName(cublasStatus_t status);
static inline int cublasInline(int x) { return x; }
"""


def test_functions_and_codes_of_a_library_on_top() -> None:
    found = libraries.functions_of(HEADER, "cublas")
    assert set(found) == {"cublasCreate_v2", "cublasSgemm_v2", "cublasGetStatusName"}
    assert libraries.values_of(HEADER, "CUBLAS_STATUS_", "cublasStatus_t") == {
        "CUBLAS_STATUS_SUCCESS": 0,
        "CUBLAS_STATUS_NOT_INITIALIZED": 1,
        "CUBLAS_STATUS_LATER": 2,
    }
    assert libraries.is_counted("cublasGetStatusName", "cublas")
    assert not libraries.is_counted("cublasSgemm_v2", "cublas")
    with pytest.raises(ImportFailed, match="no enumeration cufftResult"):
        libraries.values_of(HEADER, "CUFFT_", "cufftResult")


def test_a_missing_header_is_one_line(tmp_path: Path) -> None:
    for api in ("opencl", "mpi", "ze", "cublas"):
        command: list[str | Path] = [
            sys.executable,
            ROOT / "tools/import_headers.py",
            api,
            "--include",
            tmp_path / "none.h",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.startswith("import_headers.py: ") and done.stderr.count("\n") == 1
