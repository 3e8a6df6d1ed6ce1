"""Arguments checked at the border: each refusal says what was expected and what was found."""

from __future__ import annotations

import math
import operator
from typing import Any

from destiny.errors import NetworkError


def integer(name: str, value: Any, least: int) -> int:
    """``value`` as an int of at least ``least``; numpy integers pass, booleans and floats do not."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise NetworkError(f"{name} must be an integer of at least {least}; found {value!r}")
    return number


def probability(name: str, value: Any, *, certain: bool = True) -> float:
    """``value`` as a float in [0, 1], or in [0, 1) when the event must not be ``certain``."""
    number = _real(value)
    if not (0 <= number < 1 or (certain and number == 1)):
        interval = "[0, 1]" if certain else "[0, 1)"
        raise NetworkError(f"{name} must be a probability in {interval}; found {value!r}")
    return number


def positive(name: str, value: Any) -> float:
    """``value`` as a finite float above 0."""
    number = _real(value)
    if not 0 < number < math.inf:
        raise NetworkError(f"{name} must be a positive number; found {value!r}")
    return number


def _real(value: Any) -> float:
    """``value`` as a float; nan, which every comparison refuses, when it is not a number."""
    if isinstance(value, str | bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
