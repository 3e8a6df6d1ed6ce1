"""A diagnosis as a page for people, on a terminal or as text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from destiny.diagnosis.diagnosis import Diagnosis
    from destiny.diagnosis.theory import Theory

MARKS = {"ok": ("ok", "green"), "look": ("look", "yellow"), "problem": ("PROBLEM", "bold red")}


def plain(found: Diagnosis, width: int = 110) -> str:
    """The page as text."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    show(found, console)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().splitlines())


def show(found: Diagnosis, console: Console) -> None:
    """Print it."""
    problem = found.facts["problem"]
    what = f"{problem['kind'].upper()}: X is {problem['n']} x {problem['p']}, {problem['agents']} agents"
    console.print(Text(f"{what}, {found.facts['network'].get('name', 'a network of your own')}"))
    section(console, "Findings")
    table = grid()
    for finding in found.findings:
        mark, style = MARKS[finding.level]
        table.add_row(Text(mark, style=style), Text(finding.about), Text(finding.text))
    console.print(table)
    section(console, f"Rounds to {problem['tolerance']:.0e}, predicted")
    table = grid(2)
    for label, told in found.predictions.items():
        table.add_row(Text(label), Text(str(told)))
    console.print(table)
    section(console, "What would help, most first")
    table = grid(1)
    for number, advice in enumerate(found.advice, start=1):
        table.add_row(
            Text(f"{number}."), Text(f"{advice.label}: {advice.text}" if advice.label else advice.text)
        )
    if not found.advice:
        table.add_row("", "nothing that this page knows of")
    console.print(table)
    if found.theory is not None:
        section(console, "Theory (estimates from below; the paper's Assumption 3, corrected)")
        console.print(Text(theory(found, found.theory)))


def theory(found: Diagnosis, t: Theory) -> str:
    """The constants and what to make of them."""
    text = (
        f"C_0 {t.C_0:.2g}, M_g {t.M_g:.2g}, L_g {t.L_g:.2g}, L_f {t.L_f:.2g}; exactly M_b {t.M_b:.2g}, "
        f"L_b {t.L_b:.2g}\n"
        f"over a ball of radius {t.radius:.3g}: beta > {t.beta:.2g}, then steps < {t.eta:.1e} ({t.binding})"
    )
    used = [told.step for told in found.predictions.values() if told.step]
    if used and t.eta > 0:
        times = max(used) / t.eta
        text += f"\nSteps taken are about {max(used):.2g}, {times:.0e} times as long: set nothing by these."
    return text


def section(console: Console, title: str) -> None:
    """A heading."""
    console.print()
    console.print(Text(title, style="bold"))


def grid(columns: int = 3) -> Any:
    """A table without lines, indented."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(max(2, columns) - 1):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table
