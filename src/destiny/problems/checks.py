"""Checks shared by the problems: each raises one sentence with expected, found, and what to do."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.protocols import Array

LARGEST = 1e25  # times the largest scale; SDL squares fourth powers, and (1e35)^8 is still a number
LARGEST_SCALE = 1e10


def check_matrix(data: NDArray[Any], name: str) -> None:
    """Refuse what is not a 2-D array of real numbers."""
    if isinstance(data, np.ma.MaskedArray):
        raise ProblemError(
            f"{name} must be a plain array; found a masked one; fill its gaps or drop the samples"
        )
    name = _with_file(data, name)
    if data.dtype.kind not in "biuf":
        raise ProblemError(f"{name} must be real numbers; found dtype {data.dtype}; convert the array first")
    if data.ndim != 2:
        raise ProblemError(
            f"{name} must be 2-D, features x samples; found {data.ndim}-D of shape {data.shape}; "
            "reshape the array, and give one array per agent"
        )
    if data.shape[0] == 0:
        raise ProblemError(
            f"{name} must have at least one feature; found shape {data.shape}; check the array"
        )


def check_finite(data: NDArray[Any], name: str) -> None:
    """Refuse NaN and infinity, without a temporary of the size of the data."""
    if data.dtype.kind != "f" or data.size == 0:
        return
    # The extremes carry NaN and infinity through, and a reduction allocates nothing.
    extreme = max(abs(float(data.min())), abs(float(data.max())))
    if extreme <= LARGEST:
        return
    if np.isfinite(extreme):
        raise ProblemError(
            f"{_with_file(data, name)} must be below {LARGEST:.0e} in magnitude, or their powers overflow; "
            f"found {extreme:.1e}; use other units"
        )
    for row, values in enumerate(data):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ProblemError(
                f"{_with_file(data, name)} must be finite; found {values[bad[0]]} at feature {row}, "
                f"sample {bad[0]}; remove the sample or fill the gap"
            )


def check_p(p: SupportsIndex, n: int) -> int:
    """The number of columns of X as an int between 1 and n."""
    try:
        columns = operator.index(p)
    except TypeError:
        raise ProblemError(f"p must be a whole number; found {p!r}; pass an int") from None
    if not 1 <= columns <= n:
        raise ProblemError(
            f"p must lie between 1 and the number of features n = {n}; found {columns}; "
            "X^T X = I_p has no solution otherwise"
        )
    return columns


def check_size(name: str, value: SupportsIndex) -> int:
    """A number of features or samples, at least 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < 1:
        raise ProblemError(f"{name} must be a whole number of at least 1; found {value!r}")
    return operator.index(value)


def check_seed(seed: int | Sequence[int]) -> int | Sequence[int]:
    """What NumPy takes as a seed: whole numbers that are not negative."""
    for number in [seed] if isinstance(seed, int | np.integer) else seed:
        if number < 0:
            raise ProblemError(f"seed must not be negative; found {number}")
    return seed


def check_scale(scale: float) -> float:
    """The factor of the data as a float of sensible size."""
    if not 0 < abs(scale) <= LARGEST_SCALE:
        raise ProblemError(
            f"scale must be a number of at most {LARGEST_SCALE:.0e} in magnitude and not 0; found {scale}; "
            "leave it out to keep the data as is"
        )
    return float(scale)


def check_ids(ids: Sequence[int], agents: int) -> list[int]:
    """Indices of agents as ints between 0 and d - 1."""
    numbers = [operator.index(i) for i in ids]
    for i in numbers:
        if not 0 <= i < agents:
            raise ProblemError(
                f"agents are numbered 0 to {agents - 1}; found {i}; host only agents that exist"
            )
    return numbers


def check_stack(X: Array, agents: int, shape: tuple[int, int]) -> Array:
    """X as a C-ordered stack ``(agents, n, p)``, so that bits do not depend on its layout."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    if X.shape != (agents, *shape):
        raise ProblemError(
            f"X must be a stack (agents, n, p) = {(agents, *shape)}; found {X.shape}; "
            "give one X for each hosted agent"
        )
    return X


def check_real(found: object, shape: tuple[int, ...], name: str) -> Array:
    """What a user's function returned, as float64 of the shape expected; NaN and infinity are let through."""
    result = np.asarray(found)
    if result.dtype.kind not in "biuf":
        raise ProblemError(f"{name} must be real numbers; found dtype {result.dtype}; return a float64 array")
    if result.shape != shape:
        expected = f"of shape {shape}" if shape else "one number"
        raise ProblemError(
            f"{name} must be {expected}; found shape {result.shape}; return the shape expected"
        )
    return result.astype(np.float64, copy=False)


def _with_file(data: NDArray[Any], name: str) -> str:
    """The name, and the file from which the array is memory-mapped unless the name tells already."""
    file = getattr(data, "filename", None)
    return name if file is None or Path(file).name in name else f"{name} ({file})"
