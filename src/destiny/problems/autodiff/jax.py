"""Gradients by JAX, in float64 whatever its global setting."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from destiny.errors import INSTALL, MissingExtraError
from destiny.problems.objective_data import Pair
from destiny.problems.separable import Unnamed, require_scalar
from destiny.protocols import Array


def pair(function: Callable[..., Any]) -> Pair:
    """A function of JAX arrays and its gradient, compiled once for each shape; raises `MissingExtraError`."""
    try:
        jax: Any = import_module("jax")
    except ImportError as error:
        raise MissingExtraError(f'autodiff="jax" needs JAX: {INSTALL.format(extra="jax")}') from error

    def checked(X: Any, *args: Any, **named: Any) -> Any:
        result = function(X, *args, **named)
        require_scalar(result)
        return result

    value, gradient = jax.jit(checked), jax.jit(jax.grad(checked))

    def evaluate(compiled: Callable[..., Any]) -> Callable[..., Array]:
        def call(X: Array, *args: Any, **named: Any) -> Array:
            with _float64(jax):
                return np.asarray(compiled(X, *args, **named))

        return call

    def convert(leaf: Any) -> Any:
        array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
        if array.dtype.kind not in "biufc":
            raise Unnamed(
                f'must be arrays, or tuples, lists and dicts of them, for autodiff="jax"; found '
                f"{type(leaf).__name__}; let the function refer to anything else"
            )
        with _float64(jax):
            return jax.numpy.asarray(array, dtype=np.float64 if array.dtype.kind == "f" else None)

    # NumPy sees the same memory on a CPU and cuts rows out twenty times faster than JAX outside of jit.
    return Pair(evaluate(value), evaluate(gradient), convert, lambda leaf, rows: np.asarray(leaf)[rows])


def _float64(jax: Any) -> Any:
    """A context in which JAX computes in float64 in this thread."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return import_module("jax.experimental").enable_x64(True)  # older versions
