"""Gradients by PyTorch, in float64 and on one thread, so that bits do not depend on the number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from destiny.errors import INSTALL, MissingExtraError
from destiny.problems.objective_data import Pair
from destiny.problems.separable import Unnamed, require_scalar
from destiny.protocols import Array


def pair(function: Callable[..., Any]) -> Pair:
    """A function of tensors and its gradient; raises `MissingExtraError` without PyTorch.

    Parameters of modules that the function uses get no gradients.
    """
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        raise MissingExtraError(f'autodiff="torch" needs PyTorch: {INSTALL.format(extra="torch")}') from error

    def evaluate(X: Array, *args: Any, **named: Any) -> tuple[Any, Any]:
        point = torch.tensor(X, dtype=torch.float64, requires_grad=True)
        result = function(point, *args, **named)
        for leaf in (*args, *named.values()):
            if isinstance(leaf, torch.Tensor) and leaf._version:  # how often it was written to
                raise Unnamed(
                    "must leave its data as they are; found a tensor changed in place; clone() it first"
                )
        require_scalar(result)
        return point, result

    def value(X: Array, *args: Any, **named: Any) -> float:
        with _one_thread(torch):
            return float(evaluate(X, *args, **named)[1].detach())

    def gradient(X: Array, *args: Any, **named: Any) -> Array:
        with _one_thread(torch):
            point, result = evaluate(X, *args, **named)
            # Not backward(): that would add to the parameters of a module that threads may share.
            slope = torch.autograd.grad(result, point, allow_unused=True)[0] if result.requires_grad else None
        if slope is None:
            raise Unnamed(
                "must be computed from X by PyTorch; found no way back to X; use operations on tensors "
                "without numpy(), item() or detach()"
            )
        return np.asarray(slope.numpy())

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray | np.generic):
            leaf = torch.as_tensor(
                np.array(leaf)
            )  # a copy: the user's array stays as it is, whatever happens
        elif isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().clone()
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return Pair(value, gradient, convert)


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Limit PyTorch to one core in this thread; threadpoolctl does so in the main thread only."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
