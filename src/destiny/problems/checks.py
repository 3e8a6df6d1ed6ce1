"""Checks of arguments of problems; each raises `ProblemError` with the expected, the found and the remedy."""

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
# Of the largest entry, unless all are zero: below it the squares that methods compare become zero.
SMALLEST = 1e-40
LARGEST_SCALE = 1e10


def check_matrix(data: NDArray[Any], name: str) -> None:
    """Raise `ProblemError` unless ``data`` is a plain 2-D array of real numbers with at least one column."""
    if isinstance(data, np.ma.MaskedArray):
        raise ProblemError(
            f"{name} must be a plain array; found a masked one; fill its gaps or drop the samples"
        )
    name = _with_file(data, name)
    if data.dtype.kind not in "biuf":
        raise ProblemError(f"{name} must be real numbers; found dtype {data.dtype}; convert the array first")
    if data.ndim != 2:
        raise ProblemError(
            f"{name} must be 2-D, samples x features; found {data.ndim}-D of shape {data.shape}; "
            "reshape the array, and give one array per agent"
        )
    if data.shape[1] == 0:
        raise ProblemError(
            f"{name} must have at least one feature; found shape {data.shape}; check the array"
        )


def check_finite(data: NDArray[Any], name: str, gaps: bool = False) -> None:
    """Raise `ProblemError` for infinity, numbers out of range and, unless there may be ``gaps``, for NaN.

    The data are not copied.
    """
    if data.dtype.kind != "f" or data.size == 0:
        return
    # The extremes carry infinity through, and NaN unless it is allowed; a reduction allocates nothing.
    least, most = (np.fmin, np.fmax) if gaps else (np.minimum, np.maximum)
    extreme = max(abs(float(least.reduce(data, axis=None))), abs(float(most.reduce(data, axis=None))))
    require_size(extreme, _with_file(data, name))
    if extreme <= LARGEST or (gaps and np.isnan(extreme)):  # nothing but gaps
        return
    if np.isfinite(extreme):
        raise ProblemError(
            f"{_with_file(data, name)} must be below {LARGEST:.0e} in magnitude, or their powers overflow; "
            f"found {extreme:.1e}; use other units"
        )
    for row, values in enumerate(data):
        bad = np.flatnonzero(np.isinf(values) if gaps else ~np.isfinite(values))
        if bad.size:
            raise ProblemError(
                f"{_with_file(data, name)} must be finite; found {values[bad[0]]} at sample {row}, "
                f"feature {bad[0]}; remove the sample or fill the gap"
            )


def require_size(extreme: float, name: str) -> None:
    """Raise `ProblemError` if ``extreme``, the largest magnitude, is so small that its powers underflow."""
    if 0 < extreme < SMALLEST:
        raise ProblemError(
            f"{name} must reach {SMALLEST:.0e} in magnitude, or their powers underflow; found at most "
            f"{extreme:.1e}; use other units"
        )


def check_p(p: SupportsIndex, n: int) -> int:
    """``p`` as an int, 1 <= p <= n; otherwise raise `ProblemError`."""
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


def check_scale(scale: float) -> float:
    """``scale`` as a float; raise `ProblemError` for 0 and numbers out of range."""
    if not 0 < abs(scale) <= LARGEST_SCALE:
        raise ProblemError(
            f"scale must be a number of at most {LARGEST_SCALE:.0e} in magnitude and not 0; found {scale}; "
            "leave it out to keep the data as is"
        )
    return float(scale)


def check_ids(ids: Sequence[int], agents: int) -> list[int]:
    """``ids`` as a list of ints between 0 and d - 1; otherwise raise `ProblemError`."""
    numbers = [operator.index(i) for i in ids]
    for i in numbers:
        if not 0 <= i < agents:
            raise ProblemError(
                f"agents are numbered 0 to {agents - 1}; found {i}; host only agents that exist"
            )
    return numbers


def check_stack(X: Array, agents: int, shape: tuple[int, int]) -> Array:
    """X as a C-ordered array ``(agents, n, p)``; bits depend on the layout. Raises `ProblemError`."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    if X.shape != (agents, *shape):
        raise ProblemError(
            f"X must be a stack (agents, n, p) = {(agents, *shape)}; found {X.shape}; "
            "give one X for each hosted agent"
        )
    return X


def check_real(value: object, shape: tuple[int, ...], name: str) -> Array:
    """``value`` as a float64 array of the given shape, NaN and infinity allowed. Raises `ProblemError`."""
    result = np.asarray(value)
    if result.dtype.kind not in "biuf":
        raise ProblemError(f"{name} must be real numbers; found dtype {result.dtype}; return a float64 array")
    if result.shape != shape:
        expected = f"of shape {shape}" if shape else "one number"
        raise ProblemError(
            f"{name} must be {expected}; found shape {result.shape}; return the shape expected"
        )
    return result.astype(np.float64, copy=False)


def _with_file(data: NDArray[Any], name: str) -> str:
    """``name`` with the file of a memory-mapped array, unless it has that already."""
    file = data.filename if isinstance(data, np.memmap) else None
    return name if file is None or Path(file).name in name else f"{name} ({file})"
