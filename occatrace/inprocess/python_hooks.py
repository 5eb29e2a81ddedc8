"""What --python needs inside the traced program: run there by liboccatrace_python.so, never imported. It is handed `native`,
functions of that library, `options`, the words of --python, `place`, the path of this file, and `program`: a script, `-c`, `-m`
and a module, or nothing. It imports no more than it must."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

native: "dict[str, Callable[..., Any]]" = globals()["native"]
options: str = globals()["options"]
place: str = globals()["place"]
program: str = globals()["program"]


def _called(script: str) -> str:
    """The package of which a script does no more than call a function, as those in `bin` do that pip makes; empty: none."""
    try:
        with open(script, encoding="utf-8") as file:
            text = file.read(4097)
    except (OSError, UnicodeDecodeError):
        return ""
    if len(text) > 4096:
        return ""
    packages: dict[str, str] = {}
    called = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith(("def ", "class ", "for ", "while ", "with ")):
            return ""
        module, _, names = line.partition(" import ") if line.startswith("from ") else ("", "", "")
        if line.startswith("import "):
            packages.update((name.strip().partition(".")[0],) * 2 for name in line[7:].split(","))
        for name in names.strip("() ").split(","):
            if name.strip():
                packages[name.split()[-1]] = module[5:].strip().partition(".")[0]
        for begin in ("sys.exit(", "raise SystemExit(", "exit("):
            if line.startswith(begin):
                called = line[len(begin) :].partition("(")[0].strip()
        if line.startswith("main("):
            called = "main"
    return packages.get(called.partition(".")[0], "")


def _program() -> None:
    """Says whose code is the program's: not the standard library's, ours, and what was installed, except for a package that
    is the program itself."""
    import os

    package = program[3:].partition(".")[0] if program.startswith("-m ") else _called(program)
    libraries = (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(os.path.realpath(place))))
    native["program"](package, program if package else "", "".join(f"{folder}/:" for folder in libraries))


def _functions(patterns: str) -> None:
    """Calls and returns of Python functions; what is not wanted is told to be silent, or passed over in C."""
    native["want"](patterns)
    if sys.version_info < (3, 12):
        import threading

        # A thread begins with this, which makes way for the profile function in C.
        threading.setprofile(lambda *_: native["profile"]())
        native["profile"]()
        return
    monitoring, events = sys.monitoring, sys.monitoring.events
    tool = next((i for i in (3, 4, 2, 5, 1, 0) if monitoring.get_tool(i) is None), None)
    if tool is None:
        native["say"]("other tools have all of sys.monitoring: --python functions is not followed")
        return
    monitoring.use_tool_id(tool, "occatrace")
    wanted = 0
    for event, name in (
        (events.PY_START, "begin"),
        (events.PY_RESUME, "resume"),
        (events.PY_THROW, "throw"),
        (events.PY_RETURN, "end"),
        (events.PY_YIELD, "end"),
        (events.PY_UNWIND, "unwind"),
    ):
        monitoring.register_callback(tool, event, native[name])
        wanted |= event
    monitoring.set_events(tool, wanted)


_confirmed: "bool | None" = None


def _confirm_stack() -> bool:
    """Whether what is read of a known stack is what Python itself says; without it no places are noted."""
    global _confirmed
    if _confirmed is None:
        _confirmed = _find_stack()
    return _confirmed


def _find_stack() -> bool:

    def known() -> bool:
        found: list[str] = native["stack"]().split()
        frame = sys._getframe().f_back
        places: list[str] = []
        while frame is not None and len(places) + 1 < len(found):
            places.append(f"{id(frame.f_code)}:{frame.f_lineno}")
            frame = frame.f_back
        here = found and found[0].partition(":")[0] == str(id(known.__code__))
        return bool(here) and len(places) >= 2 and places == found[1:]

    def outer() -> bool:
        return known()

    # Debug builds have frames of their own.
    if not hasattr(sys, "gettotalrefcount") and outer():
        native["confirmed"]()
        return True
    native["say"](f"--python does not know the frames of Python {sys.version.split()[0]}: no lines")
    return False


def _libraries() -> None:
    """Follows the memory pools and builds of pyopencl and pycuda, from the moment at which they are imported. Each module
    object once: importlib.import_module tells of a module that is there already each time."""
    from _thread import RLock
    from _weakref import ref

    modules = ("pyopencl._cl", "pyopencl", "pycuda._driver", "pycuda.compiler")
    known: dict[str, Callable[[], object]] = {}
    lock = RLock()

    def follow(name: str, module: object) -> None:
        # Only now: most programs need nothing of it.
        path = f"{place.rpartition('/')[0]}/python_pools.py"
        with open(path, encoding="utf-8") as file:
            names: dict[str, Any] = {"native": native, "name": name, "module": module}
            exec(compile(file.read(), "<occatrace>", "exec"), names)

    def imported(name: str, module: "Any", executed: bool = True) -> None:
        # What another thread imports has its classes in the end only, or asks for itself while it is executed.
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            return
        with lock:
            if executed and name in known and known[name]() is module:
                return
            try:
                known[name] = ref(module)
            except TypeError:  # something else stands in sys.modules
                known[name] = lambda: module
            try:
                follow(name, module)
            except Exception as error:
                native["say"](f"memory pools and builds of {name} are not followed: {error}")

    for name in modules:
        if name in sys.modules:
            imported(name, sys.modules[name])
    native["on_import"](imported, *modules)
    _reloads(modules, lambda name, module: imported(name, module, executed=False))


def _reloads(modules: "tuple[str, ...]", reloaded: "Callable[[str, Any], None]") -> None:
    """importlib.reload gives the same module object other classes."""
    importlib: Any = sys.modules["_frozen_importlib"]
    execute = importlib._exec

    def _exec(spec: "Any", module: "Any") -> "Any":
        result = execute(spec, module)
        if spec.name in modules:
            reloaded(spec.name, result)
        return result

    importlib._exec = _exec


def _time() -> None:
    """Samples of processor time, until the program wants their signal for itself."""
    import _signal  # type: ignore[import-not-found]

    native["time"]()
    install = _signal.signal

    def signal(number: int, handler: "Any", /) -> "Any":
        if number == _signal.SIGURG:
            native["untime"]()
            native["say"]("the program uses SIGURG itself: --python time is not followed from there on")
        return install(number, handler)

    signal.__doc__ = install.__doc__  # what signal.signal has it from
    _signal.signal = signal


def _logging(_: str = "") -> None:
    """Notes what the loggers let through; their handlers and levels stay as they are."""
    import logging

    if getattr(logging.Logger.callHandlers, "occatrace", False):
        return  # --python logging, and the program uses lttngust
    handle, message = logging.Logger.callHandlers, native["message"]

    def callHandlers(self: logging.Logger, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:
            text = str(record.msg)  # what is wrong with it the program's own handlers say
        where = (record.pathname, record.lineno, record.funcName or "")
        message(record.levelno, record.levelname, record.name, *where, text)
        handle(self, record)

    callHandlers.occatrace = True  # type: ignore[attr-defined]
    setattr(logging.Logger, "callHandlers", callHandlers)  # noqa: B010


_options = [_option.partition(":")[::2] for _option in options.split(";")]
if any(_word in ("functions", "lines", "pools", "samples", "paths") for _word, _ in _options):
    _program()
for _word, _value in _options:
    if _word == "samples":
        # No reason to record the process: its samples are written when something else is.
        if _confirm_stack():
            native["samples"]()
    elif _word == "paths":
        if ("lines", "") not in _options and _confirm_stack():
            native["paths"]()
    elif _word and native["start"]():
        if _word == "functions":
            _functions(_value)
        elif _word in ("lines", "pools"):
            if _confirm_stack() and _word == "lines":
                native["lines"]()
            _libraries()
        elif _word == "logging":
            _logging()
        elif _word == "time":
            _time()
