"""Canonical correlations: the SVD of whitened cross-covariances, silos, weights, singular views."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.cross_decomposition import CCA
from sklearn.pipeline import make_pipeline

import destiny
from destiny.algorithms import CDADT
from destiny.estimators import DecentralizedCCA, DecentralizedScaler

RNG = np.random.default_rng(0)
COMMON = RNG.standard_normal((300, 3)) * [2.0, 1.0, 0.5]
X = COMMON @ RNG.standard_normal((3, 7)) + RNG.standard_normal((300, 7)) + 5
Y = COMMON @ RNG.standard_normal((3, 5)) + RNG.standard_normal((300, 5)) - 2
PARTS = np.split(np.arange(300), [10, 10, 90, 200])  # the second silo is empty


def reference(X, Y, p, share=0.0, weights=None):
    """Canonical directions with scores of variance 1, by the SVD of whitened cross-covariances."""
    w = np.ones(len(X)) if weights is None else weights
    X, Y = (Z - np.average(Z, axis=0, weights=w) for Z in (X, Y))
    S = [(Z * w[:, None]).T @ Z / w.sum() for Z in (X, Y)]
    roots = []
    for C in S:
        values, V = np.linalg.eigh((1 - share) * C + share * np.trace(C) / len(C) * np.eye(len(C)))
        roots.append(V / np.sqrt(values) @ V.T)
    U, _, Vt = np.linalg.svd(roots[0] @ ((X * w[:, None]).T @ Y / w.sum()) @ roots[1])
    axes = roots[0] @ U[:, :p], roots[1] @ Vt[:p].T
    return [A / np.sqrt(np.sum(A * (C @ A), axis=0)) for A, C in zip(axes, S, strict=True)]


def assert_same(model, axes):
    U, V = axes
    signs = np.sign(np.sum(U * model.x_rotations_, axis=0))
    np.testing.assert_allclose(model.x_rotations_, signs * U, atol=1e-6)
    np.testing.assert_allclose(model.y_rotations_, signs * V, atol=1e-6)


def silos(**options):
    model = DecentralizedCCA(random_state=0, **options)
    return model.fit([X[rows] for rows in PARTS], [Y[rows] for rows in PARTS])


@pytest.mark.parametrize("method", [None, CDADT()])  # averaged matrices, a run
@pytest.mark.parametrize(("p", "share"), [(1, None), (2, None), (5, None), (2, 0.3)])
def test_directions_are_those_of_the_whitened_svd(p, share, method):
    model = silos(n_components=p, shrinkage=share, method=method)
    assert model.converged_
    assert bool(model.history_.rows) == (method is not None)
    assert_same(model, reference(X, Y, p, share or 0.0))
    a, b = model.transform(X, Y)
    found = [np.corrcoef(a[:, k], b[:, k])[0, 1] for k in range(p)]
    np.testing.assert_allclose(model.correlations_, found, atol=1e-9)
    np.testing.assert_allclose(np.column_stack([a, b]).std(axis=0), 1.0, atol=1e-9)
    assert (np.diff(model.correlations_) <= 0).all()


def test_scores_correlate_as_those_of_scikit_learn():
    model = DecentralizedCCA(1, random_state=0).fit(X, Y)
    a, b = CCA(1, tol=1e-12, max_iter=5000).fit_transform(X, Y)
    assert abs(np.corrcoef(a[:, 0], model.transform(X)[:, 0])[0, 1]) == pytest.approx(1.0, abs=1e-9)
    assert model.correlations_[0] == pytest.approx(np.corrcoef(a[:, 0], b[:, 0])[0, 1], abs=1e-9)


def test_weights_are_repeated_rows():
    counts = np.arange(300) % 3
    weighted = DecentralizedCCA(2, random_state=0).fit(X, Y, counts)
    assert_same(weighted, reference(X, Y, 2, weights=counts))
    assert weighted.n_samples_ == counts.sum()


def test_silos_and_tables_transform_alike():
    model = silos(n_components=2)
    parts = model.transform([X[:4], X[4:9]], [Y[:4], Y[4:9]])
    whole = model.transform(X[:9], Y[:9])
    for some, all_ in zip(parts, whole, strict=True):
        np.testing.assert_allclose(np.concatenate(some), all_, atol=1e-12)
    np.testing.assert_array_equal(model.fit_transform(X, Y), model.transform(X))
    pipeline = make_pipeline(DecentralizedScaler(), DecentralizedCCA(2, random_state=0))
    np.testing.assert_allclose(np.abs(pipeline.fit_transform(X, Y)), np.abs(model.transform(X)), atol=1e-6)


def test_one_target_is_linear_regression():
    model = DecentralizedCCA(random_state=0).fit(X, Y[:, 0])
    fitted = np.linalg.lstsq(X - X.mean(axis=0), Y[:, 0] - Y[:, 0].mean())[0]
    cosine = model.x_rotations_[:, 0] @ fitted / np.linalg.norm(model.x_rotations_) / np.linalg.norm(fitted)
    assert abs(cosine) == pytest.approx(1.0, abs=1e-9)


def test_singular_views_are_shrunk_with_a_warning_or_refused():
    twice = np.column_stack([X, X[:, 0]])
    with pytest.warns(UserWarning, match=r"takes shrinkage = 0.1: the covariance matrix of X or that of y"):
        model = DecentralizedCCA(2, random_state=0).fit(twice, Y)
    assert_same(model, reference(twice, Y, 2, 0.1))
    with pytest.raises(destiny.ProblemError, match="depend on others"):
        DecentralizedCCA(2, shrinkage=0.0).fit(twice, Y)
    few = "covariance matrix of the 5 columns of y is singular with fewer than 6 rows, and there are 5: take"
    with pytest.raises(destiny.ProblemError, match=few):
        DecentralizedCCA(2, shrinkage=0.0).fit(X[:5, :3], Y[:5])
    with pytest.raises(destiny.ProblemError, match=r"do not vary in y .*\(1\)"):
        DecentralizedCCA(2, shrinkage=0.0).fit(X, np.column_stack([Y[:, 0], np.ones(300)]))


def test_views_that_do_not_fit_are_refused():
    with pytest.raises(destiny.ProblemError, match="the same columns at all agents, 5; found 4"):
        DecentralizedCCA().fit([X[:50], X[50:]], [Y[:50], Y[50:, :4]])
    with pytest.raises(destiny.ProblemError, match="silo 1"):
        DecentralizedCCA().fit([X[:50], X[50:]], [Y[:50], Y[60:]])
    with pytest.raises(destiny.SettingsError, match="from 1 to the smaller number of columns = 5"):
        DecentralizedCCA(6).fit(X, Y)
    with pytest.raises(destiny.ProblemError, match="y must have the 5 columns of fit; found 4"):
        DecentralizedCCA(1, random_state=0).fit(X, Y).transform(X, Y[:, :4])
    with pytest.raises(ValueError, match="y"):
        DecentralizedCCA().fit(X)
