"""Rounded normal numbers: their law against closed forms, also where first bits tie, and their key."""

import numpy as np
import pytest
import scipy.stats

from destiny.problems.rounded_normal import Uniforms, rounded_normal

LEVEL = 1e-4  # of tests that a right sampler fails by chance; the keys are fixed


def law(numbers: np.ndarray, bits: int) -> float:
    """The p-value of chi^2 for P(k) = Phi((k + 1) / 2^bits) - Phi(k / 2^bits), tails in one cell each."""
    edges = np.arange(-3 * 2**bits, 3 * 2**bits + 1)
    expected = np.diff(scipy.stats.norm.cdf([-np.inf, *(edges / 2**bits), np.inf])) * len(numbers)
    found = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(expected))
    return float(scipy.stats.chisquare(found, expected).pvalue)


@pytest.mark.parametrize(("bits", "word"), [(1, 64), (3, 64), (3, 4), (2, 2), (1, 1)])
def test_every_whole_number_has_its_probability(bits, word):
    """With words of few bits most comparisons tie, and the further bits must decide."""
    assert law(rounded_normal(b"law", 150_000, bits, word), bits) > LEVEL


def test_the_law_of_the_test_would_be_noticed_if_it_were_another():
    numbers = rounded_normal(b"law", 150_000, 3)
    rounded = np.rint(8 * np.random.default_rng(0).standard_normal(150_000)).astype(int)  # not rounded down
    assert law(rounded, 3) < LEVEL
    assert law(np.where(numbers == 0, 1, numbers), 3) < LEVEL


@pytest.mark.parametrize("bits", [18, 36, 54])
def test_large_numbers_are_normal_and_their_last_bits_uniform(bits):
    numbers = rounded_normal(b"large", 100_000, bits)
    assert scipy.stats.kstest((numbers + 0.5) / 2.0**bits, "norm").pvalue > LEVEL
    assert scipy.stats.chisquare(np.bincount(numbers & 63, minlength=64)).pvalue > LEVEL
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 4 / np.sqrt(len(numbers))


def test_tails():
    many = rounded_normal(b"tails", 400_000, 1)
    expected = 2 * scipy.stats.norm.sf(4) * len(many)
    assert abs(np.sum(np.abs(many + 0.5) > 8) - expected) < 5 * np.sqrt(expected)


def test_numbers_are_a_function_of_their_key():
    one, two = (rounded_normal(key, 50_000, 36) for key in (b"key", b"kez"))
    assert np.array_equal(one, rounded_normal(b"key", 50_000, 36))
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / np.sqrt(len(one))
    assert len(rounded_normal(b"key", 0, 36)) == 0


def test_comparisons_are_those_of_one_order():
    """However many bits they take, comparisons of the same numbers agree with each other."""
    uniforms = Uniforms(b"order", word=2)
    numbers = uniforms.draw(60)
    i, j = np.nonzero(~np.eye(60, dtype=bool))
    larger = np.bincount(i, uniforms.less(numbers[:, i], numbers[:, j])).astype(int)
    assert sorted(larger) == list(range(60))
    assert (np.diff(numbers[0, np.argsort(-larger)].astype(int)) >= 0).all()
