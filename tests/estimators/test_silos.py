"""Pipelines, imputation and cross-validation over `destiny.Silos`, against scikit-learn on pooled rows."""

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny
from destiny.errors import ProblemError, SettingsError

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

import pandas
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedGroupKFold,
    cross_val_predict,
    cross_val_score,
    permutation_test_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from destiny.estimators import (
    DecentralizedImputer,
    DecentralizedLDA,
    DecentralizedOLSRClassifier,
    DecentralizedPCA,
    DecentralizedScaler,
    DecentralizedSparseDictionary,
    DecentralizedSparsePCA,
    SiloFolds,
)

DATA = load_breast_cancer(as_frame=True)
FRAME = DATA.data.iloc[:240, :8]
ROWS, LABELS = FRAME.to_numpy(), DATA.target.to_numpy()[:240]
GAPS = np.where(np.random.default_rng(0).random(ROWS.shape) < 0.1, np.nan, ROWS)
CUTS = [70, 130]


def silos_of(rows, **options):
    return destiny.Silos(np.split(np.asarray(rows), CUTS), **options)


def pooled(silos):
    return np.concatenate(list(silos))


SILOS = silos_of(ROWS)
Y = SILOS.per_row(np.split(LABELS, CUTS))
POOLED_LDA = LinearDiscriminantAnalysis(solver="eigen")


def test_a_pipeline_with_gaps_agrees_with_scikit_learn():
    silos = destiny.Silos(
        {
            name: FRAME.where(~np.isnan(GAPS)).iloc[part]
            for name, part in zip("abc", np.split(np.arange(240), CUTS), strict=True)
        }
    )
    steps = DecentralizedImputer(), DecentralizedScaler(), DecentralizedPCA(n_components=3, random_state=0)
    ours = make_pipeline(*steps).fit(silos)
    theirs = make_pipeline(SimpleImputer(), StandardScaler(), PCA(3)).fit(GAPS)
    codes = ours.transform(silos)
    assert isinstance(codes, destiny.Silos)
    assert codes.parties == ("a", "b", "c")
    assert codes.columns == ("decentralizedpca0", "decentralizedpca1", "decentralizedpca2")
    np.testing.assert_allclose(pooled(codes), theirs.transform(GAPS), atol=1e-6)
    np.testing.assert_allclose(steps[0].statistics_, theirs[0].statistics_, rtol=1e-12)
    assert steps[0].feature_names_in_.tolist() == list(FRAME.columns)
    back = ours[1:].inverse_transform(codes)
    assert back.columns == tuple(FRAME.columns)
    np.testing.assert_allclose(pooled(back), theirs[1:].inverse_transform(theirs.transform(GAPS)), rtol=1e-5)


@pytest.mark.parametrize(
    "estimator",
    [
        DecentralizedPCA(n_components=2, random_state=0),
        DecentralizedSparsePCA(n_components=2, alpha=0.01, random_state=0),
        DecentralizedScaler(random_state=0),
        DecentralizedSparseDictionary(2, random_state=0, tol=1e-3),
        DecentralizedOLSRClassifier(random_state=0),
    ],
)
def test_silos_give_the_bits_of_a_list(estimator):
    """The same tables as a list are checked by scikit-learn on the way."""
    scaled = silos_of(StandardScaler().fit_transform(ROWS))
    found, expected = clone(estimator).fit(scaled, Y), clone(estimator).fit(list(scaled), list(Y))
    for name in ("components_", "mean_", "scale_", "coef_"):
        if getattr(expected, name, None) is not None:
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    result = found.transform(scaled)
    assert isinstance(result, destiny.Silos)
    np.testing.assert_array_equal(pooled(result), np.concatenate(expected.transform(list(scaled))))


def test_predictions_are_values_of_rows():
    scaled = DecentralizedScaler().fit_transform(SILOS)
    model = DecentralizedOLSRClassifier(random_state=0).fit(scaled, Y)
    predicted = model.predict(scaled)
    assert [len(part) for part in predicted] == [70, 60, 110]
    accuracy = accuracy_score(Y, predicted)
    assert accuracy == model.score(scaled, Y) > 0.9
    assert accuracy == np.mean(np.asarray(predicted) == LABELS)
    assert model.decision_function(scaled).shape == (240,)
    pca = DecentralizedPCA(n_components=2, random_state=0).set_output(transform="pandas")
    assert isinstance(pca.fit_transform(scaled), destiny.Silos)


