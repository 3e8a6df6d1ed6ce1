"""A diagnosis as a page, on a terminal or as text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from destiny import notebook

if TYPE_CHECKING:
    from destiny.diagnosis.diagnosis import Diagnosis

MARKS = {"ok": ("ok", "green"), "look": ("look", "yellow"), "problem": ("PROBLEM", "bold red")}


def to_text(diagnosis: Diagnosis, width: int = 110) -> str:
    """Return the page as text."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_report(diagnosis, console)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().splitlines())


def to_html(diagnosis: Diagnosis) -> str:
    """Return the page as HTML for a notebook."""
    problem = diagnosis.facts["problem"]
    levels = [(notebook.Strong(MARKS[f.level][0]), f.about, f.text) for f in diagnosis.findings]
    advice = [(f"{k}.", a.label, a.text) for k, a in enumerate(diagnosis.advice, start=1)]
    parts = [
        notebook.heading(title(diagnosis)),
        notebook.table(levels),
        notebook.heading(f"Rounds to {problem['tolerance']:.0e}, predicted"),
        notebook.table((label, str(p)) for label, p in diagnosis.predictions.items()),
        notebook.heading("What would help, most first"),
        notebook.table(advice or [("nothing that this page knows of",)]),
    ]
    return notebook.page(*parts)


def title(diagnosis: Diagnosis) -> str:
    """Return the problem and the network in one line."""
    problem = diagnosis.facts["problem"]
    what = f"{problem['kind'].upper()}: X is {problem['n']} x {problem['p']}, {problem['agents']} agents"
    return f"{what}, {diagnosis.facts['network'].get('name', 'a network of your own')}"


def print_report(diagnosis: Diagnosis, console: Console) -> None:
    problem = diagnosis.facts["problem"]
    console.print(Text(title(diagnosis)))
    print_heading(console, "Findings")
    table = grid()
    for finding in diagnosis.findings:
        mark, style = MARKS[finding.level]
        table.add_row(Text(mark, style=style), Text(finding.about), Text(finding.text))
    console.print(table)
    print_heading(console, f"Rounds to {problem['tolerance']:.0e}, predicted")
    table = grid(2)
    for label, prediction in diagnosis.predictions.items():
        table.add_row(Text(label), Text(str(prediction)))
    console.print(table)
    print_heading(console, "What would help, most first")
    table = grid(1)
    for number, advice in enumerate(diagnosis.advice, start=1):
        table.add_row(
            Text(f"{number}."), Text(f"{advice.label}: {advice.text}" if advice.label else advice.text)
        )
    if not diagnosis.advice:
        table.add_row("", "nothing that this page knows of")
    console.print(table)


def print_heading(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold"))


def grid(columns: int = 3) -> Any:
    """Return a table without lines."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(max(2, columns) - 1):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table
