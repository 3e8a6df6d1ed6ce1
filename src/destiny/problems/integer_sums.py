"""Sums over rows of whole numbers: no rounding error depends on the other rows, and noise hides all bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.data.rows import Rows
from destiny.problems.rounded_normal import Whole
from destiny.protocols import Array

LENGTH = 2**18  # units in the longest row, about: rounding moves an entry by 2^-19 of the bound
LEAST = 2**12  # units in the longest row: noise so large that fewer are left hides everything
BITS = 54  # of the noise, at most: with seven more for its tails it is within 64 bits
SMOOTH = 16  # noise of one agent, at least, in units and over the square root of their number: see `Grid`
EXACT = 2**53  # whole numbers up to here are float64 numbers
LARGEST = 2**62  # of a sum of whole numbers, which leaves room for the noise


@dataclass(frozen=True)
class Grid:
    """Rows as whole numbers of units, and noise in the same units: a function of public settings alone.

    A row x, shortened to ``bound``, becomes a row z of whole numbers of units, of norm at most ``length``. An
    agent releases N + floor(G), where N is the sum over its rows of z, or of the products z_i z_j, and G has
    independent normal entries of standard deviation 2^bits.

    *Alone.* N consists of whole numbers, so N + floor(G) = floor(N + G): the Gaussian mechanism, rounded
    afterwards. What is computed from the output of a private mechanism is as private, so (epsilon, delta) and
    composition are exactly those of the Gaussian mechanism. The bits of a release depend on nothing else: z
    is a function of its row alone, sums of whole numbers have no rounding errors, and `rounded_normal
    <destiny.problems.rounded_normal.rounded_normal>` is exact.

    *Together.* d agents release the sum of N_i + floor(G_i), where every G_i has s = 2^bits. Let T = sum_i
    G_i, which is normal, and F_i = G_i - floor(G_i). Given T, the density of (F_1, ..., F_(d-1)) is 1, up to
    the sum of exp(-2 pi^2 m^T S m) over all vectors m != 0 of whole numbers (Poisson summation). Here S = s^2
    (I - 1 1^T / d), whose eigenvalues are at least s^2 / d. `of` makes s >= 16 sqrt(d), so the sum is at most
    (1 + 3 exp(-5053))^d - 1. If it were 0, the release sum_i N_i + T - sum_i F_i would follow from sum_i N_i
    + T and independent random numbers: the Gaussian mechanism, and a computation from its output. All
    probabilities are those of this mechanism up to a factor that differs from 1 by less than 1e-2000.
    Kairouz, Liu & Steinke (ICML 2021) prove the same kind of bound for discrete Gaussians.
    """

    bound: float
    length: int
    bits: int

    @classmethod
    def of(cls, bound: float, ratio: float, agents: int, power: int, factor: float = 1.0) -> Self:
        """The grid with noise of ``ratio`` times the sensitivity, which is ``factor`` times length^power."""
        least = math.ceil(math.log2(SMOOTH * math.sqrt(agents)))
        bits = max(least, math.ceil(math.log2(ratio * factor * LENGTH**power)))
        bits = min(bits, BITS)
        # Shorter by 2^-40, for the rounding errors of this line and of the ratio.
        length = int((2**bits / (ratio * factor)) ** (1 / power) * (1 - 2**-40))
        if length < LEAST:
            raise ProblemError(
                f"noise must be at most 1e+09 times what one row can change, but epsilon and delta ask for "
                f"{ratio:.0e} times: use a larger epsilon or delta"
            )
        return cls(bound, min(length, 2 * LENGTH), bits)

    @property
    def unit(self) -> float:
        """The distance between neighbouring numbers of the grid, as a number of the data."""
        return self.bound / self.length

    def rows(self, data: Rows) -> Iterator[Whole]:
        """Rows ``(m, n)`` as columns ``(n, m)`` of whole numbers of units, some at a time."""
        return (self.round(block.T) for _, block in data.dense_blocks())

    def round(self, block: Array) -> Whole:
        """Samples ``(n, m)``, shortened to the bound and rounded to whole numbers z with ||z|| <= length.

        The result for a sample does not depend on the other samples: all operations act on single entries,
        except for maxima and sums of whole numbers, which have no rounding errors. Rounding lengthens a
        sample by at most sqrt(n)/2 units, and its length is known to the same precision. So sqrt(n) + 1 units
        are kept free. A sample that is too long all the same is left out: privacy does not rest on this
        estimate.
        """
        spare = self.length - math.sqrt(len(block)) - 1
        largest = np.abs(block).max(axis=0)
        x = block * (self.length / np.maximum(largest, self.bound))
        x *= spare / np.maximum(np.sqrt(_squared_norms(self._whole(x))), spare)
        z = self._whole(x)
        z[:, _squared_norms(z) > self.length**2] = 0
        return z

    def _whole(self, x: Array) -> Whole:
        """The nearest whole numbers from -length to length; length for NaN."""
        return np.rint(np.fmax(np.fmin(x, self.length), -self.length)).astype(np.int64)

    def sums(self, data: Rows) -> Whole:
        """The sums of the rounded samples, ``(n,)``."""
        total = np.zeros(data.shape[1], dtype=np.int64)
        for z in self.rows(data):
            total += z.sum(axis=1)
        return total

    def moments(self, data: Rows) -> Whole:
        """The sum of z z^T over the rounded samples, ``(n, n)``.

        Float64 products of matrices are exact, whatever the order of their additions, while all sums are
        whole numbers up to 2^53.
        """
        m, n = data.shape
        if m > LARGEST // self.length**2:
            raise ProblemError(
                f"private PCA needs at most {LARGEST // self.length**2} samples at one agent; found {m}: "
                "divide them over several agents"
            )
        total = np.zeros((n, n), dtype=np.int64)
        width = EXACT // self.length**2
        for z in self.rows(data):
            for start in range(0, z.shape[1], width):
                part = z[:, start : start + width].astype(np.float64)
                total += (part @ part.T).astype(np.int64)
        return total


def _squared_norms(z: Whole) -> Whole:
    return np.asarray(np.square(z).sum(axis=0))