def test_scores_are_frames_with_the_row_labels_of_the_tables():
    tables = np.split(np.arange(240), CUTS)
    frames = {
        name: FRAME.iloc[its].rename(index="P{}".format) for name, its in zip("abc", tables, strict=True)
    }
    pipe = make_pipeline(DecentralizedScaler(), DecentralizedPCA(n_components=2, random_state=0))
    scores = pipe.fit_transform(destiny.Silos(frames)).to_frames()
    expected = make_pipeline(StandardScaler(), PCA(2)).set_output(transform="pandas").fit_transform(FRAME)
    joined = pandas.concat(scores.values())
    assert list(joined.index) == [f"P{k}" for k in range(240)]
    assert list(joined.columns) == ["decentralizedpca0", "decentralizedpca1"]
    np.testing.assert_allclose(joined, expected, atol=1e-6)


def test_folds_inside_each_silo():
    folds = list(SiloFolds(4).split(SILOS, Y))
    assert len(folds) == SiloFolds(4).get_n_splits() == 4
    tested = np.sort(np.concatenate([test for _, test in folds]))
    np.testing.assert_array_equal(tested, np.arange(240))
    for fit, test in folds:
        assert np.intersect1d(fit, test).size == 0
        sizes = np.array(SILOS[test].sizes)
        assert (np.abs(sizes - np.array(SILOS.sizes) / 4) <= 1).all()
        for part, its in zip(Y, Y[test], strict=True):  # stratified in each silo
            assert abs(its.mean() - part.mean()) < 0.1


def test_cross_validation_and_search_of_scikit_learn():
    pipe = make_pipeline(DecentralizedScaler(), DecentralizedOLSRClassifier(random_state=0, tol=1e-2))
    splitter = SiloFolds(KFold(2, shuffle=True, random_state=0))
    scores = cross_val_score(pipe, SILOS, Y, cv=splitter)
    expected = [
        clone(pipe).fit(SILOS[fit], Y[fit]).score(SILOS[test], Y[test])
        for fit, test in splitter.split(SILOS, Y)
    ]
    assert scores.tolist() == expected
    assert cross_val_score(pipe, SILOS, Y, cv=splitter, scoring="accuracy").tolist() == expected
    predicted = cross_val_predict(pipe, SILOS, Y, cv=SiloFolds(2))
    assert np.mean(predicted == LABELS) > 0.9
    grid = {"decentralizedolsrclassifier__target_scale": [1.5, 3.0]}
    search = GridSearchCV(pipe, grid, cv=splitter).fit(SILOS, Y)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(expected))
    assert [len(part) for part in search.predict(SILOS)] == [70, 60, 110]


GROUPS = np.random.default_rng(1).integers(0, 30, 240)  # of rows that belong together, in each party
FOLDS = SiloFolds(KFold(3, shuffle=True, random_state=0))


@pytest.mark.parametrize(
    ("method", "y"),
    [("predict_proba", Y), ("decision_function", Y), ("predict_proba", LABELS), ("predict", LABELS.tolist())],
    ids=["probabilities", "scores", "of an array", "of a list"],
)
def test_predictions_of_folds_are_those_of_pooled_rows(method, y):
    folds = list(SiloFolds(3).split(SILOS, y))
    found = cross_val_predict(DecentralizedLDA(random_state=0), SILOS, y, cv=SiloFolds(3), method=method)
    expected = cross_val_predict(POOLED_LDA, ROWS, LABELS, cv=folds, method=method)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("splitter", [FOLDS, ShuffleSplit(2, random_state=0)], ids=["silos", "shuffled"])
def test_permuted_labels_and_shuffled_rows(splitter):
    options = {"cv": splitter, "n_permutations": 3, "random_state": 0}
    found = permutation_test_score(DecentralizedLDA(random_state=0), SILOS, np.asarray(Y), **options)
    options["cv"] = list(splitter.split(SILOS))
    expected = permutation_test_score(POOLED_LDA, ROWS, LABELS, **options)
    np.testing.assert_allclose(np.hstack(found), np.hstack(expected))


def test_labels_that_a_function_shuffles_must_be_one_array():
    model = DecentralizedLDA(random_state=0)
    with pytest.raises(ProblemError, match=r"found 3: .*need them in one array, numpy\.asarray\(labels\)"):
        permutation_test_score(model, SILOS, Y, cv=SiloFolds(3), n_permutations=2)


