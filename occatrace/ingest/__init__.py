"""From a trace to the tables: the first pass, which all that the summary needs comes from, in bounded memory."""

from occatrace.ingest.first_pass import FirstPass
from occatrace.ingest.host import HostTrace
from occatrace.ingest.reading import OpenReader, Reader, text_of, texts_of
from occatrace.ingest.threads import ThreadMap

__all__ = ["FirstPass", "HostTrace", "OpenReader", "Reader", "ThreadMap", "text_of", "texts_of"]
