"""Times that the page's script turns into "3 s ago"."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from destiny.report.html.markup import Html, tag
from destiny.report.html.provenance import format_time
from destiny.validation import is_number

LATE = 10  # times the usual interval without a sign of life: it may have been killed


def since(stamp: Any, every: Any) -> Html:
    """Return a time; ``every`` is how often signs of life come: the script warns of a long silence."""
    text = str(stamp or "")[:40]
    late = LATE * float(every) if is_number(every) and every > 0 else None
    return tag("time", format_time(text), datetime=text, data_late=late)


def from_seconds(seconds: float) -> Html:
    """Return a time in seconds since 1970."""
    return since(datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds"), 0)
