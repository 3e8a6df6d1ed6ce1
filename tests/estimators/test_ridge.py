"""DecentralizedRidge against scikit-learn's Ridge on pooled rows."""

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny
from destiny.errors import ProblemError, SettingsError

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

from sklearn.datasets import load_diabetes, load_linnerud
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from destiny.estimators import (
    DecentralizedImputer,
    DecentralizedPCA,
    DecentralizedRidge,
    DecentralizedScaler,
    SiloFolds,
)

DATA = load_diabetes(as_frame=True, scaled=False)
ROWS, TARGET = DATA.data.to_numpy(), DATA.target.to_numpy()
CUTS = [100, 230, 231]  # one party has one row
SILOS, TARGETS = np.split(ROWS, CUTS), np.split(TARGET, CUTS)


def agree(ours, theirs, rtol=1e-7):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=rtol, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("intercept", [True, False])
def test_it_is_the_ridge_of_pooled_rows(alpha, intercept):
    ours = DecentralizedRidge(alpha, fit_intercept=intercept, network="ring").fit(SILOS, TARGETS)
    theirs = Ridge(alpha, fit_intercept=intercept) if alpha else LinearRegression(fit_intercept=intercept)
    agree(ours, theirs.fit(ROWS, TARGET))
    assert ours.score(SILOS, TARGETS) == pytest.approx(theirs.score(ROWS, TARGET))
    assert ours.score(ROWS, TARGET) == pytest.approx(theirs.score(ROWS, TARGET))
    assert [len(part) for part in ours.predict(SILOS)] == [100, 130, 1, 211]
    assert ours.n_samples_ == 442


@pytest.mark.parametrize("messages", [None, "private"])
@pytest.mark.parametrize("unit", [1e-15, 1e-9, 1e6])
def test_a_column_in_other_units_hides_no_other_column(messages, unit):
    rows = ROWS * np.where(np.arange(10) == 3, unit, 1.0)
    ours = DecentralizedRidge(messages=messages, network="complete").fit(np.split(rows, CUTS), TARGETS)
    theirs = Ridge(solver="svd").fit(rows, TARGET)
    np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows), rtol=1e-7)  # theirs has 1e-9


def test_weights_sparse_rows_single_precision_and_several_targets():
    weights = [np.random.default_rng(k).integers(0, 4, len(silo)) for k, silo in enumerate(SILOS)]
    theirs = Ridge().fit(ROWS, TARGET, sample_weight=np.concatenate(weights))
    agree(DecentralizedRidge().fit(SILOS, TARGETS, sample_weight=weights), theirs)
    zeros = np.where(np.median(ROWS, axis=0) > ROWS, 0, ROWS)
    agree(DecentralizedRidge().fit(sparse.csr_array(zeros), TARGET), Ridge().fit(zeros, TARGET))
    single = DecentralizedRidge().fit(ROWS.astype(np.float32), TARGET)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.predict(ROWS), Ridge().fit(ROWS, TARGET).predict(ROWS), rtol=1e-3)
    X, Y = load_linnerud(return_X_y=True)
    agree(DecentralizedRidge(2.0, n_agents=4).fit(X, Y), Ridge(2.0).fit(X, Y))


@pytest.mark.parametrize("wide", [False, True])
def test_of_several_solutions_it_takes_that_of_linear_regression(wide):
    """Columns that depend on others, in other units, and a constant one; or fewer rows than columns."""
    more = np.column_stack([ROWS, 50 * ROWS[:, 0] - ROWS[:, 3], np.ones(442), ROWS[:, 2] / 70])
    rows = np.random.default_rng(0).standard_normal((8, 13)) * np.geomspace(1, 30, 13) if wide else more
    target = TARGET[: len(rows)]
    ours = DecentralizedRidge(0, n_agents=3).fit(rows, target)
    theirs = LinearRegression().fit(rows, target)
    agree(ours, theirs, rtol=1e-6)
    np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows), rtol=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DecentralizedRidge().fit(ROWS, TARGET[:, None]),
        lambda: DecentralizedRidge().fit(SILOS, [TARGETS[0][:, None], *TARGETS[1:]]),
    ],
)
def test_one_column_of_targets_is_the_same_as_a_flat_array(make):
    theirs = Ridge().fit(ROWS, TARGET)
    assert make().predict(ROWS).shape == theirs.predict(ROWS).shape == (442,)
    agree(make(), theirs)


def test_units_do_not_matter_to_private_totals():
    factors = np.logspace(-9, 9, 10)
    private = DecentralizedRidge(0, messages="private")
    private.fit([silo * factors for silo in SILOS], [part * 1e6 for part in TARGETS])
    theirs = LinearRegression().fit(ROWS, TARGET)
    np.testing.assert_allclose(private.coef_, theirs.coef_ * 1e6 / factors, rtol=1e-7)
    np.testing.assert_allclose(private.intercept_, theirs.intercept_ * 1e6, rtol=1e-7)


def test_pipelines_and_searches_over_silos_with_names_and_gaps():
    frames = {
        name: DATA.data.iloc[rows].copy()
        for name, rows in zip("abc", np.split(np.arange(442), [150, 300]), strict=True)
    }
    frames["b"].iloc[3, 2] = np.nan
    silos = destiny.Silos(frames)
    y = silos.per_row(np.split(TARGET, [150, 300]))
    pipe = make_pipeline(
        DecentralizedImputer(),
        DecentralizedScaler(),
        DecentralizedPCA(6, random_state=0),
        DecentralizedRidge(),
    )
    scores = cross_val_score(pipe, silos, y, cv=SiloFolds(3))
    assert scores.shape == (3,)
    assert scores.min() > 0.2
    search = GridSearchCV(pipe, {"decentralizedridge__alpha": [1e-3, 1e6]}, cv=SiloFolds(3)).fit(silos, y)
    assert search.best_params_["decentralizedridge__alpha"] == 1e-3
    scaled = make_pipeline(StandardScaler(), Ridge()).fit(ROWS, TARGET)
    ours = make_pipeline(DecentralizedScaler(), DecentralizedRidge()).fit(SILOS, TARGETS)
    agree(ours[-1], scaled[-1])


def test_refused_in_one_sentence():
    for settings, tables, targets, why in (
        ({"alpha": -1}, SILOS, TARGETS, "alpha must be a number of at least 0"),
        ({}, SILOS, TARGETS[:2], "y must have the targets of each of the 4 silos, in a list; found 2"),
        ({}, SILOS, TARGET, "y must have the targets of each of the 4 silos, in a list; found 442"),
        (
            {},
            destiny.Silos(SILOS),
            TARGET[:9],
            "4 silos, in a list, or of all 442 rows, in an array; found 9",
        ),
        ({}, SILOS, [*TARGETS[:3], ROWS[231:, :2]], "y must have the same columns at all agents"),
        ({}, [np.ones((3, 2001))], [np.ones(3)], "of at most 2000 features; found 2001"),
        ({}, destiny.Silos(SILOS), [*TARGETS[:3], TARGETS[0]], "silo 3: .*inconsistent numbers of samples"),
        ({}, SILOS, [list("ab" * 50), *TARGETS[1:]], "could not convert|must be numbers|text"),
    ):
        with pytest.raises((ProblemError, SettingsError), match=why):
            DecentralizedRidge(**settings).fit(tables, targets)
