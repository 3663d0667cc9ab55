"""`gpuwait explain`: what a person reads of the verdicts of the last seconds."""

from __future__ import annotations

from gpuwait.explain.build import build
from gpuwait.explain.client import DEFAULT_URL, LockedError, ask, parse_duration
from gpuwait.explain.markdown import markdown
from gpuwait.explain.model import Explanation, Report
from gpuwait.explain.payload import as_json, from_json
from gpuwait.explain.recent import Recent, Strip
from gpuwait.explain.text import text, wants_color
from gpuwait.explain.whereabouts import sleeps

__all__ = [
    "DEFAULT_URL",
    "Explanation",
    "LockedError",
    "Recent",
    "Report",
    "Strip",
    "as_json",
    "ask",
    "build",
    "from_json",
    "markdown",
    "parse_duration",
    "sleeps",
    "text",
    "wants_color",
]
