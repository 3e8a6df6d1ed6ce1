"""What can go wrong, in one sentence each: expected, found, what to do."""

import math
from numbers import Integral, Real
from typing import TypeGuard


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


class DestinyError(Exception):
    """Base of every error this package raises on purpose; its text is one sentence for a person."""

    code = 2  # with which a command ends


class ProblemError(DestinyError, ValueError):
    """Data, objectives or shapes that cannot be used."""


class NetworkError(DestinyError, ValueError):
    """A graph or a mixing matrix that cannot be used."""


class SettingsError(DestinyError, ValueError):
    """A setting, a file's key or a command-line option that cannot be used."""


class MismatchError(SettingsError):
    """A method that cannot solve this problem; the text names both."""


class CheckpointError(DestinyError):
    """A checkpoint that is missing, damaged or belongs to another run."""


class MissingExtraError(DestinyError, ImportError):
    """An optional dependency is not installed; the text names the extra."""
