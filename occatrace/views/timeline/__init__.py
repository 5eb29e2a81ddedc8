"""Tables of a run → a Perfetto trace: processes, threads with their calls, devices with queues, flows, counters.

`sources` says in SQL which slices there are and what they carry, `selection` reads them in order of time, `counters` finds the
values over time, `tracks` says where they stand; `writer` brings them to the encoder in native/timeline.
"""

from occatrace.views.timeline.sources import ANNOTATIONS, DEVICE, Options
from occatrace.views.timeline.writer import Format, TooManyParts, Written, write

__all__ = ["ANNOTATIONS", "DEVICE", "Format", "Options", "TooManyParts", "Written", "write"]
