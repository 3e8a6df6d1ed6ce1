"""Arrays of numbers, and states made of them."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""float64; a *stack* has the hosted agents on axis 0, ``(agents, n, p)``."""

State = TypeVar("State")
"""A frozen dataclass of arrays with the agents on axis 0."""
