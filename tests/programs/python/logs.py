"""Logs in the ways of programs, and prints what came of it; the same with and without us."""

import io
import logging
import sys

stream = io.StringIO()
root = logging.getLogger()
assert not root.handlers
logging.basicConfig(
    stream=stream, level=logging.INFO, format="%(levelname)s %(name)s %(funcName)s:%(lineno)d %(message)s"
)
log = logging.getLogger("app.solver")


def solve() -> None:
    for step in range(3):
        log.info("step %d of %s", step, "ä")
    log.debug("not wanted")
    log.warning("slow")


solve()
logging.getLogger("other").error("text without arguments %d")
quiet = logging.getLogger("quiet")
quiet.propagate = False
quiet.addHandler(logging.NullHandler())
quiet.critical("kept by nobody")
root.handlers[0].flush()
print(stream.getvalue(), end="")
print(len(root.handlers), root.level, len(log.handlers), log.level, file=sys.stdout)
