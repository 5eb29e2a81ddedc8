#!/usr/bin/env python3
"""A sink of your own behind our filter: the slowest calls of a run with their arguments. slowest.py RUN [NUMBER]

The graph is put together by hand here; `register_plugin` and `plugin_component_class` would make the same class a plug-in for
the babeltrace2 command.
"""

import heapq
import subprocess
import sys
from pathlib import Path

try:
    import bt2
except ImportError:
    sys.exit(
        "needs Babeltrace 2's Python package: Debian has it as python3-bt2 (then tools/setup makes it known to .venv)"
    )


class Slowest(bt2._UserSinkComponent):
    """Keeps the slowest calls that come in, and prints them at the end."""

    def __init__(self, config, params, obj):
        self._wanted = int(params["number"])
        self._slowest = []
        self._calls = 0
        self._port = self._add_input_port("in")

    def _user_graph_is_configured(self):
        self._messages = self._create_message_iterator(self._port)

    def _user_consume(self):
        try:
            message = next(self._messages)
        except bt2.Stop:
            self._print()
            raise
        if isinstance(message, bt2._EventMessageConst) and message.event.name == "call":
            call = message.event
            self._calls += 1
            entry = (int(call["duration"]), self._calls, f"{call['api']}:{call['name']}({call['arguments']})")
            keep = heapq.heappush if len(self._slowest) < self._wanted else heapq.heappushpop
            keep(self._slowest, entry)

    def _print(self):
        print(f"the slowest of {self._calls} calls:")
        for duration, _, text in sorted(self._slowest, reverse=True):
            print(f"{duration / 1e6:10.3f} ms  {text}")


def main(run: Path, number: int) -> None:
    folder = subprocess.run(
        ["occa_prof", "paths", "--plugins"], capture_output=True, text=True, check=True
    ).stdout.strip()
    ours = next(p for p in bt2.find_plugins_in_path(folder) if p.name == "occatrace")
    graph = bt2.Graph()
    hosts = [str(path) for path in sorted((run / "trace").iterdir())]
    muxer = graph.add_component(bt2.find_plugin("utils").filter_component_classes["muxer"], "muxer")
    free = 0
    for host in hosts:
        ctf = bt2.find_plugin("ctf").source_component_classes["fs"]
        for folder in sorted({str(metadata.parent) for metadata in Path(host).rglob("metadata")}):
            source = graph.add_component(ctf, folder, params={"inputs": [folder]})
            for port in source.output_ports.values():
                graph.connect_ports(port, muxer.input_ports[f"in{free}"])
                free += 1  # the muxer has always one free input
    calls = graph.add_component(ours.filter_component_classes["calls"], "calls")
    graph.connect_ports(muxer.output_ports["out"], calls.input_ports["in"])
    sink = graph.add_component(Slowest, "slowest", params={"number": number})
    graph.connect_ports(calls.output_ports["out"], sink.input_ports["in"])
    graph.run()


main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
