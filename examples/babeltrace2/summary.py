#!/usr/bin/env python3
"""The calls of a run by name, in twenty lines on bt2 (the filter does the rest): summary.py RUN"""

import collections
import subprocess
import sys

try:
    import bt2
except ImportError:
    sys.exit(
        "needs Babeltrace 2's Python package: Debian has it as python3-bt2 (then tools/setup makes it known to .venv)"
    )

folder = subprocess.run(["occa_prof", "paths", "--plugins"], capture_output=True, text=True, check=True).stdout.strip()
plugin = next(p for p in bt2.find_plugins_in_path(folder) if p.name == "occatrace")
messages = bt2.TraceCollectionMessageIterator(
    bt2.AutoSourceComponentSpec(f"{sys.argv[1]}/trace"),
    bt2.ComponentSpec(plugin.filter_component_classes["calls"]),
)
calls: dict[str, list[int]] = collections.defaultdict(list)
for message in messages:
    if isinstance(message, bt2._EventMessageConst) and message.event.name == "call":
        calls[f"{message.event['api']}:{message.event['name']}"].append(int(message.event["duration"]))
for name, times in sorted(calls.items(), key=lambda item: -sum(item[1])):
    print(f"{sum(times):>15,} ns {len(times):>9,} calls {sum(times) // len(times):>12,} ns each  {name}")
