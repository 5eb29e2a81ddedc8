"""Libraries on top of CUDA and HIP: names of functions and codes, from the text of their headers, which need not compile.
The wrappers pass all arguments on as they are (native/intercept/libraries/library.c), so that no types are needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .clang import ImportFailed


@dataclass(frozen=True)
class Library:
    """Where a library's functions stand, and by what it is known."""

    title: str
    headers: tuple[str, ...]  # patterns below the folder given
    prefix: str
    status: str  # what calls return, and the prefix of its values
    values: str
    anchor: str  # a function that only this library has


LIBRARIES: Mapping[str, Library] = {
    "cublas": Library(
        "cuBLAS",
        ("cublas_api.h", "cublasLt.h", "cublasXt.h"),
        "cublas",
        "cublasStatus_t",
        "CUBLAS_STATUS_",
        "cublasCreate_v2",
    ),
    "cufft": Library("cuFFT", ("cufft.h", "cufftXt.h"), "cufft", "cufftResult", "CUFFT_", "cufftPlan1d"),
    "cusolver": Library(
        "cuSOLVER",
        ("cusolver_common.h", "cusolverDn.h", "cusolverMg.h", "cusolverRf.h", "cusolverSp.h"),
        "cusolver",
        "cusolverStatus_t",
        "CUSOLVER_STATUS_",
        "cusolverDnCreate",
    ),
    "cusparse": Library(
        "cuSPARSE", ("cusparse.h",), "cusparse", "cusparseStatus_t", "CUSPARSE_STATUS_", "cusparseCreate"
    ),
    "cudnn": Library(
        "cuDNN",
        tuple(f"cudnn_{part}.h" for part in ("graph", "ops", "cnn", "adv")),
        "cudnn",
        "cudnnStatus_t",
        "CUDNN_STATUS_",
        "cudnnCreate",
    ),
    "nccl": Library("NCCL", ("nccl.h",), "nccl", "ncclResult_t", "nccl", "ncclCommInitRank"),
    "rocblas": Library(
        "rocBLAS",
        ("*rocblas-types.h", "*rocblas-functions.h", "*rocblas-auxiliary.h"),
        "rocblas_",
        "rocblas_status",
        "rocblas_status_",
        "rocblas_create_handle",
    ),
    "rocfft": Library("rocFFT", ("*rocfft.h",), "rocfft_", "rocfft_status", "rocfft_status_", "rocfft_plan_create"),
    "rccl": Library("RCCL", ("*nccl.h*",), "nccl", "ncclResult_t", "nccl", "ncclCommInitRank"),
}

# Questions, settings and descriptions: counted, not recorded one by one.
_COUNTED = re.compile(
    r"(?<![a-z])(get|set|query|is|has|create|destroy|restore|backup|deriv|check|count|size|version|string|error"
    r"|descriptor|workspace|property|info|logger|callback|register|deregister|pack|unpack|alloc|free|setup|cleanup"
    r"|enable|disable|start|stop)(?![a-z])"
)
# But not these: they move data, or do the work.
_RECORDED = re.compile(r"(?<![a-z])(exec|execute|(set|get) (matrix|vector))(?![a-z])")


def _words(name: str) -> str:
    """A name in lower case, its words apart."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return re.sub(r"([A-Z])([A-Z][a-z])", r"\1 \2", name).replace("_", " ").lower()


def is_counted(name: str, prefix: str) -> bool:
    """Whether calls are a tally in the default mode."""
    words = _words(name.removeprefix(prefix))
    return bool(_COUNTED.search(words)) and not _RECORDED.search(words)


def _statements(text: str) -> Iterable[str]:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*$", "", text, flags=re.M | re.S)
    return (s.strip() for s in re.split(r"[;{}]", text))


def functions_of(text: str, prefix: str) -> dict[str, str]:
    """Declared functions and what stands before their names."""
    found: dict[str, str] = {}
    for statement in _statements(text):
        match = re.search(rf"([\w *\n\t()]*?)\b({prefix}\w+)\s*\([^;]*\)\s*$", statement, flags=re.S)
        if match and not re.search(r"\b(typedef|inline|return)\b", statement):
            found.setdefault(match[2], match[1])
    return found


def values_of(text: str, prefix: str, status: str) -> dict[str, int]:
    """The codes of the enumeration of this name."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    for body, name in re.findall(r"enum\s*\w*\s*\{([^}]*)\}\s*(\w*)", text):
        tag = re.search(rf"enum\s+{status}_?t?\w*\s*\{{", text)
        if name != status and not (tag and body in text[tag.start() : tag.start() + len(body) + 80]):
            continue
        found: dict[str, int] = {}
        value = -1
        for entry in filter(None, (e.strip() for e in body.split(","))):
            key, _, given = (part.strip() for part in entry.partition("="))
            if len(key.split()) > 1:
                continue  # an old name of another, with a word that says so
            value = int(given, 0) if re.fullmatch(r"-?(0x)?[0-9a-fA-F]+", given) else found.get(given, value + 1)
            if key.startswith(prefix):
                found[key] = value
        return found
    raise ImportFailed(f"no enumeration {status} in the headers")


def import_library(name: str, folder: Path) -> str:
    """The YAML of a library."""
    library = LIBRARIES[name]
    files = [sorted(folder.glob(pattern)) for pattern in library.headers]
    if missing := [pattern for pattern, there in zip(library.headers, files, strict=True) if not there]:
        raise ImportFailed(f"{folder} has no {', '.join(missing)}")
    text = "\n".join(path.read_text(errors="replace") for there in files for path in there)
    functions = functions_of(text, library.prefix)
    plain = sorted(f for f, before in functions.items() if library.status not in before)
    codes = values_of(text, library.values, library.status)
    counted = sorted(f for f in functions if is_counted(f, library.prefix))
    lines = [
        f"# {library.title}: names of its functions and codes, facts of its headers. Written by"
        f" tools/import_headers.py {name}.",
        f"title: {library.title}",
        f"anchor: {library.anchor}",
        "status: {" + ", ".join(f"{key}: {value}" for key, value in codes.items()) + "}",
        "# recorded one by one in the default mode",
        "events:",
        *(f"- {f}" for f in sorted(set(functions) - set(counted))),
        "# counted there: questions, settings, descriptions",
        "tallies:",
        *(f"- {f}" for f in counted),
        "# what returns no status",
        f"plain: [{', '.join(plain)}]",
    ]
    return "\n".join(lines) + "\n"
