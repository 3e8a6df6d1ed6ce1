"""Weights of rows: the same as repeated rows, for every estimator."""

import re

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny

pytest.importorskip("sklearn")

from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from destiny.estimators import DecentralizedOLSRClassifier, DecentralizedPCA, DecentralizedSparseDictionary
from destiny.estimators.pca import complete

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 3
ROWS = RNG.standard_normal((60, 4)) * [4, 3, 2, 1] + [0, 9, 5, 1] + np.outer(LABELS, [0, 3, 0, 0])
WEIGHTS = RNG.integers(0, 4, 60)
REPEATED = np.repeat(ROWS, WEIGHTS, axis=0)
CUTS = [10, 25, 40]
SILOS, SILO_LABELS, SILO_WEIGHTS = (np.split(a, CUTS) for a in (ROWS, LABELS, WEIGHTS))
ATTRIBUTES = ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_")


def pca(p=2, **options):
    return DecentralizedPCA(p, random_state=0, **options)


def regression():
    return DecentralizedOLSRClassifier(random_state=0, tol=1e-8)


@pytest.mark.parametrize("p", [2, None])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_pca_of_weighted_rows_is_that_of_repeated_rows(p, kind):
    expected = PCA(p, svd_solver="full").fit(REPEATED)
    for found in (
        pca(p).fit(kind(ROWS), sample_weight=WEIGHTS),
        pca(p).fit([kind(s) for s in SILOS], sample_weight=SILO_WEIGHTS),
    ):
        for name in (*ATTRIBUTES, "noise_variance_", "n_samples_", "n_components_"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-8)
        assert isinstance(found.n_samples_, int)


def test_weights_that_are_not_whole_agree_with_the_covariance_of_numpy():
    weights = RNG.random(60) * 1.5
    found = pca(None).fit(ROWS, sample_weight=weights)
    mean = np.average(ROWS, axis=0, weights=weights)
    np.testing.assert_allclose(found.mean_, mean, atol=1e-12)
    total = np.cov(ROWS.T, aweights=weights, ddof=0) * weights.sum()
    np.testing.assert_allclose(found.get_covariance(), total / (weights.sum() - 1), atol=1e-8)
    assert found.n_samples_ == pytest.approx(weights.sum())
    small = pca().fit(ROWS, sample_weight=weights / 20)  # their sum is below the number of features
    np.testing.assert_allclose(small.components_, found.components_[:2], atol=1e-8)


def test_rows_of_weight_zero_are_left_out_to_the_bit():
    some = WEIGHTS > 0
    found = [
        pca().fit(ROWS, sample_weight=some),
        pca().fit(ROWS[some], sample_weight=np.ones(some.sum())),
    ]
    np.testing.assert_array_equal(*(estimator.components_ for estimator in found))
    np.testing.assert_allclose(found[0].components_, pca().fit(ROWS[some]).components_, atol=1e-8)


def test_classes_of_weighted_rows():
    expected = regression().fit(REPEATED, np.repeat(LABELS, WEIGHTS))
    for found in (
        regression().fit(ROWS, LABELS, WEIGHTS),
        regression().fit(SILOS, SILO_LABELS, SILO_WEIGHTS),
        regression().fit(ROWS, LABELS, WEIGHTS / WEIGHTS.sum()),  # the scale does not matter
        regression().fit([sparse.csr_array(s) for s in SILOS], SILO_LABELS, SILO_WEIGHTS),
    ):
        for name in ("coef_", "intercept_", "priors_", "means_", "mean_"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-5)
    without = regression().fit(ROWS, LABELS, LABELS != 1)
    assert without.classes_.tolist() == [0, 2]


def test_dictionaries_of_weighted_rows():
    options = {"n_components": 2, "random_state": 0, "tol": 1e-9}
    expected = DecentralizedSparseDictionary(**options).fit(REPEATED)
    found = DecentralizedSparseDictionary(**options).fit(SILOS, sample_weight=SILO_WEIGHTS)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-6)
    np.testing.assert_allclose(found.fourth_moments_, expected.fourth_moments_, rtol=1e-6)
    assert found.n_samples_ == expected.n_samples_ == WEIGHTS.sum()