def test_chosen_rows_and_their_values_stay_in_the_order_chosen():
    rows = np.random.default_rng(0).permutation(240)[:90]
    again = np.arange(89, 9, -2)
    chosen = SILOS[rows]
    np.testing.assert_array_equal(Y[rows], LABELS[rows])
    np.testing.assert_array_equal(Y[rows][again], LABELS[rows][again])
    np.testing.assert_array_equal(chosen.per_row(LABELS[rows]), LABELS[rows])
    np.testing.assert_array_equal(pooled(chosen[again]), pooled(SILOS[rows[again]]))
    model = DecentralizedLDA(random_state=0).fit(chosen, LABELS[rows])
    np.testing.assert_array_equal(
        model.predict(chosen), POOLED_LDA.fit(ROWS[rows], LABELS[rows]).predict(ROWS[rows])
    )
    assert model.score(chosen, LABELS[rows]) == model.score(chosen, Y[rows])
    tested = np.concatenate([test for _, test in SiloFolds(2).split(chosen, Y[rows])])
    np.testing.assert_array_equal(np.sort(tested), np.arange(90))


@pytest.mark.parametrize("cv", [3, GroupKFold(3), StratifiedGroupKFold(3)])
@pytest.mark.parametrize("groups", [GROUPS, SILOS.per_row(GROUPS)], ids=["array", "values"])
def test_rows_of_a_group_stay_together(cv, groups):
    folds = list(SiloFolds(cv).split(SILOS, Y, groups))
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(240))
    party = np.repeat(np.arange(3), SILOS.sizes)
    for fit, test in folds:
        assert not set(zip(party[fit], GROUPS[fit], strict=True)) & set(
            zip(party[test], GROUPS[test], strict=True)
        )
        assert all(SILOS[test].sizes)
    scores = cross_val_score(DecentralizedLDA(random_state=0), SILOS, Y, groups=groups, cv=SiloFolds(cv))
    np.testing.assert_array_equal(scores, cross_val_score(POOLED_LDA, ROWS, LABELS, cv=folds))


