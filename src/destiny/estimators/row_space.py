"""The span of few rows with many columns, which agents find by averaging, without a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from destiny.estimators.session import FitSession, Solution
from destiny.problems.data.rows import Rows
from destiny.protocols import Array

FEW = 30  # rows for each component up to which averaging once sends no more than a run of some 500 rounds
LARGEST = 2**24  # numbers that all agents of one process average at a time: 128 MB


def has_few_rows(session: FitSession, m: int, shape: tuple[int, int]) -> bool:
    """Return whether m rows of all agents together are few for messages ``(n, m)``."""
    n, p = shape
    return m < n and m <= FEW * p and session.agents * n * m <= LARGEST


def span_of_rows(session: FitSession, rows: Mapping[int, Rows], shape: tuple[int, int]) -> Solution:
    """Return an orthonormal basis of a space that contains the centered ``rows`` of all agents.

    Its ``shape`` is (n, m), m the number of all rows.
    The range of C = sum_i A_i^T A_i, which has at most m dimensions, is that of C times any m vectors in
    general position. Agents draw the same vectors, multiply them by their own A_i^T A_i, and average.
    """
    vectors = np.random.default_rng(session.seed).standard_normal(shape)

    images = session.average(lambda agent: rows[agent].gradient(vectors))
    bases: dict[int, Array] = {i: np.linalg.qr(image)[0] for i, image in images.by_agent.items()}
    return Solution(None, bases, bases[0] if 0 in bases else np.linalg.qr(images.common)[0])
