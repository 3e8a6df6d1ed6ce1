"""Pooled problems: the mean of all agents' objectives, from one Gram matrix where the data allow it."""

import numpy as np
import pytest

from destiny.problems import OLSR, PCA, SDL, pooled
from destiny.problems.pooling import Mean
from destiny.problems.quadratic import Grams
from destiny.problems.sums import HostedTotal

N, P = 9, 3


def silos(sizes, columns=N, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((m, columns)) for m in sizes]


def same_as_the_mean(problem):
    """Compare with the agents one by one; the pooled objective."""
    X = np.random.default_rng(7).standard_normal((1, N, P))
    whole, parts = pooled(problem).host([0]), [problem.host([i]) for i in range(problem.agents)]
    np.testing.assert_allclose(whole.value(X), np.mean([f.value(X) for f in parts], axis=0), rtol=1e-12)
    expected = np.mean([f.gradient(X) for f in parts], axis=0)
    np.testing.assert_allclose(whole.gradient(X), expected, rtol=1e-12, atol=1e-12)
    return whole


@pytest.mark.parametrize("sizes", [(20, 11, 9), (4, 4, 4), (20, 2, 0), (5, 3, 2)])
@pytest.mark.parametrize("kind", ["pca", "olsr"])
def test_enough_samples_become_one_gram_matrix(kind, sizes):
    data = silos(sizes)
    problem = PCA(data, P, scale=0.5) if kind == "pca" else OLSR(data, silos(sizes, P, seed=1), scale=0.5)
    whole = same_as_the_mean(problem)
    assert isinstance(whole, Mean)
    assert isinstance(whole.hosted, Grams)
    assert whole.hosted.gram.shape == (1, N, N)


@pytest.mark.parametrize(
    "problem", [PCA(silos((3, 2, 3)), P), SDL(silos((20, 11, 9)), P)], ids=["pca", "sdl"]
)
def test_fewer_samples_than_features_and_other_objectives_stay_as_they_are(problem):
    whole = same_as_the_mean(problem)
    assert isinstance(whole, Mean)
    assert whole.count == 3


def test_a_sum_is_pooled_part_by_part():
    a, b = PCA(silos((20, 11)), P), SDL(silos((6, 7), seed=2), P)
    whole = same_as_the_mean(a + 0.1 * b)
    assert isinstance(whole, HostedTotal)
    assert [part.count for part in whole.parts] == [1, 2]
