"""Few rows with many columns: the agents find the space of all rows by averaging, and run nothing."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import PCA

from destiny import Destiny, networks
from destiny.estimators import DecentralizedPCA
from destiny.estimators.row_space import has_few_rows


def table(m=30, n=200, seed=0, decay=1.0):
    """Rows about a mean of their own, with standard deviations that fall to ``decay``."""
    rng = np.random.default_rng(seed)
    return 3 + rng.standard_normal((m, n)) @ np.diag(np.geomspace(1, decay, n))


def assert_same(found, expected, accuracy=1e-9):
    assert np.allclose(found.components_, expected.components_, atol=accuracy)
    for name in ("mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
        assert np.allclose(getattr(found, name), getattr(expected, name), rtol=1e-9), name
    assert found.noise_variance_ == pytest.approx(expected.noise_variance_, rel=1e-9)


@pytest.mark.parametrize("decay", [1.0, 1e-6])
def test_it_is_pca_of_all_rows_in_three_averages(decay):
    X = table(decay=decay, n=1100)  # from 1,000 on covariances are not averaged
    found = DecentralizedPCA(3, n_agents=5, network="ring", random_state=0).fit(X)
    assert_same(found, PCA(3, svd_solver="full").fit(X))
    assert found.converged_
    assert len(found.history_) == 0
    assert found.n_rounds_ == 3 * 2 * networks.ring(5).depth


def test_sparse_rows_are_the_same_rows():
    X = table() * (np.random.default_rng(1).random((30, 200)) < 0.2)
    found = DecentralizedPCA(2, n_agents=4, random_state=0).fit(csr_array(X))
    assert_same(found, PCA(2, svd_solver="full").fit(X))
    assert len(found.history_) == 0


def test_weights_are_repeated_rows():
    X, often = table(m=12), np.arange(12) % 3
    repeated = PCA(2, svd_solver="full").fit(np.repeat(X, often, axis=0))
    for rows in (X, csr_array(X)):
        found = DecentralizedPCA(2, n_agents=3, random_state=0).fit(rows, sample_weight=often)
        assert_same(found, repeated)
        assert len(found.history_) == 0


def test_rows_that_depend_on_each_other_and_agents_without_rows():
    X = np.repeat(table(m=4), 5, axis=0)
    silos = [X[:3], X[3:3], X[3:]]
    found = DecentralizedPCA(2, random_state=0).fit(silos)
    assert_same(found, PCA(2, svd_solver="full").fit(X))
    all_of_them = DecentralizedPCA(random_state=0).fit(silos)
    expected = PCA(svd_solver="full").fit(X)
    assert np.allclose(all_of_them.components_[:3], expected.components_[:3], atol=1e-9)
    assert np.allclose(all_of_them.components_ @ all_of_them.components_.T, np.eye(20), atol=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("method", [None, Destiny()])
def test_a_share_of_the_variance_of_more_columns_than_covariances_have(share, method):
    X = table(n=2100, decay=1e-3)
    found = DecentralizedPCA(share, method=method, random_state=0).fit(np.array_split(X, 3))
    expected = PCA(share, svd_solver="full").fit(X)
    assert 1 < found.n_components_ == expected.n_components_ < 29
    assert_same(found, expected)


def test_a_method_that_was_given_runs():
    given = DecentralizedPCA(2, n_agents=3, method=Destiny(), tol=1e-6, random_state=0)
    assert len(given.fit(table(decay=1e-3)).history_) > 0


@pytest.mark.parametrize(
    ("m", "shape", "agents", "few"),
    [
        (30, (40, 1), 3, True),
        (31, (40, 1), 3, False),  # a run sends less
        (40, (40, 2), 3, False),  # no fewer than the columns
        (1000, (100_000, 50), 8, False),  # too much for the memory of one process
    ],
)
def test_how_many_rows_are_few(m, shape, agents, few):
    assert has_few_rows(SimpleNamespace(agents=agents), m, shape) is few
