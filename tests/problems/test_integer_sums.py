"""Rows as whole numbers: their norms, independence of each other, exact sums, and noise in the same units."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from scipy.sparse import csr_array

import destiny
from destiny.problems import Privacy, integer_sums, pca
from destiny.problems.data.rows import Rows
from destiny.problems.gaussian_mechanism import noise_ratio
from destiny.problems.integer_sums import Grid

GRID = Grid.of(2.0, 4.0, 1, 2)


# Settings


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1, 30, 1e12])
@pytest.mark.parametrize("agents", [1, 7, 5000])
@pytest.mark.parametrize("noise", ["alone", "together"])
def test_noise_is_at_least_that_of_the_formula_and_hardly_more(epsilon, agents, noise):
    privacy = Privacy(epsilon, 1e-6, 3.0, noise)
    least = Fraction(noise_ratio(epsilon, 1e-6)) ** 2 / (agents if noise == "together" else 1)
    sums, weight = privacy.grid_of_sums(agents, 50)
    moments = privacy.grid_of_moments(True, agents)
    for grid, squared, share in (
        (sums, sums.length**2 + weight**2, Fraction(0.1)),
        (moments, moments.length**4, 1 - Fraction(0.1)),
    ):
        # Exact arithmetic: the variance over the squared sensitivity, which is a whole number.
        variance = Fraction(4) ** grid.bits
        assert variance * share >= least * squared
        assert 2**grid.bits >= 16 * math.sqrt(agents)  # what the proof for noise together needs
        assert 2**grid.bits <= 2**54
        if grid.length < 2**19:  # with next to no noise there is more of it than is needed
            assert variance * share <= least * squared * (1 + Fraction(1, 10_000))
            assert grid.length >= 2**17


def test_noise_that_leaves_nothing_is_refused():
    hidden = pca.private(pca.PCA([np.eye(3)], 1), Privacy(1e-15, 1e-15, 1.0))
    with pytest.raises(destiny.ProblemError, match=r"noise must be at most 1e\+09 times .* ask for .e\+14"):
        hidden.second_moments(0)


# Rows


def test_rows_are_shortened_and_rounded(rng):
    A = rng.standard_normal((5, 400)) * np.geomspace(1e-6, 1e6, 400)
    A[:, 0] = 0.0
    z, norms = GRID.round(A), np.linalg.norm(A, axis=0)
    assert (np.square(z).sum(axis=0) <= GRID.length**2).all()
    expected = A * np.minimum(1, 2.0 / np.maximum(norms, 2.0)) / GRID.unit
    assert np.abs(z - expected).max() < 5  # units, of 2^18 in a row
    short = norms < 1.9
    assert np.array_equal(z[:, short], np.rint(A[:, short] / GRID.unit))


@pytest.mark.parametrize("n", [1, 2, 30, 1000])
@pytest.mark.parametrize("size", [1.0, 1 + 1e-9, 1e3, 1e300])
def test_no_row_is_too_long(rng, n, size):
    """Privacy rests on this: lengths are compared as whole numbers of Python, at the bound and beyond."""
    A = rng.standard_normal((n, 50))
    A[:, :10] = 1.0  # all entries are rounded the same way
    A *= size * 2.0 / np.linalg.norm(A, axis=0)
    for grid in (GRID, Grid(2.0, 2**12, 4)):
        z = grid.round(A)
        lengths = [math.isqrt(sum(int(v) ** 2 for v in row)) for row in z.T]
        assert max(lengths) <= grid.length
        assert min(lengths) > grid.length - 3 * math.sqrt(n) - 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e308])
def test_rows_beyond_all_numbers_are_not_longer_either(value):
    with np.errstate(all="ignore"):
        z = GRID.round(np.array([[value], [1.0]]))
    assert np.square(z).sum() <= GRID.length**2


def test_a_row_is_rounded_the_same_whatever_is_beside_it(rng):
    """Alone, in another order, and in another layout of the memory."""
    A = np.asarray(rng.standard_normal((301, 200)) * 3)
    z = GRID.round(A)
    for i in range(0, 200, 7):
        assert np.array_equal(GRID.round(np.ascontiguousarray(A[:, i : i + 1]))[:, 0], z[:, i])
    assert np.array_equal(GRID.round(np.asfortranarray(A)), z)
    assert np.array_equal(GRID.round(A[:, ::-1]), z[:, ::-1])


# Sums


def python_moments(z: np.ndarray) -> np.ndarray:
    z = z.astype(object)
    return np.asarray(z @ z.T)


def test_sums_are_exact(rng):
    """Against whole numbers of Python."""
    A = rng.standard_normal((7, 1000)) * 2.0
    z = GRID.round(A)
    assert (GRID.moments(Rows(A.T)) == python_moments(z)).all()
    assert (GRID.sums(Rows(A.T)) == z.astype(object).sum(axis=1)).all()


def test_sums_beyond_the_whole_numbers_of_float64_are_exact(monkeypatch):
    """An odd number of odd squares, more than 2^53 in all: float64 has no odd numbers there."""
    odd = (GRID.length - 100) | 1
    A = np.full((1, 200_001), odd * GRID.unit)
    assert int(GRID.moments(Rows(A.T))[0, 0]) == 200_001 * odd**2 > 2**53
    monkeypatch.setattr(integer_sums, "EXACT", 2**90)  # all rows in one product: the test can fail
    assert int(GRID.moments(Rows(A.T))[0, 0]) % 2 == 0


def test_one_row_more_changes_sums_by_that_row_alone(rng):
    A = rng.standard_normal((6, 5000)) * 3
    z = GRID.round(A[:, 1234:1235])
    fewer = np.delete(A, 1234, axis=1)
    assert np.array_equal(GRID.moments(Rows(A.T)) - GRID.moments(Rows(fewer.T)), z @ z.T)
    assert np.array_equal(GRID.sums(Rows(A.T)) - GRID.sums(Rows(fewer.T)), z[:, 0])
    upper = np.triu_indices(6)
    assert np.square((z @ z.T)[upper].astype(object)).sum() <= GRID.length**4


def test_sparse_rows_are_the_same_rows(rng):
    A = rng.integers(0, 3, (6, 300)) * 0.7
    hidden = [
        pca.private(pca.PCA([data.T], 2, n=6), Privacy(1.0, 1e-3, 2.0, seed=0)) for data in (A, csr_array(A))
    ]
    assert np.array_equal(*(h.second_moments(0) for h in hidden))


def test_more_rows_than_64_bits_hold_are_refused(monkeypatch):
    monkeypatch.setattr(integer_sums, "LARGEST", 3 * GRID.length**2)
    GRID.moments(Rows(np.ones((3, 2))))
    with pytest.raises(destiny.ProblemError, match="at most 3 samples at one agent; found 4: divide them"):
        GRID.moments(Rows(np.ones((4, 2))))


# Noise together: the proof of `Grid`, in numbers


@pytest.mark.parametrize("s", [0.6, 0.8, 1.0])
def test_two_rounded_normal_numbers_add_up_to_a_function_of_their_sum(s):
    """floor(G1) + floor(G2) against floor(G1 + G2 - U): alike up to the factor that the proof gives.

    Given T = G1 + G2, the density of F1 = G1 - floor(G1) is 1 up to 2 exp(-pi^2 s^2) + ...; where it is 1, F1
    is an independent uniform number U, and floor(G1) + floor(G2) = floor(T - U).
    """
    k = np.arange(-40, 41)
    one = scipy.stats.norm.cdf((k + 1) / s) - scipy.stats.norm.cdf(k / s)
    both = np.convolve(one, one)  # of k from -80 to 80

    def model(k: int) -> float:
        T = scipy.stats.norm(0, s * math.sqrt(2))
        return scipy.integrate.quad(lambda u: T.cdf(k + 1 + u) - T.cdf(k + u), 0, 1, epsabs=1e-13)[0]

    factors = [both[k + 80] / model(k) - 1 for k in range(-4, 4)]
    bound = 2 * sum(math.exp(-(math.pi**2) * s**2 * m**2) for m in range(1, 5))
    assert max(map(abs, factors)) <= bound
    assert max(map(abs, factors)) > bound / 30  # it is this term, not a smaller one
