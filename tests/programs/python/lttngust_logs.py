"""Logs where the program itself uses LTTng's lttngust."""

import logging
import sys

if "later" in sys.argv:
    logging.getLogger("app").warning("before")
import lttngust  # type: ignore[import-not-found]  # noqa: F401

log = logging.getLogger("app.part")
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s %(message)s", level=logging.INFO)
for step in range(3):
    log.info("step %d", step)
log.warning("end")
