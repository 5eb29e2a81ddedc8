"""mkdocs hook: files outside of docs/ are not part of the site, so links to them become text."""

from __future__ import annotations

import posixpath
import re
from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(match: re.Match[str]) -> str:
        outside = posixpath.normpath(posixpath.join(folder, match[2])).startswith("..")
        return match[1] if outside else match[0]

    return re.sub(r"\[([^\]]+)\]\((\.\./[^)]*)\)", link, markdown)
