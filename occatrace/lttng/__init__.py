"""LTTng's file layout: packets in buffers and streams."""
