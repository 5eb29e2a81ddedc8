"""Tables of a run → a Perfetto trace: processes, threads with their calls, devices with queues, flows, counters.

`selection` decides in SQL which slices there are and what they carry, `counters` which values over time, `tracks` where
they stand; `writer` brings them to the encoder in native/timeline.
"""

from occatrace.views.timeline.selection import ANNOTATIONS, DEVICE, Options
from occatrace.views.timeline.writer import Format, TooManyParts, Written, write

__all__ = ["ANNOTATIONS", "DEVICE", "Format", "Options", "TooManyParts", "Written", "write"]
