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
# The same for sums that travel as float64 numbers, with 1/2 added: noise of 44 bits stays below 2^51, too.
SHORT_LENGTH, SHORT_BITS, SHORT_LARGEST = 2**15, 44, 2**51
FINE = 20  # bits of the entries of the vectors that rows are projected on: far more than rows have


@dataclass(frozen=True)
class Grid:
    """Rows as whole numbers of units, and noise in the same units: a function of public settings alone.

    A row x, shortened to ``bound``, becomes a row z of whole numbers of units, of norm at most ``length``. An
    agent releases N + floor(G), where N is the sum over its rows of z, of the products z_i z_j, or of z w^T,
    and G has independent normal entries of standard deviation 2^bits.

    *Alone.* N consists of whole numbers, so N + floor(G) = floor(N + G): the Gaussian mechanism, rounded
    afterwards. What is computed from the output of a private mechanism is as private, so (epsilon, delta) and
    composition are exactly those of the Gaussian mechanism. The bits of a release depend on nothing else: z
    is a function of its row alone, sums of whole numbers have no rounding errors, and `rounded_normal
    <destiny.problems.rounded_normal.rounded_normal>` is exact.

    *Together.* d agents release the sum of N_i + floor(G_i), where every G_i has s = 2^bits. Take one entry.
    Let T = sum_i G_i, which is normal, and F_i = G_i - floor(G_i). Given T, the density of (F_1, ...,
    F_(d-1)) is 1, up to the sum of exp(-2 pi^2 m^T S m) over all vectors m != 0 of whole numbers (Poisson
    summation). Here S = s^2 (I - 1 1^T / d), of d - 1 rows, is the covariance of (G_1, ..., G_(d-1)) given T,
    whose eigenvalues are at least s^2 / d. `of` makes s >= 16 sqrt(d), so the sum is at most
    (1 + 3 exp(-5053))^d - 1. If it were 0, F_1, ..., F_(d-1) would be independent random numbers. F_d is the
    fraction of T - F_1 - ... - F_(d-1), so the release is floor(sum_i N_i + T - F_1 - ... - F_(d-1)): the
    Gaussian mechanism with noise of s sqrt(d), and a computation from its output. All probabilities are those
    of this mechanism up to a factor, for all entries of all releases together, that differs from 1 by less
    than 1e-2000. It is covered by `of`, whose noise is larger than need be by 2^-40. If c agents tell their
    noise, the same holds for the others, with d - c in place of d. Kairouz, Liu & Steinke (ICML 2021) prove
    the same kind of bound for discrete Gaussians.
    """

    bound: float
    length: int
    bits: int

    @classmethod
    def of(
        cls, bound: float, ratio: float, agents: int, power: int, factor: float = 1.0, *, short: bool = False
    ) -> Self:
        """The grid with noise of ``ratio`` times the sensitivity, which is ``factor`` times length^power.

        ``short`` is for sums that must be float64 numbers, exactly.
        """
        units, most = (SHORT_LENGTH, SHORT_BITS) if short else (LENGTH, BITS)
        least = math.ceil(math.log2(SMOOTH * math.sqrt(agents)))
        bits = max(least, math.ceil(math.log2(ratio * factor * units**power)))
        bits = min(bits, most)
        # Shorter by 2^-40, for the rounding errors of this line and of the ratio.
        length = int((2**bits / (ratio * factor)) ** (1 / power) * (1 - 2**-40))
        if length < LEAST:
            raise ProblemError(
                f"noise must be at most {2**most / (factor * LEAST**power):.0e} times what one row can "
                f"change, but epsilon and delta ask for {ratio:.0e} times: use a larger epsilon or delta"
            )
        return cls(bound, min(length, 2 * units), bits)

    @property
    def unit(self) -> float:
        """The distance between neighboring numbers of the grid, as a number of the data."""
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

    def squares(self, data: Rows) -> Whole:
        """The sum of ||z||^2 over the rounded samples, ``(1,)``."""
        self._require_room(data, self.length, SHORT_LARGEST)
        return sum(
            (_squared_norms(z).sum(keepdims=True) for z in self.rows(data)), np.zeros(1, dtype=np.int64)
        )

    def moments(self, data: Rows) -> Whole:
        """The sum of z z^T over the rounded samples, ``(n, n)``."""
        self._require_room(data, self.length, LARGEST)
        total = np.zeros((data.shape[1], data.shape[1]), dtype=np.int64)
        for z in self.rows(data):
            _add_products(total, z, z, self.length**2)
        return total

    def products(self, data: Rows, Q: Whole, most: int) -> Whole:
        """The sum of z w^T over the rounded samples, ``(n, k)``: w is Q^T z / 2^FINE, with ||w|| <= ``most``.

        Q ``(n, k)`` has columns of norm 2^FINE, about. w is made of Q^T z as z is of a sample (`round`): it
        depends on z alone, as sums of whole numbers below 2^53 are exact. One sample changes the result by z
        w^T, whose 2-norm is ||z|| ||w|| <= length * most, whatever Q is.
        """
        self._require_room(data, most, SHORT_LARGEST)
        longest = float(np.linalg.norm(Q, axis=0).max())  # no partial sum of Q^T z is above it times length
        if not 2 * self.length * longest < EXACT:
            raise ProblemError(f"vectors must have a norm of about 1; found {longest / 2**FINE:.3g}")
        projected, total = Grid(most * 2.0**FINE, most, self.bits), np.zeros(Q.shape, dtype=np.int64)
        for z in self.rows(data):
            w = projected.round(Q.T.astype(np.float64) @ z.astype(np.float64))
            _add_products(total, z, w, self.length * most)
        return total

    def _require_room(self, data: Rows, most: int, largest: int) -> None:
        """Refuse samples whose products may add up to more than ``largest``."""
        if data.count > (limit := largest // (self.length * most)):
            raise ProblemError(
                f"private PCA needs at most {limit} samples at one agent; found {data.count}: "
                "divide them over several agents"
            )


def _add_products(total: Whole, left: Whole, right: Whole, largest: int) -> None:
    """Add ``left right^T`` to a total, in place; no product of single entries is above ``largest``.

    Float64 products of matrices are exact, whatever the order of their additions, while all sums are whole
    numbers up to 2^53.
    """
    width = EXACT // largest
    for start in range(0, left.shape[1], width):
        some = slice(start, start + width)
        a, b = (side[:, some].astype(np.float64) for side in (left, right))
        total += (a @ b.T).astype(np.int64)


def _squared_norms(z: Whole) -> Whole:
    return np.asarray(np.square(z).sum(axis=0))
