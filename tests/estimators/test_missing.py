"""`DecentralizedPCA(missing="ignore")`: gaps are left out, and filled from what was learned."""

import re

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

import pandas
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from destiny.estimators import DecentralizedPCA, DecentralizedScaler

RNG = np.random.default_rng(3)
MIX = RNG.standard_normal((6, 2)) * 3
ROWS = RNG.standard_normal((90, 2)) @ MIX.T + 0.1 * RNG.standard_normal((90, 6)) + [50, 0, 0, 5, 1, -3]
GAPS = np.where(RNG.random((90, 6)) < 0.25, np.nan, ROWS)
CUTS = [20, 25, 60]
SILOS = np.split(GAPS, CUTS)
ATTRIBUTES = ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_")


def pca(p=2, **options):
    return DecentralizedPCA(p, random_state=0, **{"missing": "ignore", "tol": 1e-9} | options)


@pytest.mark.parametrize("rows", [ROWS, ROWS[:5]], ids=["many rows", "fewer rows than features"])
@pytest.mark.parametrize("weights", [None, np.arange(90) % 3], ids=["once each", "weighted"])
def test_without_gaps_it_is_pca(rows, weights):
    weights = None if weights is None else weights[: len(rows)]
    found = pca().fit(rows, sample_weight=weights)
    expected = PCA(2, svd_solver="full").fit(rows if weights is None else np.repeat(rows, weights, axis=0))
    for name in (*ATTRIBUTES, "noise_variance_", "n_samples_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-7, err_msg=name)
    np.testing.assert_allclose(found.transform(rows), expected.transform(rows), atol=1e-6)
    if len(rows) > 6:
        np.testing.assert_allclose(found.score(rows), expected.score(rows), rtol=1e-6)


def test_gaps_are_filled_and_the_subspace_is_near_that_of_all_entries():
    found, whole = pca().fit(SILOS), PCA(2).fit(ROWS)
    assert found.converged_
    np.testing.assert_allclose(found.mean_, np.nanmean(GAPS, axis=0), atol=1e-12)
    cosines = np.linalg.svd(found.components_ @ whole.components_.T)[1]
    assert cosines.min() > 0.99
    filled = np.concatenate(found.inverse_transform(found.transform(SILOS)))
    gaps = np.isnan(GAPS)
    error = np.std((filled - ROWS)[gaps]) / np.std((ROWS - ROWS.mean(axis=0))[gaps])
    assert error < 0.25
    assert found.noise_variance_ < 0.3


def test_gaps_of_a_row_are_filled_with_their_conditional_expectation():
    """Of the normal distribution with covariance V^T diag(variance) V + noise I, by the textbook formula."""
    found = pca().fit(SILOS)
    gaps, V = np.isnan(GAPS[7]), found.components_
    covariance = (V.T * found.explained_variance_) @ V + found.noise_variance_ * np.eye(6)
    regression = np.linalg.solve(covariance[np.ix_(~gaps, ~gaps)], covariance[np.ix_(~gaps, gaps)])
    row = GAPS[7] - found.mean_
    # The components' part of the expectation is the expectation itself: noise of other entries says nothing.
    row[gaps] = row[~gaps] @ regression
    np.testing.assert_allclose(found.transform(GAPS[7:8])[0], row @ V.T, rtol=1e-9)
    np.testing.assert_allclose(found.transform(np.full((1, 6), np.nan)), [[0, 0]], atol=1e-12)


def test_weights_are_repeated_rows():
    weights = np.arange(90) % 3
    found = pca().fit(SILOS, sample_weight=np.split(weights, CUTS))
    expected = pca().fit(np.repeat(GAPS, weights, axis=0))
    for name in (*ATTRIBUTES, "noise_variance_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-6, err_msg=name)


def test_a_pipeline_with_the_scaler():
    pipe = make_pipeline(DecentralizedScaler(), pca()).fit(SILOS)
    assert [part.shape for part in pipe.transform(SILOS)] == [(20, 2), (5, 2), (35, 2), (30, 2)]
    assert np.isfinite(np.concatenate(pipe.transform(SILOS))).all()


def at(rows, row, column, value):
    changed = rows.copy()
    changed[row, column] = value
    return changed


def named(rows):
    return pandas.DataFrame(rows, columns=[f"x{k}" for k in range(rows.shape[1])])


REFUSED = {
    'missing must be "error" or "ignore"; found \'drop\'': lambda: pca(missing="drop").fit(ROWS),
    "Input X contains NaN": lambda: pca(missing="error").fit(GAPS),
    "needs dense rows; found sparse ones": lambda: pca().fit(sparse.csr_array(ROWS)),
    "needs n_components below n_features; found 6 of 6": lambda: pca(None).fit(GAPS),
    "found none in column 3: leave it out": lambda: pca().fit(np.where(np.arange(6) == 3, np.nan, ROWS)),
    "more than n_components = 3 entries; found none": lambda: pca(3).fit(
        np.where((np.arange(6) + np.arange(90)[:, None]) % 2, np.nan, ROWS)
    ),
    'partial_fit needs missing="error"': lambda: pca().partial_fit(GAPS),
    "a likelihood needs rows without gaps": lambda: pca().fit(GAPS).score(GAPS),
    "for dtype('float64') in row 2 of column 1": lambda: pca().fit(at(ROWS, 2, 1, np.inf)),
    "Input X contains NaN in row 2 of column 'x1': leave": lambda: pca(missing="error").fit(
        named(at(ROWS, 2, 1, np.nan)).astype("Float64")
    ),
    "found none in column 'x3': leave it out": lambda: pca().fit(
        named(np.where(np.arange(6) == 3, np.nan, ROWS))
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused_in_one_sentence(sentence):
    with pytest.raises((destiny.ProblemError, destiny.SettingsError), match=re.escape(sentence)):
        REFUSED[sentence]()
