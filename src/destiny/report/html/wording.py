"""Numbers and curves as text, for table cells, captions and screen readers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from destiny.protocols import Array
from destiny.report.charts.curves import count_column, histories, rounds_to_level
from destiny.report.sources.results import PanelResults
from destiny.run.result import format_bytes
from destiny.validation import is_number

LEVELS = (1e-2, 1e-4, 1e-8)
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NARROW = "\u202f"  # a narrow space at which no line breaks
NONE = "\u2013"  # a dash


def scientific(value: object) -> str:
    """Return a number like 3.1 × 10⁻⁹, or plain digits between 0.01 and 1000; a dash for anything else."""
    if not is_number(value):
        return NONE
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3g}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}{NARROW}\u00d7{NARROW}{power(int(exponent))}"


def power(exponent: int) -> str:
    return f"10{str(exponent).translate(SUPERSCRIPTS)}"


def level_name(level: float) -> str:
    """Return a power of ten like 10⁻⁸."""
    return power(round(math.log10(level)))


def whole(value: object) -> str:
    """Return a number like 1 234 567, in scientific notation from 10¹² on; a dash for anything else."""
    if not is_number(value):
        return NONE
    return f"{value:,.0f}".replace(",", NARROW) if abs(value) < 1e12 else scientific(value)


def size(value: object) -> str:
    """Return a number of bytes like 14.2 GB; a dash for anything else."""
    return format_bytes(value) if is_number(value) else NONE


def seconds(value: object) -> str:
    """Return a duration in seconds, from ten minutes on in minutes."""
    if not is_number(value):
        return NONE
    if value >= 600:
        return f"{value / 60:.0f}{NARROW}min"
    return f"{value:.3g}{NARROW}s"


def upper_median(values: Array) -> float:
    """Return the median, for an even number the larger of the two, as in claims."""
    return float(np.sort(values)[len(values) // 2])


def spread(values: Array) -> str:
    """Return median and range as text; inf stands for a seed that did not reach the level."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return "not reached"
    span = (
        whole(finite[0])
        if finite.min() == finite.max()
        else f"{whole(finite.min())} to {whole(finite.max())}"
    )
    missed = f"not reached with {len(values) - len(finite)} of {len(values)} seeds"
    if not np.isfinite(upper_median(values)):
        return f"{missed}, else {span}"
    text = whole(upper_median(values)) + (f" ({span})" if finite.min() < finite.max() else "")
    return text if len(finite) == len(values) else f"{text}; {missed}"


def unit(panel: PanelResults) -> str:
    """Return "rounds", or "steps" if the panel's runs do not communicate."""
    columns = [count_column(h) for label in panel.labels for h in histories(panel, label)]
    return "rounds" if "round" in columns or not columns else "steps"


def rounds_per_seed(panel: PanelResults, label: str, level: float) -> Array:
    """Return the rounds to a level, one number for each seed."""
    return np.array([rounds_to_level(history, level) for history in histories(panel, label)])


def convergence(panel: PanelResults) -> str:
    """Return the best level each method reaches, and after how many rounds."""
    sentences = [progress(panel, label) for label in panel.labels if histories(panel, label)]
    return "; ".join(sentences) + "." if sentences else "No history to draw."


def progress(panel: PanelResults, label: str) -> str:
    """Return the best level a method reaches with every seed, and after how many rounds."""
    count, several = unit(panel), len(panel.seeds) > 1
    for level in reversed(LEVELS):
        needed = rounds_per_seed(panel, label, level)
        if np.isfinite(needed).all():
            of = f" (median of {len(needed)} seeds)" if several else ""
            every = " with every seed" if several else ""
            further = "" if level == LEVELS[-1] else f", but not {level_name(LEVELS[-1])}{every}"
            rounds = whole(upper_median(needed))
            return f"{label} reaches {level_name(level)} after {rounds} {count}{of}{further}"
    never = several and not np.isfinite(rounds_per_seed(panel, label, LEVELS[0])).any()
    which = " with any seed" if never else " with every seed" if several else ""
    return f"{label} does not reach {level_name(LEVELS[0])}{which}"


def measure(panel: PanelResults, name: str, column: str) -> str:
    """Return the last value of one measure, method by method."""
    ends = []
    for label in panel.labels:
        last = np.array([history[column][-1] for history in histories(panel, label)])
        if len(last):
            worst = np.median(np.where(np.isfinite(last), last, np.inf))
            ends.append(f"{label} {scientific(worst) if np.isfinite(worst) else 'not finite'}")
    return f"{name} over {unit(panel)}, log scale. At the end: {', '.join(ends)}."


def setting(value: Any) -> str:
    """Return a value of a settings table as text."""
    if isinstance(value, dict):
        return ", ".join(f"{key} = {setting(v)}" for key, v in value.items())
    if isinstance(value, list):
        return ", ".join(setting(v) for v in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
