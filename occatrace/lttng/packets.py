"""The layout of LTTng's packets, of metadata and of events."""

from __future__ import annotations

import os
import struct
from pathlib import Path

METADATA = struct.Struct("<I16sIII")  # begin of a packet; the sizes are in bits
METADATA_MAGIC = 0x75D11D57
METADATA_HEADER = 37  # bytes; after the sizes come kinds of compression and encryption, of checksum, and the version
# Begin of a packet of events: magic, identifier, stream, instance, begin, end, bits of content, bits of the packet, number.
# LTTng-UST's layout since 2.8.
EVENTS = struct.Struct("<I16sIQQQQQQ")
EVENTS_MAGIC = 0xC1FC1FC1


def metadata_extent(path: Path) -> tuple[int, bool]:
    """How many bytes of text there are in a file of metadata, and whether its last packet is not full: then it was written up to
    some moment, such as the registration of a process."""
    length, whole = 0, False
    try:
        with path.open("rb") as file:
            size_of_file = os.fstat(file.fileno()).st_size
            while len(head := file.read(METADATA.size)) == METADATA.size:
                magic, _, _, content, size = METADATA.unpack(head)
                if magic != METADATA_MAGIC or size // 8 < METADATA.size:
                    break
                if file.seek(size // 8 - METADATA.size, os.SEEK_CUR) > size_of_file:
                    return length, False  # the disk was full in the middle of it
                length, whole = length + content // 8 - METADATA_HEADER, content < size
    except OSError:
        pass
    return length, whole


def restore_metadata(buffers: Path, trace: Path) -> None:
    """Write the metadata that LTTng found no room for. It keeps a copy, as text, beside the buffers."""

    for copy in buffers.glob("ust/uid/*/*/metadata"):
        text = copy.read_bytes()
        for target in trace.rglob("/".join(copy.parts[-5:])):
            # A shorter file lacks the events of which LTTng was told last.
            if metadata_extent(target)[0] < len(text):
                temporary = target.with_name(".metadata")
                temporary.write_bytes(text)
                temporary.replace(target)