def test_weights_in_a_pipeline_and_for_one_agent_alone():
    pipe = make_pipeline(pca(), regression())
    weights = {f"{name}__sample_weight": SILO_WEIGHTS for name, _ in pipe.steps}
    predicted = pipe.fit(SILOS, SILO_LABELS, **weights).predict(SILOS)
    expected = make_pipeline(pca(), regression()).fit(REPEATED, np.repeat(LABELS, WEIGHTS)).predict(ROWS)
    assert np.mean(np.concatenate(predicted) == expected) > 0.95
    alone = pca().fit_local(ROWS, sample_weight=WEIGHTS)
    np.testing.assert_allclose(alone.explained_variance_, PCA(2).fit(REPEATED).explained_variance_, rtol=1e-8)


def test_directions_without_variance_depend_on_the_span_alone():
    axes = np.linalg.qr(RNG.standard_normal((7, 2)))[0]
    turned = axes @ np.linalg.qr(RNG.standard_normal((2, 2)))[0]
    found = complete(axes, 6)
    np.testing.assert_allclose(found.T @ found, np.eye(6), atol=1e-14)
    np.testing.assert_allclose(complete(turned, 6)[:, 2:], found[:, 2:], atol=1e-13)
    assert complete(axes, 2) is axes
    few = [pca(None, n_agents=k).fit(ROWS[:3]) for k in (2, 3)]  # rank 2, three components
    np.testing.assert_allclose(*(estimator.components_ for estimator in few), atol=1e-10)


REFUSED = {
    "numbers of at least 0; found -1 in row 1": lambda: pca().fit(
        ROWS, sample_weight=np.arange(60) % 8 * -1.0
    ),
    "numbers of at least 0; found nan in row 0": lambda: pca().fit(ROWS, sample_weight=WEIGHTS * np.nan),
    "numbers of at least 0; found inf in row 1": lambda: pca().fit(ROWS[:2], sample_weight=[1, np.inf]),
    "one number per row, 60; found 59": lambda: pca().fit(ROWS, sample_weight=WEIGHTS[1:]),
    "one number per row; found an array of shape (60, 2)": lambda: pca().fit(
        ROWS, sample_weight=np.ones((60, 2))
    ),
    "one number per row; found an array of shape ()": lambda: pca().fit(ROWS, sample_weight=3),
    "one number per row: could not convert": lambda: pca().fit(ROWS, sample_weight=["x"] * 60),
    "silo 1: sample_weight must have one number per row, 15; found 20": lambda: pca().fit(
        SILOS, sample_weight=SILO_WEIGHTS[:1] + SILO_WEIGHTS[:0:-1]
    ),
    "the weights of each of the 4 silos, in a list; found 60": lambda: pca().fit(
        SILOS, sample_weight=WEIGHTS
    ),
    "the 4 silos, in a list; found generator": lambda: pca().fit(
        SILOS, sample_weight=(w for w in SILO_WEIGHTS)
    ),
    "sum to more than 1, as they say how often a row counts; found 0.5": lambda: pca().fit(
        ROWS, sample_weight=np.full(60, 0.5 / 60)
    ),
    "sample_weight must not be zero in all rows": lambda: pca().fit(
        SILOS, sample_weight=[0 * w for w in SILO_WEIGHTS]
    ),
    "privacy needs rows that count once": lambda: pca(
        privacy=destiny.problems.Privacy(epsilon=1.0, delta=1e-6, bound=10.0)
    ).fit(ROWS, sample_weight=WEIGHTS),
    "at least 2 classes; found 1": lambda: regression().fit(ROWS, LABELS, LABELS == 2),
    "must not be zero in all rows": lambda: DecentralizedSparseDictionary(1).fit(
        ROWS, sample_weight=np.zeros(60)
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused_in_one_sentence(sentence):
    with pytest.raises((destiny.ProblemError, destiny.SettingsError), match=re.escape(sentence)) as raised:
        REFUSED[sentence]()
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 250
