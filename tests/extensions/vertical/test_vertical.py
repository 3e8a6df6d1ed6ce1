"""PCA and regression on columns split over parties, against scikit-learn on the joined columns."""

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny
from destiny.errors import ProblemError, SettingsError

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_linnerud, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, cross_val_score

from destiny.estimators import DecentralizedPCA
from destiny.extensions.vertical import VerticalPCA, VerticalRidge

WINE = load_wine(as_frame=True)
SCALED = (WINE.data - WINE.data.mean()) / WINE.data.std() + 2
ROWS, TARGET = SCALED.to_numpy(), WINE.target.to_numpy()
CUTS = [1, 6, 9]  # parties with 1, 5, 3 and 4 columns
PARTIES = np.split(ROWS, CUTS, axis=1)


@pytest.mark.parametrize("network", ["ring", "complete", "path"])
def test_pca_of_joined_columns(network):
    theirs = PCA(3).fit(ROWS)
    ours = VerticalPCA(3, network=network, random_state=0).fit(PARTIES)
    for name in (
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "mean_",
    ):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-8, err_msg=name)
    np.testing.assert_allclose(ours.scores_, theirs.transform(ROWS), atol=1e-7)
    np.testing.assert_allclose(
        ours.transform([part[:9] for part in PARTIES]), theirs.transform(ROWS[:9]), atol=1e-7
    )
    back = np.concatenate(list(ours.inverse_transform(ours.scores_)), axis=1)
    np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(ROWS)), atol=1e-7)
    np.testing.assert_array_equal(ours.of_party(1), ours.components_[:, 1:6])
    assert ours.converged_
    assert ours.n_features_in_ == 13
    assert ours.n_samples_ == 178


def test_more_columns_than_rows():
    rows = np.random.default_rng(0).standard_normal((12, 40)) * np.linspace(3, 1, 40)
    ours = VerticalPCA(2, random_state=0).fit(np.split(rows, [10, 25], axis=1))
    np.testing.assert_allclose(ours.components_, PCA(2).fit(rows).components_, atol=1e-7)
    with pytest.raises(SettingsError, match=r"from 1 to min\(n_samples - 1, n_features\) = 11; found 12"):
        VerticalPCA(12).fit(np.split(rows, [10, 25], axis=1))


def test_frames_files_and_names(tmp_path):
    frames = [SCALED.iloc[:, :4], SCALED.iloc[:, 4:]]
    silos = destiny.Silos({"clinic": frames[0], "laboratory": frames[1]}, split="columns")
    pca = VerticalPCA(2, random_state=0).fit(silos)
    assert pca.feature_names_in_.tolist() == list(SCALED.columns)
    assert pca.get_feature_names_out().tolist() == ["verticalpca0", "verticalpca1"]
    np.save(tmp_path / "0.npy", ROWS[:, :4])
    files = destiny.Silos([tmp_path / "0.npy", ROWS[:, 4:]], split="columns")
    np.testing.assert_array_equal(VerticalPCA(2, random_state=0).fit(files).components_, pca.components_)
    with pytest.raises(ProblemError, match=r"silo 1: rows must be the same, .* other row labels"):
        VerticalPCA(2).fit([frames[0], frames[1].iloc[::-1]])
    with pytest.raises(ProblemError, match="columns must be those of fit"):
        pca.transform(destiny.Silos([frames[0].iloc[:, ::-1], frames[1]], split="columns"))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_a_column_in_other_units_hides_no_other_column_of_its_party(alpha, unit):
    rows = ROWS * np.where(np.arange(13) == 3, unit, 1.0)
    parties = np.split(rows, CUTS, axis=1)
    found = VerticalRidge(alpha, random_state=0).fit(parties, TARGET).predict(parties)
    kept = ROWS if alpha == 0 else np.delete(ROWS, 3, axis=1)
    if (
        alpha and unit > 1
    ):  # the penalty does not reach the column: it explains what it can, the others the rest
        column = ROWS[:, [3]] - ROWS[:, 3].mean()
        free = np.hstack([column, np.ones_like(column)])
        others = kept - free @ np.linalg.lstsq(free, kept)[0]
        rest = TARGET - free @ np.linalg.lstsq(free, TARGET)[0]
        expected = TARGET - rest + Ridge(alpha).fit(others, rest).predict(others)
    else:
        model = Ridge(alpha) if alpha else LinearRegression()
        expected = model.fit(kept, TARGET).predict(kept)
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("alpha", [0, 1, 300])
@pytest.mark.parametrize("columns", ["scaled", "raw"])
def test_ridge_and_least_squares_of_joined_columns(alpha, columns):
    rows = ROWS if columns == "scaled" else WINE.data.to_numpy()  # standard deviations from 0.1 to 300
    theirs = (Ridge(alpha) if alpha else LinearRegression()).fit(rows, TARGET)
    parties = np.split(rows, CUTS, axis=1)
    ours = VerticalRidge(alpha, network="ring", random_state=0).fit(parties, TARGET)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8)
    np.testing.assert_allclose(ours.predict(parties), theirs.predict(rows), atol=1e-8)
    assert ours.score(parties, TARGET) == pytest.approx(theirs.score(rows, TARGET))
    assert ours.converged_
    assert ours.n_iter_ <= 14


