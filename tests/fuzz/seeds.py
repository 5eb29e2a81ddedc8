"""Writes the first inputs of the decoder's fuzzer: small traces with every kind of field. Usage: seeds.py FOLDER"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from tests.support import ctf

ALL = ctf.Struct(
    (
        ("a", ctf.Integer(8)),
        ("b", ctf.Integer(16, signed=True, big_endian=True)),
        ("c", ctf.Enum(ctf.Integer(32, align=4))),
        ("d", ctf.Float(double=True)),
        ("e", ctf.String()),
        ("f", ctf.Text(6)),
        ("g", ctf.Text()),
        ("h", ctf.List(ctf.Integer(16), 3)),
        ("i", ctf.List(ctf.Integer(64, align=8), None, ctf.Integer(8))),
        (
            "j",
            ctf.Struct((("x", ctf.Float(double=False)), ("y", ctf.List(ctf.Integer(8))))),
        ),
    )
)
VALUE = {
    "a": 1,
    "b": -2,
    "c": 5,
    "d": 0.5,
    "e": "some text",
    "f": b"abc",
    "g": b"piece",
    "h": [1, 2, 3],
    "i": [4, 5],
    "j": {"x": 2.0, "y": [1]},
}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for compact in (False, True):
        for packets in (False, True):
            kinds = (
                ctf.EventClass(0, "e:0", ALL),
                ctf.EventClass(1, "e:1", ctf.Struct(())),
                ctf.EventClass(40, "e:2", ctf.Struct((("a", ctf.Integer(32)),)), ctf.Struct((("z", ctf.Integer(32)),))),
            )
            stream = ctf.StreamClass(0, compact, ctf.Struct((("vtid", ctf.Integer(32)),)), kinds)
            common = {"vtid": 7}
            events = [
                ctf.Event(10, kinds[0], common, {}, VALUE),
                ctf.Event(1 << 33, kinds[1], common, {}, {}),
                ctf.Event((1 << 33) + 5, kinds[2], common, {"z": 3}, {"a": 1}),
                ctf.Event((1 << 33) + 6, kinds[0], common, {}, VALUE),
            ]
            data = b"".join(ctf.packet(stream, 0, 9, events, padding) for padding in (0, 16))
            for version, text in ((1, ctf.metadata([stream])), (2, ctf.metadata2([stream]))):
                metadata = ctf.packetized(text, 1000) if packets else text.encode()
                content = struct.pack("<H", len(metadata)) + metadata + data
                (folder / f"{version}-{compact}-{packets}").write_bytes(content)


if __name__ == "__main__":
    main()
