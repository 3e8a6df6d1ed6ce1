"""`partial_fit`: agents that get rows now and then have the answer of all rows, without keeping them."""

import copy
import re

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.decomposition import PCA

from destiny.estimators import DecentralizedPCA
from destiny.estimators.samples import Moments
from destiny.problems.data.rows import Rows

RNG = np.random.default_rng(0)
MIX = RNG.standard_normal((6, 6)) @ np.diag([5, 4, 3, 2, 1, 0.5])
ARRIVALS = [(20, 30, 5), (40, 0, 3), (0, 0, 200), (10, 10, 10)]  # rows of three agents, batch by batch
BATCHES = [[RNG.standard_normal((m, 6)) @ MIX + [1000, 5, 0, 0, -3, 1] for m in sizes] for sizes in ARRIVALS]
ATTRIBUTES = ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_")


def pca(p=2, **options):
    return DecentralizedPCA(p, random_state=0, **options)


def assert_is_pca_of(found, rows, atol=1e-8):
    expected = PCA(found.n_components, svd_solver="full").fit(rows)
    for name in (*ATTRIBUTES, "noise_variance_", "n_samples_", "n_features_in_"):
        theirs = np.asarray(getattr(expected, name))
        scale = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(getattr(found, name), theirs, rtol=0, atol=atol * scale, err_msg=name)


@pytest.mark.parametrize("p", [2, None])
def test_the_answer_of_all_rows_so_far(p):
    estimator, so_far = pca(p), []
    for batch in BATCHES:
        estimator.partial_fit(batch)
        so_far += batch
        assert_is_pca_of(estimator, np.concatenate(so_far))
        assert estimator.converged_
        assert estimator.network_.agents == 3


def test_one_table_weights_and_sparse_rows():
    rows = np.concatenate(BATCHES[0])
    weights = RNG.integers(0, 3, len(rows))
    estimator = pca(n_agents=4).partial_fit(rows[:20], sample_weight=weights[:20])
    estimator.partial_fit(sparse.csr_array(rows[20:]), sample_weight=weights[20:])
    repeated = np.repeat(rows, weights, axis=0)
    assert_is_pca_of(estimator, repeated)
    estimator.partial_fit(rows)  # each once
    assert_is_pca_of(estimator, np.concatenate([repeated, rows]))


def test_a_second_batch_that_outweighs_the_first():
    """Its direction is orthogonal to the components so far: they are a stationary point, but no maximum."""
    first, second = np.zeros((20, 4)), np.zeros((20, 4))
    first[:, 0], second[:, 1] = RNG.standard_normal(20), 9 * RNG.standard_normal(20)
    estimator = pca(1, n_agents=4).partial_fit(first).partial_fit(second)
    assert_is_pca_of(estimator, np.concatenate([first, second]))


def size_of(value):
    """Bytes of all arrays in an object, however deep."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(map(size_of, parts)) + (size_of(vars(value)) if hasattr(value, "__dict__") else 0)


def test_rows_are_not_kept():
    sizes = []
    for m in (100, 10_000):
        estimator = pca(None, n_agents=2).partial_fit(RNG.standard_normal((m, 6)))
        sizes.append(size_of(vars(estimator)))
    assert abs(sizes[0] - sizes[1]) < 1000  # one row more in 10,000 would be 480,000 bytes
    assert copy.deepcopy(estimator).partial_fit(RNG.standard_normal((5, 6))).n_samples_ == 10_005


def test_types_of_numbers_and_new_beginnings():
    single = [table.astype(np.float32) for table in BATCHES[0]]
    estimator = pca().partial_fit(single)
    assert estimator.components_.dtype == np.float32
    assert estimator.partial_fit(BATCHES[1]).components_.dtype == np.float64
    assert estimator.partial_fit(single).components_.dtype == np.float64
    assert clone(estimator).partial_fit(BATCHES[0]).n_samples_ == 55
    assert estimator.fit(BATCHES[0]).n_samples_ == 55  # begins anew
    with pytest.warns(UserWarning, match="begins anew, as fit keeps none of its rows") as caught:
        assert estimator.partial_fit(BATCHES[1]).n_samples_ == 43
    assert caught[0].filename == __file__


def test_rows_of_a_call_that_fails_are_not_added():
    estimator = pca(3).partial_fit(BATCHES[0])
    with pytest.raises(destiny.SettingsError):
        estimator.set_params(n_components=9).partial_fit(BATCHES[1])
    estimator.set_params(n_components=2).partial_fit(BATCHES[1])
    assert_is_pca_of(estimator, np.concatenate(BATCHES[0] + BATCHES[1]))


REFUSED = {
    "each of the 3 agents of the first call; found 2": lambda: (
        pca().partial_fit(BATCHES[0]).partial_fit(BATCHES[1][:2])
    ),
    "silo 1: X has 5 features, but": lambda: (
        pca().partial_fit(BATCHES[0]).partial_fit([BATCHES[0][0], BATCHES[1][1][:, 1:], BATCHES[0][2]])
    ),
    "X has 5 features, but": lambda: pca().partial_fit(BATCHES[0][0]).partial_fit(BATCHES[0][1][:, 1:]),
    "at least 2 rows; found 1": lambda: pca().partial_fit([BATCHES[0][0][:1], BATCHES[0][0][:0]]),
    "sum to more than 1": lambda: pca().partial_fit(BATCHES[0][0][:1], sample_weight=[0.5]),
    "found a generator: give list(X)": lambda: pca().partial_fit(table for table in BATCHES[0]),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused_in_one_sentence(sentence):
    with pytest.raises(destiny.ProblemError, match=re.escape(sentence)):
        REFUSED[sentence]()


def test_moments_add_up():
    rows, weights = RNG.standard_normal((50, 3)) + 1e6, RNG.random(50)
    parts = [Moments.of(Rows(rows[s], weights=weights[s])) for s in (slice(0, 7), slice(7, 7), slice(7, 50))]
    total = parts[0] + parts[1] + parts[2]
    assert total.count == 50
    np.testing.assert_allclose(total.mean, np.average(rows, axis=0, weights=weights), rtol=1e-14)
    expected = np.cov(rows.T, aweights=weights, ddof=0) * weights.sum()
    np.testing.assert_allclose(total.scatter, expected, atol=1e-8)
    about = total.about(np.full(3, 1e6)).squared_norm()
    np.testing.assert_allclose(about, Rows(rows, np.full(3, 1e6), weights=weights).squared_norm(), rtol=1e-9)
    empty = Moments.of(Rows(rows[:0])) + Moments.of(Rows(rows[:0]))
    assert (empty.count, empty.weight) == (0, 0)
