"""Sparse PCA: exact zeros, orthonormal components, as much variance as scikit-learn's at equal sparsity."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, SparsePCA

import destiny
from destiny.estimators import DecentralizedSparsePCA
from destiny.geometry.stiefel import subspace_distance

DIGITS = load_digits().data[:400, 8:40]
OPTIONS = {"n_agents": 5, "tol": 1e-6, "random_state": 0}


def explained(X, V):
    """Share of the variance in the span of the rows of V."""
    centered = X - X.mean(axis=0)
    return np.sum((centered @ np.linalg.qr(V.T)[0]) ** 2) / np.sum(centered**2)


@pytest.fixture(scope="module")
def model():
    return DecentralizedSparsePCA(4, alpha=0.2, **OPTIONS).fit(DIGITS)


def test_components_are_orthonormal_with_exact_zeros(model):
    V = model.components_
    assert model.converged_
    assert model.sparsity_ == np.mean(V == 0) > 0.2
    np.testing.assert_allclose(V @ V.T, np.eye(4), atol=1e-10)
    assert (np.abs(V).max(axis=1) == V.max(axis=1)).all()


def test_variances_are_those_along_the_components_and_add_up(model):
    codes = model.transform(DIGITS)
    np.testing.assert_allclose(model.explained_variance_, codes.var(axis=0, ddof=1), rtol=1e-9)
    assert (np.diff(model.explained_variance_) <= 0).all()
    ratio = model.explained_variance_ratio_.sum()
    assert ratio == pytest.approx(explained(DIGITS, model.components_), rel=1e-9)
    rest = DIGITS - model.inverse_transform(codes)
    assert 1 - ratio == pytest.approx(rest.var(axis=0).sum() / DIGITS.var(axis=0).sum(), rel=1e-9)


@pytest.mark.filterwarnings("ignore:Objective did not converge")  # scikit-learn 1.7, with a tolerance of 0
def test_it_explains_as_much_as_scikit_learn_at_equal_sparsity(model):
    low, high = 0.1, 100.0
    for _ in range(8):
        alpha = np.sqrt(low * high)
        pooled = SparsePCA(4, alpha=alpha, method="cd", max_iter=30, random_state=0).fit(DIGITS)
        zeros = np.mean(pooled.components_ == 0)
        low, high = (alpha, high) if zeros < model.sparsity_ else (low, alpha)
    assert abs(zeros - model.sparsity_) < 0.05
    ours, theirs = model.explained_variance_ratio_.sum(), explained(DIGITS, pooled.components_)
    assert ours > theirs - 0.02
    assert ours < explained(DIGITS, PCA(4).fit(DIGITS).components_)


def test_without_a_weight_it_spans_the_subspace_of_pca():
    found = DecentralizedSparsePCA(3, alpha=0, **OPTIONS).fit(DIGITS)
    assert subspace_distance(found.components_.T, PCA(3).fit(DIGITS).components_.T) < 1e-5


def test_units_silos_and_sparse_rows_change_nothing(model):
    for rows in (1e-3 * DIGITS, np.array_split(DIGITS, 5), csr_array(DIGITS)):
        options = {**OPTIONS, "n_agents": None} if isinstance(rows, list) else OPTIONS
        other = DecentralizedSparsePCA(4, alpha=0.2, **options).fit(rows)
        np.testing.assert_allclose(other.components_, model.components_, atol=1e-4)
        assert other.sparsity_ == pytest.approx(model.sparsity_, abs=0.02)


@pytest.mark.parametrize("alpha", [-1, "much", np.nan])
def test_a_weight_must_be_a_number(alpha):
    with pytest.raises(destiny.SettingsError, match="alpha must be a number >= 0; found"):
        DecentralizedSparsePCA(2, alpha=alpha).fit(DIGITS)


def test_a_method_without_a_prox_is_refused():
    with pytest.raises(destiny.MismatchError, match=r"smooth objective.*destiny-prox"):
        DecentralizedSparsePCA(2, method=destiny.Destiny()).fit(DIGITS)


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_are_repeated_rows(sparse):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((24, 5)) * [3, 2, 1, 0.5, 0.5]
    weights = rng.integers(0, 4, 24)
    rows = csr_array(X) if sparse else X
    weighted = DecentralizedSparsePCA(2, alpha=0.05, tol=1e-10, random_state=0).fit(
        rows, sample_weight=weights
    )
    repeated = DecentralizedSparsePCA(2, alpha=0.05, tol=1e-10, random_state=0).fit(
        np.repeat(X, weights, axis=0)
    )
    assert weighted.n_samples_ == weights.sum()
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-7)
    np.testing.assert_allclose(
        weighted.explained_variance_ratio_, repeated.explained_variance_ratio_, atol=1e-7
    )
