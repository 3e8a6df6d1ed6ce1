"""Problems of your own: from functions and data, with automatic differentiation, sums and mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from destiny.errors import ProblemError
from destiny.problems.autodiff import jax, torch
from destiny.problems.batches import Draws, Reduction
from destiny.problems.functions import Data, Functions
from destiny.problems.gradient_check import GradientCheck, check_gradient
from destiny.problems.objective_data import Pair
from destiny.problems.separable import Separable
from destiny.problems.sums import Total, total
from destiny.validation import check_seed

__all__ = [
    "Functions",
    "GradientCheck",
    "Separable",
    "Total",
    "check_gradient",
    "problem",
    "total",
]

Function: TypeAlias = Callable[..., Any]


def problem(
    value: Function | Sequence[Any],
    gradient: Function | Sequence[Function] | None = None,
    *,
    shape: tuple[int, int],
    data: Data | None = None,
    agents: int | None = None,
    autodiff: Literal["jax", "torch"] | None = None,
    batch: int | None = None,
    reduction: Reduction = None,
    seed: int = 0,
) -> Functions | Separable:
    """A problem from functions of your own.

    Parameters
    ----------
    value : callable, or a list of d
        ``value(X, *data_i) -> one number`` for X ``(n, p)``. A list holds one function per agent, or one
        object per agent with ``value`` and ``gradient`` methods.
    gradient : callable, or a list of d, optional
        ``gradient(X, *data_i) -> (n, p)``, the Euclidean gradient. Or leave it out and name an autodiff.
    shape : (n, p)
    data : list of d, or a callable ``agent -> data_i``, optional
        The data of each agent: a tuple becomes the arguments after X, a dict becomes keyword arguments, and
        anything else is one argument. A callable is called when an agent is hosted, so that each process
        loads the data of its own agents only; it needs ``agents``.
    agents : int, optional
        d; needed only if neither functions nor data are a list.
    autodiff : {"jax", "torch"}, optional
        Library that differentiates ``value``. X and all floating point data are passed in float64.
    batch : int, optional
        Samples in a mini-batch, for methods that take them; samples are the rows (axis 0) of every array.
    reduction : {"sum", "mean"}, optional
        With ``batch``: whether every value is the sum over its samples, or their mean. Terms without samples
        are a problem of their own (``a + b``).
    seed : int
        Seed of the mini-batches, together with the agent and the step.

    Examples
    --------
    >>> import numpy as np
    >>> silos = [np.ones((5, 3)), 2 * np.ones((4, 3))]
    >>> def value(X, A): return -0.5 * np.sum((A @ X) ** 2)
    >>> def gradient(X, A): return -A.T @ (A @ X)
    >>> ours = problem(value, gradient, data=silos, shape=(3, 1))
    >>> ours.host([0, 1]).value(np.ones((2, 3, 1)))
    array([-22.5, -72. ])
    """
    if autodiff is None and gradient is None and batch is None and data is None and _objects(value):
        return Separable(value, shape)  # type: ignore[arg-type]
    if autodiff not in (None, "jax", "torch"):
        raise ProblemError(f'autodiff must be "jax" or "torch"; found {autodiff!r}; or give a gradient')
    if (gradient is None) == (autodiff is None):
        found = "neither" if gradient is None else "both"
        raise ProblemError(
            f'a problem needs a gradient or an autodiff ("jax" or "torch"); found {found}; give one of them'
        )
    if batch is not None and data is None:
        raise ProblemError("mini-batches need data to draw from; found none; give data")
    if batch is None and reduction is not None:
        raise ProblemError("reduction is for mini-batches; found no batch: give it, or leave reduction out")
    check_seed(seed)
    draws = None if batch is None else Draws(batch, seed, reduction)
    return Functions(_pairs(value, gradient, autodiff), shape, data, agents, draws)


def _objects(value: Any) -> bool:
    """Whether ``value`` is a list of objects with a gradient."""
    return _is_list(value) and any(hasattr(objective, "gradient") for objective in value)


def _pairs(value: Any, gradient: Any, autodiff: str | None) -> Pair | list[Pair]:
    """Pairs of value and gradient, one for all agents or one each; each function is differentiated once."""
    for what, argument in (("value", value), ("gradient", gradient)):
        for agent, function in enumerate(argument if _is_list(argument) else []):
            if not callable(function):
                raise ProblemError(
                    f"agent {agent}'s {what} must be a function; found {type(function).__name__}; "
                    "give a callable"
                )
        if argument is not None and not _is_list(argument) and not callable(argument):
            raise ProblemError(
                f"{what} must be a function or a list of them; found {type(argument).__name__}; "
                "give a callable"
            )
    if not _is_list(value) and not _is_list(gradient):
        return _pair(value, gradient, autodiff)
    values = value if _is_list(value) else [value] * len(gradient)
    gradients = gradient if _is_list(gradient) else [gradient] * len(values)
    if len(values) != len(gradients):
        raise ProblemError(
            f"there must be as many gradients as values; found {len(gradients)} and {len(values)}; give one "
            "of each per agent, or one function for all"
        )
    pairs: dict[tuple[int, int], Pair] = {}
    for f, g in zip(values, gradients, strict=True):
        if (id(f), id(g)) not in pairs:
            pairs[id(f), id(g)] = _pair(f, g, autodiff)
    return [pairs[id(f), id(g)] for f, g in zip(values, gradients, strict=True)]


def _is_list(argument: Any) -> bool:
    return isinstance(argument, list | tuple)


def _pair(value: Function, gradient: Function | None, autodiff: str | None) -> Pair:
    if gradient is not None:
        return Pair(value, gradient)
    return jax.pair(value) if autodiff == "jax" else torch.pair(value)
