"""Tables of a run → a Perfetto trace: processes, threads with their calls, devices with queues, flows, counters.

`selection` decides in SQL which slices there are and what they carry, `tracks` where they stand, `writer` brings both
to the encoder in native/timeline.
"""

from occatrace.timeline.selection import DEVICE, Options, Window
from occatrace.timeline.writer import Format, Written, write

__all__ = ["DEVICE", "Format", "Options", "Window", "Written", "write"]
