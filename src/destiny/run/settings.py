"""The settings of an algorithm as a table."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from destiny.run.own_algorithm import WrappedAlgorithm


def settings_of(algorithm: Any) -> dict[str, Any]:
    """Kind and settings of an algorithm, ready for a JSON file."""
    if isinstance(algorithm, WrappedAlgorithm):
        algorithm = algorithm.inner
    table: dict[str, Any] = {"kind": getattr(algorithm, "kind", type(algorithm).__name__)}
    if dataclasses.is_dataclass(algorithm):
        for field in dataclasses.fields(algorithm):
            value = getattr(algorithm, field.name)
            if isinstance(value, np.generic):
                value = value.item()
            table[field.name] = settings_of(value) if dataclasses.is_dataclass(value) else value
    return table
