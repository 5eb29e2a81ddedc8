"""What --python needs inside the traced program: run there by liboccatrace_python.so, never imported. `native` has its
functions, `options` the words of --python. It keeps to what the program has imported already, as far as it can."""

import sys

native: dict  # type: ignore[no-redef,type-arg]
options: str  # type: ignore[no-redef]


def _functions(patterns):
    """Calls and returns of Python functions; what is not wanted is told to be silent, or passed over in C."""
    import os

    native["want"](patterns, os.path.dirname(os.__file__) + "/")
    if not hasattr(sys, "monitoring"):
        import threading

        # A thread begins with this, which makes way for the profile function in C.
        threading.setprofile(lambda *_: native["profile"]())
        native["profile"]()
        return
    monitoring, events = sys.monitoring, sys.monitoring.events
    tool = next((i for i in (3, 4, 2, 5, 1, 0) if monitoring.get_tool(i) is None), None)
    if tool is None:
        native["say"]("other tools use sys.monitoring: --python functions is not followed")
        return
    monitoring.use_tool_id(tool, "occatrace")
    wanted = 0
    for event, name in (
        ("PY_START", "begin"),
        ("PY_RESUME", "resume"),
        ("PY_THROW", "throw"),
        ("PY_RETURN", "end"),
        ("PY_YIELD", "end"),
        ("PY_UNWIND", "unwind"),
    ):
        monitoring.register_callback(tool, getattr(events, event), native[name])
        wanted |= getattr(events, event)
    monitoring.set_events(tool, wanted)


def _lines():
    """Tells the stack of a call in C, when what is read of it is what Python itself says."""

    def known():
        frame, places = sys._getframe(), []
        found = native["stack"]().split()  # in one line with the next: the innermost place is this one
        while frame is not None and len(places) < len(found):
            places.append(f"{id(frame.f_code)}:{frame.f_lineno}")
            frame = frame.f_back
        found[0], places[0] = found[0].partition(":")[0], places[0].partition(":")[0]
        return places == found and len(found) >= 2

    def outer():
        return known()

    try:
        right = outer()
    except Exception:
        right = False
    if right:
        native["lines"]()
    else:
        native["say"](f"--python lines does not know the frames of this Python ({sys.version.split()[0]})")


def _logging():
    """Notes what passes the loggers; their handlers and levels stay as they are."""
    import logging

    handle = logging.Logger.callHandlers
    message = native["message"]

    def callHandlers(self, record):
        try:
            text = record.getMessage()
        except Exception:
            text = str(record.msg)  # the program's own handlers say what is wrong with it
        message(record.levelno, record.levelname, record.name, record.pathname, record.lineno, record.funcName or "", text)
        return handle(self, record)

    logging.Logger.callHandlers = callHandlers


for _option in options.split(";"):
    _word, _, _value = _option.partition(":")
    if _word in ("functions", "lines", "logging") and native["start"]():
        {"functions": lambda: _functions(_value), "lines": _lines, "logging": _logging}[_word]()
