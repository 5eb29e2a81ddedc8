"""occatrace: traces OCCA, OpenCL and other programs and tells where the time and the memory traffic went."""

__version__ = "0.1.0"
