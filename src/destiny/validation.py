"""Checks of single arguments: each raises one sentence with what was expected and what was found."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, SupportsIndex, TypeGuard

import numpy as np

from destiny.errors import DestinyError, NetworkError, ProblemError, SettingsError


def did_you_mean(wrong: object, choices: Iterable[object]) -> str:
    """The choice that a wrong one probably stands for, as the end of a sentence; empty if there is none."""
    near = get_close_matches(str(wrong).lower().replace("_", "-"), map(str, choices), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a setting is a whole number, NumPy's included; true and false are not."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a setting is a finite real number, NumPy's included; true and false are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:  # a whole number beyond every float
        return False


def check_positive(
    name: str, value: Any, error: type[DestinyError] = SettingsError, optional: bool = False
) -> None:
    """Raise ``error`` unless ``value`` is a finite number above 0, or None where that is allowed."""
    if value is None and optional:
        return
    if not is_number(value) or value <= 0:
        raise error(f"{name} must be a positive number; found {value!r}")


def check_integer(name: str, value: Any, least: int) -> int:
    """Return an argument of a network as an int of at least ``least``; raise NetworkError otherwise."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or operator.index(value) < least:
        raise NetworkError(f"{name} must be an integer of at least {least}; found {value!r}")
    return operator.index(value)


def check_probability(name: str, value: Any, *, certain: bool = True) -> float:
    """Return ``value`` as a float in [0, 1], or in [0, 1) if not ``certain``; or raise NetworkError."""
    if not is_number(value) or not (0 <= value < 1 or (certain and value == 1)):
        interval = "[0, 1]" if certain else "[0, 1)"
        raise NetworkError(f"{name} must be a probability in {interval}; found {value!r}")
    return float(value)


def check_size(name: str, value: SupportsIndex) -> int:
    """Return a number of features or samples as an int of at least 1; raise ProblemError otherwise."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or operator.index(value) < 1:
        raise ProblemError(f"{name} must be a whole number of at least 1; found {value!r}")
    return operator.index(value)


def check_seed(seed: int | Sequence[int]) -> int | Sequence[int]:
    """Return the seed if NumPy takes it: whole numbers, none negative; raise ProblemError otherwise."""
    for number in [seed] if isinstance(seed, int | np.integer) else seed:
        if number < 0:
            raise ProblemError(f"seed must not be negative; found {number}")
    return seed
