"""Scatter matrices of the constraint X^T M X = I: shrinkage, and what is done about singular ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError, SettingsError
from destiny.estimators.session import FitSession
from destiny.geometry.generalized import SingularMatrixError
from destiny.protocols import Array
from destiny.protocols.link import INTERNET
from destiny.run.choice import MOST, NEWTON, momentum_cost
from destiny.validation import is_number

CONSTANT = 1e-10  # standard deviation over mean of a column up to which it is rounding
SHOWN = 5  # columns named in a message
REMEDY = 0.1  # shrinkage of a singular matrix: its condition is then at most ten times the number of columns
T = TypeVar("T")


def check_shrinkage(shrinkage: Any) -> float:
    """Return ``shrinkage`` as a number, None as 0; raise SettingsError unless it is in [0, 1]."""
    if shrinkage is None:
        return 0.0
    if not is_number(shrinkage) or not 0 <= shrinkage <= 1:
        raise SettingsError(
            f"shrinkage must be None or a number from 0 to 1; found {shrinkage!r}: try 0.01, 0.1 and 0.5 by "
            "cross-validation"
        )
    return float(shrinkage)


def with_shrinkage(shrinkage: Any, learn: Callable[[float], T], name: str, leader: bool) -> T:
    """Return ``learn(shrinkage)``; of None, ``learn(0)``, or with a warning ``learn(REMEDY)`` if singular.

    A singular matrix is a `ProblemError` where shrinkage is given as a number.
    """
    share = check_shrinkage(shrinkage)
    try:
        return learn(share)
    except SingularMatrixError as error:
        if shrinkage is not None:
            raise
        why = str(error)
    if leader:
        warnings.warn(
            f"{name} takes shrinkage = {REMEDY}: {why}; give shrinkage, to choose it yourself",
            stacklevel=6,  # the caller of fit
        )
    return learn(REMEDY)


def reason_to_average(session: FitSession, method: Any, shape: tuple[int, int]) -> str | None:
    """Return why agents should average their scatter matrices instead of iterating; None if they should not.

    A run with the constraint X^T M X = I takes at least the rounds that are predicted for X^T X = I.
    """
    network = session.network
    if method is not None or network.changes or shape[0] > MOST:
        return None
    if session.messages.few_bits:  # which only steps have
        return None
    matrices, run = NEWTON.cost(shape, network, session.messages), momentum_cost(shape, network)
    slower = matrices.time(INTERNET) > run.time(INTERNET)
    if session.messages.private and slower:
        return "the agents averaged their scatter matrices: the private sums of a run would tell more"
    if slower:
        return None
    return f"the agents averaged their scatter matrices: a run is predicted to take {run} or more"


def sum_of_matrices(session: FitSession, parts: Mapping[int, Array]) -> Array:
    """Return the sum over all agents of symmetric ``parts`` ``(n, n)``, the same bits in every process."""
    return session.agents * session.average(lambda i: parts[i], symmetric=True).common


def require_variance(variances: Array, sizes: Array, where: str, names: NDArray[Any] | None) -> None:
    """Raise SingularMatrixError if columns have no variance, relative to their ``sizes``.

    ProblemError if none has any, which no shrinkage mends.
    """
    flat = np.flatnonzero(np.sqrt(np.maximum(variances, 0.0)) <= CONSTANT * sizes)
    if not flat.size:
        return
    if flat.size == len(variances):
        raise ProblemError(f"columns must vary {where}; found none that does")
    shown = ", ".join(str(k if names is None else names[k]) for k in flat[:SHOWN])
    more = ", ..." if flat.size > SHOWN else ""
    raise SingularMatrixError(
        f"columns that do not vary {where} make its scatter matrix singular ({shown}{more}): leave them out"
    )


def singular(what: str) -> ProblemError:
    """The error to raise for a singular scatter matrix."""
    return SingularMatrixError(f"{what} is singular, as some columns depend on others: leave those out")
