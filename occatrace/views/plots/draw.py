"""Vega-Lite specifications → SVG and PNG, by vl-convert: no browser, no network. The only module that knows the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from occatrace.errors import RunError
from occatrace.views.plots.charts import DARK, DARK_PAPER, PAPER

_VERSION = "5.20"
_SCALE = 2.0  # of pictures in pixels: sharp on paper, and where a screen has more of them


class NoPlots(RunError):
    """The library is not there; the message says how to get it."""


def available() -> bool:
    """Whether plots can be drawn."""
    try:
        import vl_convert  # noqa: F401
    except ImportError:
        return False
    return True


def _library() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise NoPlots("plots are drawn by vl-convert, which is not installed: pip install vl-convert-python") from None
    return vl_convert


def fragment(spec: dict[str, Any]) -> str:
    """SVG to stand within a page."""
    text: str = _library().vegalite_to_svg(spec, vl_version=_VERSION)
    return text


def svg(spec: dict[str, Any]) -> str:
    """SVG to stand alone, with its paper, in the colours of its reader's page."""
    text = fragment({**spec, "background": PAPER, "padding": 12})
    style = f"<style>@media (prefers-color-scheme: dark) {{{' '.join(dark_rules())}}}</style>"
    head, _, rest = text.partition(">")
    return f"{head}>{style}{rest}\n"


def png(spec: dict[str, Any]) -> bytes:
    """A picture on white."""
    data: bytes = _library().vegalite_to_png(
        {**spec, "background": PAPER, "padding": 12}, vl_version=_VERSION, scale=_SCALE
    )
    return data


def dark_rules(inside: str = "") -> Sequence[str]:
    """CSS that changes the colours of plots into those for dark pages."""
    colors = {**DARK, PAPER: DARK_PAPER}
    return [
        f"{inside}[{kind}='{light}']{{{kind}:{dark}}}" for light, dark in colors.items() for kind in ("fill", "stroke")
    ]
