"""Which LTTng events a recording mode enables: those that it writes, by one command, whatever the number of functions."""

from __future__ import annotations

# All our providers. The generator gives each event the log level of the first mode in which it is written, so that a
# session needs neither names nor the model.
PATTERN = "occatrace_*"
# LTTng's numbers of the levels, by mode: what is as severe or more is written.
LOGLEVELS = {"default": 7, "minimal": 6, "full": 14, "tally": 5}
MODES = tuple(LOGLEVELS)