@pytest.mark.parametrize(
    ("cv", "groups", "sentence"),
    [
        (LeaveOneOut(), None, "found 70 at silo 0 and 60 at silo 1: give LeaveOneOut as cv itself"),
        (
            PredefinedSplit(np.arange(240) % 3),
            None,
            "found PredefinedSplit, which names rows: give it as cv itself",
        ),
        ([(np.arange(9), np.arange(9, 12))], None, "found list, which names rows: give it as cv itself"),
        (KFold(3), np.arange(240) // 2, "silo 0: folds must not divide a group; KFold divides 23: take"),
        (GroupKFold(3), None, "silo 0: The 'groups' parameter should not be None"),
        (40, GROUPS, "silo 0: .*n_splits=40 greater than the number of"),
    ],
)
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_splitters_that_do_not_fit_silos_are_refused(cv, groups, sentence):
    with pytest.raises(ProblemError, match=sentence):
        next(SiloFolds(cv).split(SILOS, None, groups))


def test_a_splitter_of_all_rows_at_once():
    some = np.arange(0, 240, 10)
    scores = cross_val_score(DecentralizedLDA(random_state=0), SILOS[some], Y[some], cv=LeaveOneOut())
    expected = cross_val_score(POOLED_LDA, ROWS[some], LABELS[some], cv=LeaveOneOut())
    np.testing.assert_array_equal(scores, expected)
    alike = destiny.Silos([ROWS[:20], ROWS[20:20], ROWS[40:60]])
    assert SiloFolds(LeaveOneOut()).get_n_splits(alike) == 20


def test_folds_refuse_what_is_not_silos():
    with pytest.raises(ProblemError, match=r"the rows of destiny\.Silos; found ndarray"):
        next(SiloFolds(3).split(ROWS))
    with pytest.raises(ProblemError, match=r"of each of the 3 parties, or of all 240 rows; found 9"):
        next(SiloFolds(3).split(SILOS, LABELS[:9]))
    with pytest.raises(ProblemError, match=r"silo 1: .*n_splits"):
        next(SiloFolds(KFold(3)).split(destiny.Silos([ROWS[:9], ROWS[:2]])))


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted", "float32"])
def test_imputed_means_of_pooled_rows(kind):
    rows = GAPS.astype(np.float32) if kind == "float32" else GAPS
    weights = np.random.default_rng(1).integers(0, 3, 240)
    repeated = np.repeat(rows, weights, axis=0) if kind == "weighted" else rows
    expected = SimpleImputer().fit(repeated)
    tables = np.split(rows, CUTS)
    if kind == "sparse":
        tables = [sparse.csr_array(np.where(table < 10, 0.0, table)) for table in tables]
        expected = SimpleImputer().fit(sparse.vstack(tables))
    found = DecentralizedImputer(random_state=0).fit(
        tables, sample_weight=np.split(weights, CUTS) if kind == "weighted" else None
    )
    np.testing.assert_allclose(
        found.statistics_, expected.statistics_, rtol=2e-6 if kind == "float32" else 1e-12
    )
    for ours, table in zip(found.transform(tables), tables, strict=True):
        theirs = expected.transform(table)
        assert ours.dtype == table.dtype
        if kind == "sparse":
            ours, theirs = ours.toarray(), theirs.toarray()
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_imputer_refuses_what_is_no_average():
    with pytest.raises(SettingsError, match="found 'median', which is no average"):
        DecentralizedImputer(strategy="median").fit(GAPS)
    with pytest.raises(SettingsError, match='strategy must be "mean" or "constant"; found 7'):
        DecentralizedImputer(strategy=7).fit(GAPS)
    with pytest.raises(ProblemError, match="found none in column 1: leave"):
        DecentralizedImputer().fit(np.column_stack([np.ones(9), np.full(9, np.nan)]))
    with pytest.raises(ProblemError, match="found none in column 'b': leave"):
        DecentralizedImputer().fit(pandas.DataFrame({"a": [1.0, 2.0], "b": [np.nan, np.nan]}))
    constant = DecentralizedImputer(strategy="constant", fill_value=-1).fit(silos_of(GAPS))
    np.testing.assert_array_equal(
        pooled(constant.transform(silos_of(GAPS))), np.where(np.isnan(GAPS), -1, GAPS)
    )
    assert constant.n_rounds_ == 0
    assert not constant.transform(silos_of(GAPS)).gaps


def test_refusals_name_the_party():
    gaps = silos_of(GAPS)
    with pytest.raises(ProblemError, match=r"needs rows without gaps; .*DecentralizedImputer"):
        DecentralizedPCA(n_components=2).fit(gaps)
    pca = DecentralizedPCA(random_state=0).fit(SILOS)
    with pytest.raises(ProblemError, match="must have the 8 columns of fit; found 7"):
        pca.transform(silos_of(ROWS[:, :7]))
    with pytest.raises(ProblemError, match="silo 1: "):
        DecentralizedOLSRClassifier().fit(SILOS, [LABELS[:70], LABELS[:9], LABELS[130:]])
    with pytest.raises(ProblemError, match="needs dense rows; found sparse ones"):
        DecentralizedSparseDictionary(2).fit(destiny.Silos([sparse.eye_array(4)]))
    with pytest.raises(ProblemError, match="would pool the rows"):
        StandardScaler().fit(SILOS)
    frame = destiny.Silos([FRAME.iloc[:70], FRAME.iloc[70:]])
    with pytest.raises(ProblemError, match="columns must be in the order of fit"):
        DecentralizedPCA(random_state=0).fit(frame).transform(destiny.Silos([FRAME[FRAME.columns[::-1]]]))


def test_a_party_applies_a_pipeline_to_its_own_table_without_a_warning(recwarn):
    frames = {
        name: pandas.DataFrame(part, columns=list("abcd"))
        for name, part in zip("xyz", np.split(load_iris().data, [40, 90]), strict=True)
    }
    silos = destiny.Silos(frames)
    pipe = make_pipeline(DecentralizedScaler(), DecentralizedPCA(2, random_state=0)).fit(silos)
    together = pipe.transform(silos)["y"]
    for own in (frames["y"], silos["y"]):
        np.testing.assert_array_equal(pipe.transform(own), together)
    assert not recwarn.list
    with pytest.raises(ValueError, match="same order"):
        pipe.transform(frames["y"][["b", "a", "c", "d"]])
    pipe[0].fit(frames["x"])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        pipe[0].transform(frames["y"].to_numpy())  # names of a frame: scikit-learn's rule
