"""Numbers and figures in words: for cells, captions and readers who do not see the curves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from destiny.errors import is_number
from destiny.protocols import Array
from destiny.report.charts.curves import counted, histories, reached
from destiny.report.sources.results import Panel

LEVELS = (1e-2, 1e-4, 1e-8)
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NARROW = "\u202f"  # a narrow space at which no line breaks
NONE = "\u2013"  # a dash


def scientific(value: object) -> str:
    """3.1 × 10⁻⁹; plain digits where they are short."""
    if not is_number(value):
        return NONE
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3g}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}{NARROW}\u00d7{NARROW}{power(int(exponent))}"


def power(exponent: int) -> str:
    """10⁻⁸."""
    return f"10{str(exponent).translate(SUPERSCRIPTS)}"


def level_name(level: float) -> str:
    """A power of ten by its name."""
    return power(round(math.log10(level)))


def whole(value: object) -> str:
    """1 234 567, up to a million million."""
    if not is_number(value):
        return NONE
    return f"{value:,.0f}".replace(",", NARROW) if abs(value) < 1e12 else scientific(value)


def seconds(value: object) -> str:
    """A time for people."""
    if not is_number(value):
        return NONE
    if value >= 600:
        return f"{value / 60:.0f}{NARROW}min"
    return f"{value:.3g}{NARROW}s"


def middle(values: Array) -> float:
    """The median, of an even number the worse of the two, as in claims; infinite where most never do."""
    return float(np.sort(values)[len(values) // 2])


def spread(values: Array) -> str:
    """The median, and from least to largest; a seed that never gets there is worse than any."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return "not reached"
    span = (
        whole(finite[0])
        if finite.min() == finite.max()
        else f"{whole(finite.min())} to {whole(finite.max())}"
    )
    missed = f"not reached with {len(values) - len(finite)} of {len(values)} seeds"
    if not np.isfinite(middle(values)):
        return f"{missed}, else {span}"
    told = whole(middle(values)) + (f" ({span})" if finite.min() < finite.max() else "")
    return told if len(finite) == len(values) else f"{told}; {missed}"


def counts(panel: Panel) -> str:
    """What a panel's runs are counted in: "rounds", or "steps" where nothing is sent."""
    found = [counted(h) for label in panel.labels for h in histories(panel, label)]
    return "rounds" if "round" in found or not found else "steps"


def reaching(panel: Panel, label: str, level: float) -> Array:
    """Rounds to a level, one for each seed."""
    return np.array([reached(history, level) for history in histories(panel, label)])


def convergence(panel: Panel) -> str:
    """Who gets how far, in a few sentences: the best level each method reaches, and when."""
    told = [progress(panel, label) for label in panel.labels if histories(panel, label)]
    return "; ".join(told) + "." if told else "No history to draw."


def progress(panel: Panel, label: str) -> str:
    """How far one method gets."""
    unit, several = counts(panel), len(panel.seeds) > 1
    for level in reversed(LEVELS):
        needed = reaching(panel, label, level)
        if np.isfinite(needed).all():
            of = f" (median of {len(needed)} seeds)" if several else ""
            every = " with every seed" if several else ""
            further = "" if level == LEVELS[-1] else f", but not {level_name(LEVELS[-1])}{every}"
            return f"{label} reaches {level_name(level)} after {whole(middle(needed))} {unit}{of}{further}"
    never = several and not np.isfinite(reaching(panel, label, LEVELS[0])).any()
    which = " with any seed" if never else " with every seed" if several else ""
    return f"{label} does not reach {level_name(LEVELS[0])}{which}"


def measure(panel: Panel, name: str, column: str) -> str:
    """One measure at the end, method by method."""
    ends = []
    for label in panel.labels:
        last = np.array([history[column][-1] for history in histories(panel, label)])
        if len(last):
            worst = np.median(np.where(np.isfinite(last), last, np.inf))
            ends.append(f"{label} {scientific(worst) if np.isfinite(worst) else 'not finite'}")
    return f"{name} over {counts(panel)}, log scale. At the end: {', '.join(ends)}."


def setting(value: Any) -> str:
    """A value of a settings table."""
    if isinstance(value, dict):
        return ", ".join(f"{key} = {setting(v)}" for key, v in value.items())
    if isinstance(value, list):
        return ", ".join(setting(v) for v in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
