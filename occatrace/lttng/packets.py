"""The layout of LTTng's packets, of metadata and of events."""

from __future__ import annotations

import os
import struct
from pathlib import Path

METADATA = struct.Struct("<I16sIII")  # begin of a packet; the sizes are in bits
METADATA_MAGIC = 0x75D11D57
# Begin of a packet of events: magic, identifier, stream, instance, begin, end, bits of content, bits of the packet, number.
# LTTng-UST's layout since 2.8.
EVENTS = struct.Struct("<I16sIQQQQQQ")
EVENTS_MAGIC = 0xC1FC1FC1


def metadata_extent(path: Path) -> tuple[int, bool]:
    """How much text there is in a file of metadata, and whether it is whole: then its last packet is not full."""
    length, whole = 0, False
    try:
        with path.open("rb") as file:
            while len(head := file.read(METADATA.size)) == METADATA.size:
                magic, _, _, content, size = METADATA.unpack(head)
                if magic != METADATA_MAGIC or size // 8 < METADATA.size:
                    break
                length, whole = length + content // 8, content < size
                file.seek(size // 8 - METADATA.size, os.SEEK_CUR)
    except OSError:
        pass
    return length, whole


def has_whole_metadata(path: Path) -> bool:
    """Whether a file of metadata was written to its end."""
    return metadata_extent(path)[1]


def restore_metadata(buffers: Path, trace: Path) -> None:
    """Write the metadata that LTTng found no room for. It keeps a copy, as text, beside the buffers."""

    for copy in buffers.glob("ust/uid/*/*/metadata"):
        text = copy.read_bytes()
        for target in trace.rglob("/".join(copy.parts[-5:])):
            if text and not has_whole_metadata(target):
                temporary = target.with_name(".metadata")
                temporary.write_bytes(text)
                temporary.replace(target)
