"""How kernels are called in what people read. The tables keep names as they were recorded.

okl: as their author wrote them, with the file and the line (where OCCA launched them; others are short); short: C++ names
without return type, parameters and template arguments; demangled: as C++ writes them; raw: as recorded. Kernels of OCCA have
their author's name in all but raw.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from occatrace.errors import RunError

if TYPE_CHECKING:
    import subprocess

NAMES = ("okl", "short", "demangled", "raw")
DEFAULT = "demangled"

OF_OCCA = "_occa_"  # begins OCCA's names of kernels for devices; their end is the number of the outer loop

_LONG = 60  # characters of a function with its template arguments
_RUNTIMES = 1024  # characters of a mangled name that GCC's runtime unfolds
_LONGEST = 1 << 20  # what is longer than any compiler's names is no name
_CPLUSPLUS = r"(?s)[\w>]\(|\w<.*>|\boperator\b"
_CLOSING = {"(": ")", "<": ">", "{": "}", "[": "]"}
_OPERATOR = r"operator(?:\(\)|\[\]|<=>|<<=|>>=|->\*|->|<<|>>|<=|>=|<|>|\"\" ?\w+|[^\w\s(]+| [\w:]+)?"
_CLONE = r" \[clone [^\]]*\]"
# SYCL names a kernel by its type, as the compiler names the type for run-time type information (_ZTS…).
_SYCL = "typeinfo name for "
# DPC++ runs a kernel over a plain range inside one of these; its own name is the last template argument.
_SYCL_WRAPPER = r"sycl::(?:_V\d+::)?detail::(?:RoundedRangeKernel\w*|__pf_kernel_wrapper)(?=<)"


# Expressions are compiled when a name is looked at: most runs of occa_prof look at none.
@cache
def _operator() -> re.Pattern[str]:
    return re.compile(_OPERATOR)


@cache
def _demangler() -> Callable[[str], str | None] | None:
    """The C++ runtime's own, which DuckDB and our native layer have loaded anyway."""
    import ctypes

    for library in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
        free = ctypes.CDLL(None).free
        free.argtypes = (ctypes.c_void_p,)
        return partial(_demangle, function, free)
    return None


def _demangle(function: Callable[..., Any], free: Callable[..., Any], name: str) -> str | None:
    import ctypes

    status = ctypes.c_int()
    address = function(name.encode("utf-8", "surrogateescape"), None, None, ctypes.byref(status))
    if not address:
        return None
    try:
        return ctypes.string_at(address).decode("utf-8", "backslashreplace")
    finally:
        free(address)


class _Filter:
    """binutils' `c++filt`, which has no limit to what it unfolds (`-r`); started for the first name, asked one by one."""

    LONGEST = 32_000  # its line is of so many bytes

    def __init__(self) -> None:
        import subprocess
        from threading import Lock

        self._lock = Lock()
        # Its input ends with this process.
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                ["c++filt", "-i", "-r"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a signal of the terminal is not for it
            )

    def __call__(self, name: str) -> str | None:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        if len(name) > self.LONGEST or not re.fullmatch(r"[\w.$]+", name, re.ASCII):
            return None
        try:
            with self._lock:
                process.stdin.write(name.encode() + b"\n")
                process.stdin.flush()
                found = process.stdout.readline()
        except (OSError, ValueError):
            found = b""
        if not found.endswith(b"\n"):  # it cannot run, or is another one that does not know the options
            self._process = None
        text = found[:-1].decode("utf-8", "backslashreplace")
        return text if text != name and found else None


_filter = cache(_Filter)


def is_of_occa(name: object) -> bool:
    """Whether it is a name that OCCA gave a kernel for a device."""
    return isinstance(name, str) and name.startswith(OF_OCCA)


