"""Values that the shell completes after an option or as an argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def among(choices: Iterable[str]) -> Callable[[str], list[str]]:
    """For ``autocompletion`` of Typer: the choices that begin with what was typed."""
    known = list(choices)
    return lambda incomplete: [choice for choice in known if choice.startswith(incomplete)]