def test_several_targets_and_dependent_columns():
    rows, targets = load_linnerud(return_X_y=True)
    theirs = Ridge(2.0).fit(rows, targets)
    ours = VerticalRidge(2.0, random_state=0).fit(np.split(rows, [1, 2], axis=1), targets)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(ours.predict(np.split(rows, [1, 2], axis=1)), theirs.predict(rows), rtol=1e-8)
    column, flat = (VerticalRidge(random_state=0).fit(PARTIES, y) for y in (TARGET[:, None], TARGET))
    np.testing.assert_array_equal(column.coef_, flat.coef_)
    assert column.predict(PARTIES).shape == (178,)
    twice = [ROWS[:, :5], ROWS[:, 3:], np.ones((178, 1))]  # two columns at both parties, and a constant
    found = VerticalRidge(0, random_state=0).fit(twice, TARGET)
    np.testing.assert_allclose(
        found.predict(twice), LinearRegression().fit(ROWS, TARGET).predict(ROWS), atol=1e-8
    )
    np.testing.assert_allclose(
        VerticalRidge(3.0, random_state=0).fit(twice, TARGET).coef_,
        Ridge(3.0).fit(np.concatenate(twice, axis=1), TARGET).coef_,
        atol=1e-8,
    )
    flat = VerticalRidge(random_state=0).fit(PARTIES, np.full(178, 7.0))
    assert flat.n_iter_ == 0
    np.testing.assert_array_equal(flat.predict(PARTIES), 7.0)


def test_other_data_than_those_used_while_writing():
    data = load_breast_cancer()
    rows = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    parties = np.split(rows, [8, 20], axis=1)
    ours, theirs = VerticalPCA(2, random_state=1).fit(parties), PCA(2).fit(rows)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-7)
    model, same = (
        VerticalRidge(5.0, random_state=1).fit(parties, data.target),
        Ridge(5.0).fit(rows, data.target),
    )
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-9)


def test_what_a_first_message_tells():
    """docs/privacy.md: one column, up to sign and scale; the fit of the target by a party's own columns."""
    column = ROWS[:, :1] - ROWS[:, :1].mean()
    X = np.linalg.qr(np.random.default_rng(0).standard_normal((178, 2)))[0]
    message = destiny.problems.PCA([column.T], 2).host([0]).gradient(X[None])[0][:, 0]
    assert abs(np.corrcoef(message, column[:, 0])[0, 1]) > 1 - 1e-12
    alone = VerticalRidge(0, max_iter=1, random_state=0).fit(PARTIES[1:2], TARGET)
    np.testing.assert_allclose(
        alone.predict(PARTIES[1:2]), LinearRegression().fit(PARTIES[1], TARGET).predict(PARTIES[1]), atol=1e-9
    )


def test_cross_validation_takes_the_same_rows_of_all_parties():
    silos = destiny.Silos(PARTIES, split="columns")
    folds = KFold(3, shuffle=True, random_state=0)
    ours = cross_val_score(VerticalRidge(2.0, random_state=0), silos, TARGET, cv=folds)
    np.testing.assert_allclose(ours, cross_val_score(Ridge(2.0), ROWS, TARGET, cv=folds))


def test_refusals():
    with pytest.raises(ProblemError, match="in a list; found ndarray"):
        VerticalPCA(2).fit(ROWS)
    with pytest.raises(
        ProblemError, match="the same rows, in the same order; found 9 rows and 178 at silo 0"
    ):
        VerticalPCA(2).fit([ROWS, ROWS[:9]])
    with pytest.raises(ProblemError, match='split="columns"'):
        VerticalPCA(2).fit(destiny.Silos([ROWS, ROWS]))
    with pytest.raises(ProblemError, match="take VerticalPCA or VerticalRidge"):
        DecentralizedPCA(2).fit(destiny.Silos(PARTIES, split="columns"))
    with pytest.raises(ProblemError, match="without gaps"):
        VerticalRidge().fit([ROWS, np.full((178, 1), np.nan)], TARGET)
    with pytest.raises(ProblemError, match="silo 1: columns must be dense"):
        VerticalPCA(2).fit([ROWS, sparse.eye_array(178)])
    with pytest.raises(ProblemError, match="n_components must be at most 2, the directions"):
        VerticalPCA(3).fit([ROWS[:, :1], ROWS[:, 1:2], ROWS[:, :2].sum(axis=1, keepdims=True)])
    with pytest.raises(ProblemError, match="y must have a number for each of the 178 rows; found shape"):
        VerticalRidge().fit(PARTIES, TARGET[:9])
    with pytest.raises(SettingsError, match="alpha must be a number of at least 0; found -1"):
        VerticalRidge(-1).fit(PARTIES, TARGET)
    fitted = VerticalRidge(random_state=0).fit(PARTIES, TARGET)
    with pytest.raises(ProblemError, match=r"\[1, 5, 3, 4\] columns, as in fit; found \[5, 1, 3, 4\]"):
        fitted.predict([PARTIES[1], PARTIES[0], *PARTIES[2:]])
    with pytest.raises(NotFittedError):
        clone(fitted).predict(PARTIES)


def test_a_fit_that_ends_early_says_so():
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        assert not VerticalRidge(max_iter=1, random_state=0).fit(PARTIES, TARGET).converged_
    with pytest.warns(ConvergenceWarning, match="VerticalPCA did not converge: out of rounds"):
        assert (
            not VerticalPCA(max_rounds=40, method="destiny-accelerated", random_state=0)
            .fit(PARTIES)
            .converged_
        )