def of_authors(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What to show for kernels of OCCA, by their names on the device. `names`: pairs of these and the names in the source."""
    authors: dict[str, set[str]] = {}
    for device, source in names:
        authors.setdefault(device, set()).add(source)
    known = {device: next(iter(own)) for device, own in authors.items() if len(own) == 1}
    several = Counter(known.values())
    out = {}
    for device, source in known.items():
        number = re.search(r"_(\d+)$", device)
        loop = int(number[1]) + 1 if number else 1
        out[device] = f"{source} (outer loop {loop})" if several[source] > 1 or loop > 1 else source
    return out


@lru_cache(maxsize=4096)
def demangled(name: str) -> str:
    """The C++ name; whatever is none stays as it is."""
    runtime = _demangler()
    if not name.startswith(("_Z", "__Z")) or runtime is None or len(name) > _LONGEST:
        return name
    # HIP's kernel descriptors have a suffix that the ABI does not know.
    plain = name.removesuffix(".kd")
    found = runtime(plain)
    if found is None and len(plain) > _RUNTIMES:
        found = _filter()(plain)
    return (found or name).removeprefix(_SYCL)


@lru_cache(maxsize=4096)
def short(name: str) -> str:
    """Namespaces and name of a C++ function, without its return type, parameters and template arguments."""
    full = demangled(name)
    if full == name and name.startswith("_Z"):
        return _beginning(name) or name
    if wrapper := re.match(_SYCL_WRAPPER, full):
        return short(_last_argument(full, wrapper.end())) or full
    if not re.search(_CPLUSPLUS, full):
        return full
    return _stripped(re.sub(_CLONE, "", full)) or full


@lru_cache(maxsize=4096)
def function(name: str) -> str:
    """A function as frames of stacks show it, beside its line: without return type and parameters, and without template arguments
    where these make it long; of gfortran's modules `module::function`."""
    if fortran := re.fullmatch(r"__(\w+?)_MOD_(\w+)", name):
        return f"{fortran[1]}::{fortran[2]}"
    return _without_parameters(name, _LONG)


@lru_cache(maxsize=4096)
def with_templates(name: str) -> str:
    """A demangled function without return type and parameters, with all its template arguments."""
    return _without_parameters(name, _LONGEST)


def _without_parameters(name: str, most: int) -> str:
    """Template arguments stay up to so many characters in all. Whatever is no C++ function stays as it is."""
    if not ("(" in name or "<" in name) or len(name) > _LONGEST or not re.search(_CPLUSPLUS, name):
        return name
    text = re.sub(_CLONE, "", name)
    if re.match(r"[\w:*& ]+ \([*&]", text):
        return text  # what it returns is around it
    full = _stripped(text, templates=True)
    return (full if len(full) <= most else _stripped(text)) or name


def _beginning(mangled: str) -> str:
    """The names up to the first template arguments, of what could not be unfolded."""
    match = re.match(r"_Z(?:TS)?(?:N[rVKRO]*)?(St)?", mangled)
    assert match
    out, at = ["std"] if match[1] else [], match.end()
    while length := re.compile(r"[1-9]\d{0,6}").match(mangled, at):
        at = length.end() + int(length[0])
        word = mangled[length.end() : at]
        if len(word) < int(length[0]):
            return ""
        out.append("(anonymous namespace)" if word.startswith("_GLOBAL__N") else word)
    return "::".join(out)


def _stripped(text: str, templates: bool = False) -> str:
    out: list[str] = []  # pieces; one that is longer than a character is kept together
    at = 0
    while at < len(text):
        char = text[at]
        operator = _operator().match(text, at) if char == "o" and (at == 0 or text[at - 1] in " :") else None
        if operator:
            out.append(operator[0])
            at = operator.end()
        elif text.startswith("(anonymous namespace)", at):
            out.append("(anonymous namespace)")
            at += len(out[-1])
        elif char in "<(":
            end = _closing(text, at)
            rest = text[end:]
            if char == "<" and templates:
                while out and out[-1] == " ":  # behind an operator
                    out.pop()
                out.append(text[at:end])
            at = end
            if char == "(" and not re.match(r"( const)?::|\.", rest) and "".join(out[-8:]) != "decltype":
                break  # the parameters of the function itself
            if char == "(" and rest.startswith(" const::"):
                at += len(" const")
        elif char == "{":
            end = _closing(text, at)
            out.append(text[at:end])
            at = end
        else:
            out.append(char)
            at += 1
    while out and out[-1] == " ":
        out.pop()
    for place in range(len(out) - 1, -1, -1):
        if out[place] == " ":
            return "".join(out[place + 1 :]).lstrip("*&")
    return "".join(out)


def _closing(text: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`, or the end."""
    waiting = [_CLOSING[text[at]]]
    at += 1
    while at < len(text) and waiting:
        char = text[at]
        if char == waiting[-1]:
            waiting.pop()
        elif char in "({[" or (char == "<" and waiting[-1] == ">"):
            waiting.append(_CLOSING[char])
        at += 1
    return at


def _last_argument(text: str, at: int) -> str:
    """The last of the template arguments whose bracket is at `at`."""
    begin = at = at + 1
    end = _closing(text, at - 1) - 1
    while at < end:
        if text[at] in "({[<":
            at = _closing(text, at)
            continue
        if text[at] == ",":
            begin = at + 1
        at += 1
    return text[begin:end].strip()


def regex(text: str, option: str = "--filter-name") -> re.Pattern[str]:
    """The regular expression of an option, that is searched for in names."""
    try:
        return re.compile(text)
    except re.error as error:
        raise RunError(f"{option} {text!r} is not a regular expression: {error}") from None


def author(name: str, source: str, line: int) -> str:
    """An OCCA kernel as its author knows it: `addVectors (addVectors.okl:3)`."""
    if not source:
        return name
    place = source.rpartition("/")[2] + (f":{line}" if line else "")
    return f"{name} ({place})"


def is_of_python(file: str) -> bool:
    """Whether a library is what Python code calls (an extension module, or libffi below ctypes and CFFI), so that the line
    which matters is one of Python. `file` may be followed by an offset (`+0x1f`)."""
    name = file.rpartition("/")[2]
    return name.startswith("libffi.so") or (
        ".so" in name and any(tag in name for tag in (".cpython-", ".abi3.", ".pypy"))
    )
