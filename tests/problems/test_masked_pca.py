"""PCA with gaps against EM (missing entries filled in again and again), and against PCA without gaps."""

import re

import numpy as np
import pytest

import destiny
from destiny import networks, problems

N, M, P = 8, 120, 2
SPREAD = np.array([5, 4, 1, 0.8, 0.6, 0.5, 0.4, 0.3])


def data(seed, missing):
    """Two strong directions, six weak ones, and the rows of which entries are missing at random."""
    rng = np.random.default_rng(seed)
    whole = (np.linalg.qr(rng.standard_normal((N, N)))[0] * SPREAD) @ rng.standard_normal((N, M))
    return whole, np.where(rng.random((N, M)) < missing, np.nan, whole)


def expectation_maximization(A, p, ridge):
    """Fill the gaps from the subspace, then take the subspace of the filled data, until nothing changes.

    Without gaps the best subspace is that of PCA for any ridge, so no step increases the objective.
    """
    gaps = np.isnan(A)
    filled = np.where(gaps, 0.0, A)
    X = np.linalg.svd(filled, full_matrices=False)[0][:, :p]
    while True:
        systems = np.einsum("kj,ka,kb->jab", ~gaps, X, X) + ridge * np.eye(p)
        codes = np.linalg.solve(systems, (np.where(gaps, 0.0, A).T @ X)[:, :, None])[:, :, 0]
        filled = np.where(gaps, X @ codes.T, A)
        new = np.linalg.svd(filled, full_matrices=False)[0][:, :p]
        change = np.linalg.norm(new - X @ (X.T @ new))
        X = new
        if change < 1e-10:
            return X


def distance(X, Y):
    """Sine of the largest angle between two subspaces."""
    return np.linalg.norm(Y - X @ (X.T @ Y), 2)


@pytest.mark.parametrize(("seed", "missing"), [(3, 0.1), (4, 0.3), (5, 0.5)])
def test_the_answer_is_that_of_em(seed, missing):
    whole, A = data(seed, missing)
    problem = problems.masked_pca.from_data(A.T, P, agents=[60, 0, 20, 40])
    result = destiny.solve(problem, networks.ring(4), tolerance=1e-9)
    assert result.converged
    assert distance(expectation_maximization(A, P, problem.ridge), result.X) < 1e-7
    assert distance(np.linalg.svd(whole)[0][:, :P], result.X) < 0.2  # and near what gaps hide


def test_without_gaps_it_is_pca_for_any_ridge(rng):
    A = data(0, 0.0)[0]
    X = destiny.stiefel.random_point(N, P, seed=1)[None]
    plain = problems.pca.from_data(A.T, P, agents=1).host([0])
    for ridge in (1e-3, 0.1, 10.0):
        masked = problems.masked_pca.from_data(A.T, P, agents=1, ridge=ridge).host([0])
        expected = np.sum(A**2) / 2 + plain.value(X) / (1 + ridge)
        np.testing.assert_allclose(masked.value(X), expected, rtol=1e-12)
        tangent = rng.standard_normal((N, P))
        tangent -= X[0] @ (X[0].T @ tangent)
        slopes = [np.sum(tangent * hosted.gradient(X)[0]) for hosted in (masked, plain)]
        assert np.isclose(slopes[0], slopes[1] / (1 + ridge))


def test_gradients_are_those_of_the_value():
    problem = problems.masked_pca.from_data(data(0, 0.4)[1].T, P, agents=2, scale=0.3)
    hosted = problem.host([1])

    class Objective:
        def value(self, X):
            return float(hosted.value(X[None])[0])

        def gradient(self, X):
            return hosted.gradient(X[None])[0]

    X = destiny.stiefel.random_point(N, P, seed=0)
    assert destiny.check_gradient(Objective(), X).ok
    assert destiny.check_gradient(Objective(), 1.3 * X).ok  # methods leave the manifold


def test_samples_that_say_nothing_change_nothing():
    A = data(0, 0.3)[1]
    X = destiny.stiefel.random_point(N, P, seed=0)[None]
    with_empty = np.concatenate([A, np.full((N, 5), np.nan)], axis=1)
    expected, found = (problems.MaskedPCA([B.T], P).host([0]) for B in (A, with_empty))
    assert np.isclose(found.value(X), expected.value(X))
    np.testing.assert_allclose(found.gradient(X), expected.gradient(X), atol=1e-12)
    nothing = problems.MaskedPCA([np.full((5, N), np.nan), np.empty((0, N))], P).host([0, 1])
    assert not nothing.value(np.concatenate([X, X])).any()


def test_blocks_of_samples_make_no_difference(monkeypatch):
    problem = problems.masked_pca.from_data(data(0, 0.3)[1].T, P, agents=1)
    X = destiny.stiefel.random_point(N, P, seed=0)[None]
    expected = problem.host([0]).gradient(X)
    monkeypatch.setattr(problems.masked_pca, "BLOCK", 7 * P * P)
    np.testing.assert_allclose(problem.host([0]).gradient(X), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda A: problems.MaskedPCA([A.T], P, ridge=0), "ridge must be a positive number; found 0"),
        (
            lambda A: problems.MaskedPCA([np.where(A > 3, np.inf, A).T], P),
            "must be finite; found inf at sample",
        ),
        (lambda A: problems.MaskedPCA([A.T], 9), "p must lie between 1 and"),
        (lambda A: problems.PCA([A.T], P), "must be finite; found nan at sample"),
        (
            lambda A: problems.centered(problems.MaskedPCA([A.T], P)),  # type: ignore[arg-type]
            "only PCA and OLSR can be centered",
        ),
    ],
)
def test_refused_in_one_sentence(make, sentence):
    with pytest.raises(destiny.ProblemError, match=re.escape(sentence)):
        make(data(0, 0.3)[1])


def test_it_says_what_it_is():
    text = problems.MaskedPCA([data(0, 0.3)[1].T], P).describe()
    assert text == "PCA with 2 components of data with gaps: 1 agents hold 120 samples of 8 features."
