"""Sparse PCA and dictionaries from several starts: the best objective is kept."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import destiny
from destiny.estimators import DecentralizedSparseDictionary, DecentralizedSparsePCA

ROWS = np.random.default_rng(1).standard_normal((40, 12))


def sparse_objective(model):
    """-1/2 tr(X^T S X) + alpha v sum |X_jk| with the covariance S of all rows and its mean variance v."""
    S, X = np.cov(ROWS.T), model.components_.T
    return np.abs(X).sum() * model.alpha * np.trace(S) / len(S) - np.trace(X.T @ S @ X) / 2


def fourth_powers(model):
    return np.sum((ROWS @ model.components_.T) ** 4) / len(ROWS)


KINDS = {
    "sparse PCA": (DecentralizedSparsePCA(2, alpha=0.3, tol=1e-6), sparse_objective, 1),
    "dictionary": (DecentralizedSparseDictionary(2, tol=1e-4), fourth_powers, -1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_of_several_starts_is_kept(kind):
    model, objective, sign = KINDS[kind]
    found = []
    for n_init in (1, 2, 5):
        fitted = model.set_params(n_init=n_init, n_agents=3, random_state=4).fit(ROWS)
        assert fitted.converged_
        assert fitted.objective_ == pytest.approx(objective(fitted), rel=1e-9)
        found.append((sign * fitted.objective_, fitted.n_rounds_))
    (one, rounds), (two, twice), (five, more) = found
    assert five <= two <= one
    assert five < one - 0.01 * abs(one)  # the first start ends in a poor stationary point
    assert rounds < twice < more


@pytest.mark.parametrize("n_init", [0, 1.5, "many"])
def test_starts_are_counted_in_whole_numbers(n_init):
    with pytest.raises(destiny.SettingsError, match="n_init must be a whole number of at least 1; found"):
        DecentralizedSparseDictionary(2, n_init=n_init).fit(ROWS)
