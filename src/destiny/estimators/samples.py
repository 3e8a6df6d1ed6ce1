"""What an agent contributes to PCA: its rows, or the moments of rows that it no longer has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from destiny.problems.data.rows import Rows
from destiny.problems.masked_pca import RIDGE, fits
from destiny.protocols import Array

LEAST = 1e-8  # ratio of variances that keeps the systems of rows with few entries regular


@dataclass(frozen=True)
class Moments:
    """Number, weight, mean ``(n,)`` and scatter matrix about the mean ``(n, n)`` of rows.

    It has the members of `Rows` that PCA needs, to the accuracy of double precision.
    """

    count: int
    weight: float
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Return the moments of some rows, possibly none."""
        mean = rows.weighted_sums() / (rows.weight or 1.0)
        return cls(rows.count, rows.weight, mean, rows.about(mean).gram())

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows (Chan, Golub and LeVeque, 1983)."""
        weight = self.weight + other.weight
        share = other.weight / (weight or 1.0)
        difference = other.mean - self.mean
        return Moments(
            self.count + other.count,
            weight,
            self.mean + share * difference,
            self.scatter + other.scatter + self.weight * share * np.outer(difference, difference),
        )

    def weighted_sums(self) -> Array:
        """Return the weighted sums of the columns."""
        return self.weight * self.mean

    def about(self, mean: Array) -> Rows:
        """Return a square A with A^T A = sum_k w_k (x_k - mean) (x_k - mean)^T."""
        shift = self.mean - mean
        values, vectors = np.linalg.eigh(self.scatter + self.weight * np.outer(shift, shift))
        return Rows(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def fit_rows_with_gaps(rows: Array, X: Array, weights: Array | None) -> tuple[Array, float, float]:
    """Return the codes of centered rows ``(m, n)`` in the span of X ``(n, p)``, by their entries.

    They are those of `MaskedPCA` times 1 + ridge: for a row without gaps its coordinates, X^T row. The second
    result is the sum of the squared residuals, the third the number of entries beyond p of each row, times
    the ``weights`` whose roots the rows have been multiplied by.
    """
    gaps, p = np.isnan(rows), X.shape[1]
    A, seen = np.where(gaps, 0.0, rows), (~gaps).astype(np.float64)
    codes, residual, start = [np.empty((0, p))], 0.0, 0
    for C, R in fits(X, A, seen, RIDGE):
        codes.append((1 + RIDGE) * C)
        some = slice(start, start := start + len(C))
        residual += float(np.sum(np.square((1 + RIDGE) * R - RIDGE * A[some])))
    beyond = np.maximum(seen.sum(axis=1) - p, 0.0)
    return np.concatenate(codes), residual, float(beyond.sum() if weights is None else beyond @ weights)


def codes_of_rows_with_gaps(rows: Array, components: Array, ratios: Array) -> Array:
    """Return the coordinates of centered rows whose gaps are filled with their expectation.

    It is that of probabilistic PCA given the other entries of the row, for the ``ratios`` ``(p,)`` of the
    noise variance to the variances of the components.
    """
    gaps = np.isnan(rows)
    known = np.where(gaps, 0.0, rows)
    codes = [C for C, _ in fits(components.T, known, (~gaps).astype(np.float64), np.maximum(ratios, LEAST))]
    expected = np.concatenate([np.empty((0, len(components))), *codes]) @ components
    return np.asarray(np.where(gaps, expected, known) @ components.T)
