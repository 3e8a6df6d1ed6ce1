"""HTML that objects show of themselves in notebooks: tables and headings, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple


class Strong(NamedTuple):
    text: str


Cell = str | Strong


def table(rows: Iterable[Sequence[Cell]], header: Sequence[str] = (), numbers: bool = False) -> str:
    """Return a table; the first column is aligned left, the others too unless they have ``numbers``.

    Colors and fonts are the notebook's.
    """
    head = _row(header, "th", numbers) if header else ""
    return f"<table>{head}{''.join(_row(row, 'td', numbers) for row in rows)}</table>"


def heading(text: str) -> str:
    """Return a line in bold."""
    return f"<div><b>{escape(text)}</b></div>"


def page(*parts: str) -> str:
    """Return several parts as one piece of HTML."""
    return f"<div>{''.join(parts)}</div>"


def _row(cells: Sequence[Cell], tag: str, numbers: bool) -> str:
    return "<tr>" + "".join(_cell(cell, tag, numbers and k > 0) for k, cell in enumerate(cells)) + "</tr>"


def _cell(cell: Cell, tag: str, right: bool) -> str:
    text = f"<b>{escape(cell.text)}</b>" if isinstance(cell, Strong) else escape(cell)
    return f'<{tag} style="text-align: {"right" if right else "left"}">{text}</{tag}>'
