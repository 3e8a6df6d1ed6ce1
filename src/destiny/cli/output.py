"""What commands print: tables on standard output, warnings on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from destiny.engines.ranks.guard import guard

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Standard output, for tables; a pipe has no width: lines are neither folded nor cut there."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=1000)


def warn(sentence: str) -> None:
    """Print one line on standard error."""
    print(f"destiny: {guard.name}{sentence}", file=sys.stderr)
