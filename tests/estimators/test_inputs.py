"""What users pass to the estimators: silos in and out, frames, sparse rows, and what is refused."""

import re

import numpy as np
import pytest
import scipy.sparse as sparse
from threadpoolctl import threadpool_limits

import destiny
from destiny import networks

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

import pandas
from joblib import parallel_config
from sklearn.datasets import load_diabetes, load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from destiny.estimators import DecentralizedOLSRClassifier, DecentralizedPCA, DecentralizedSparseDictionary

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 3
ROWS = RNG.standard_normal((60, 4)) * [4, 3, 2, 1] + [0, 0, 5, 1] + np.outer(LABELS, [0, 3, 0, 0])
FRAME = pandas.DataFrame(ROWS, columns=list("abcd"))
CUTS = [10, 25, 40]
SILOS, SILO_LABELS = np.split(ROWS, CUTS), np.split(LABELS, CUTS)
FRAMES = [FRAME[:20], FRAME[20:]]
SPARSE = (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csc_matrix, sparse.coo_matrix)
DATES = FRAME.assign(day=pandas.date_range("2020-01-01", periods=60))


def pca(p=2, **options):
    return DecentralizedPCA(p, random_state=0, **options)


def regression(**options):
    return DecentralizedOLSRClassifier(random_state=0, **options)


@pytest.fixture(scope="module")
def fitted():
    """One of each, fitted to silos."""
    return pca().fit(SILOS), regression().fit(SILOS, SILO_LABELS), DecentralizedSparseDictionary(2).fit(SILOS)


# Silos in, silos out.


@pytest.mark.parametrize("method", ["transform", "score_samples"])
def test_silos_in_silos_out(fitted, method):
    found = getattr(fitted[0], method)(SILOS)
    assert isinstance(found, list)
    assert [len(part) for part in found] == [10, 15, 15, 20]
    np.testing.assert_allclose(np.concatenate(found), getattr(fitted[0], method)(ROWS), rtol=0, atol=1e-12)


def test_the_other_estimators_take_silos_too(fitted):
    _, classifier, dictionary = fitted
    for method in ("predict", "decision_function", "transform"):
        parts = getattr(classifier, method)(tuple(SILOS))
        np.testing.assert_allclose(np.concatenate(parts), getattr(classifier, method)(ROWS), atol=1e-12)
    codes = dictionary.transform(SILOS)
    np.testing.assert_allclose(np.concatenate(codes), dictionary.transform(ROWS), atol=1e-12)
    assert [rows.shape for rows in dictionary.inverse_transform(codes)] == [s.shape for s in SILOS]


def test_a_score_is_one_number_of_all_rows(fitted):
    assert np.isclose(fitted[0].score(SILOS), fitted[0].score(ROWS))
    assert fitted[1].score(SILOS, SILO_LABELS) == fitted[1].score(ROWS, LABELS)
    weights = [np.arange(len(y)) for y in SILO_LABELS]
    weighted = fitted[1].score(ROWS, LABELS, np.concatenate(weights))
    assert np.isclose(fitted[1].score(SILOS, SILO_LABELS, weights), weighted)
    with pytest.raises(
        destiny.ProblemError, match=r"^silo 0: .* inconsistent numbers of samples: \[15, 10\]"
    ):
        fitted[1].score(SILOS, SILO_LABELS[1::-1] + SILO_LABELS[2:])


def test_fit_transform_and_inverse_transform_of_silos():
    estimator = pca(whiten=True)
    codes = estimator.fit_transform(SILOS)
    back = np.concatenate(estimator.inverse_transform(codes))
    expected = PCA(2, whiten=True, svd_solver="full").fit(ROWS)
    np.testing.assert_allclose(back, expected.inverse_transform(expected.transform(ROWS)), atol=1e-6)


def test_no_rows_in_no_rows_out(fitted):
    assert [part.shape for part in fitted[0].transform([ROWS, ROWS[:0]])] == [(60, 2), (0, 2)]
    assert [part.shape for part in fitted[1].predict([ROWS[:0], ROWS])] == [(0,), (60,)]
    with pytest.raises(destiny.ProblemError, match="score needs rows; found none"):
        fitted[0].score([ROWS[:0]])


def test_frames_of_silos_come_back_as_frames():
    estimator = pca().set_output(transform="pandas")
    first, second = estimator.fit_transform(FRAMES)
    assert list(first.columns) == ["decentralizedpca0", "decentralizedpca1"]
    assert second.index[0] == 20
    assert list(estimator.fit_transform(FRAME).index) == list(FRAME.index)
    assert list(estimator.feature_names_in_) == list("abcd")


def test_silos_in_a_pipeline_and_in_cross_validation():
    pipe = make_pipeline(pca(), regression()).fit(SILOS, SILO_LABELS)
    assert [len(part) for part in pipe.predict(SILOS)] == [10, 15, 15, 20]
    assert pipe.score(SILOS, SILO_LABELS) > 0.4
    left_out = cross_val_score(pca(), SILOS, cv=KFold(4))  # a silo at a time
    expected = [pca().fit(SILOS[:k] + SILOS[k + 1 :]).score(SILOS[k]) for k in range(4)]
    np.testing.assert_allclose(left_out, expected)


def test_a_search_over_components_by_two_workers():
    searches = [
        GridSearchCV(estimator, {"n_components": [1, 2, 3]}, n_jobs=2, cv=2)
        for estimator in (DecentralizedPCA(random_state=0), PCA(svd_solver="full"))
    ]
    with parallel_config("threading"):
        scores = [search.fit(ROWS).cv_results_["mean_test_score"] for search in searches]
    np.testing.assert_allclose(*scores, rtol=1e-8)


def test_unfitted_estimators_say_so_for_silos_too():
    for method in ("transform", "score", "inverse_transform"):
        with pytest.raises(NotFittedError):
            getattr(pca(), method)(SILOS)


# What arrays may be like.


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_rows_of_every_kind(kind):
    found, expected = pca().fit([kind(s) for s in SILOS]), PCA(2, svd_solver="full").fit(ROWS)
    np.testing.assert_allclose(found.transform(kind(ROWS)), expected.transform(ROWS), atol=1e-6)
    np.testing.assert_allclose(found.score(kind(ROWS)), expected.score(ROWS), rtol=1e-8)
    np.testing.assert_allclose(found.score([kind(s) for s in SILOS]), expected.score(ROWS), rtol=1e-8)


@pytest.mark.parametrize(
    "rows",
    [
        sparse.csr_array(ROWS + 1e6),
        # Two stored numbers for one entry count as their sum.
        sparse.csr_array(
            (np.repeat(ROWS.ravel(), 2), np.tile([0, 0, 1, 1, 2, 2, 3, 3], 60), range(0, 481, 8))
        ),
    ],
    ids=["far from the origin", "not in canonical format"],
)
def test_the_total_variance_of_sparse_rows(rows):
    found, expected = pca().fit(rows), PCA(2, svd_solver="full").fit(rows.toarray())
    np.testing.assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["i1", "u4", "f4", ">f8", bool, object])
def test_types_of_numbers(dtype):
    table = (ROWS.mean(axis=0) < ROWS) if dtype is bool else np.abs(ROWS * 4).astype(dtype)
    table.setflags(write=False)
    found, expected = pca().fit(np.asfortranarray(table)), PCA(2, svd_solver="full").fit(table.astype(float))
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, rtol=1e-6)
    assert found.components_.dtype == (np.float32 if dtype == "f4" else np.float64)
    mixed = pca().fit([table[:30], table[30:].astype(np.float64)])
    assert mixed.components_.dtype == np.float64


def test_the_bits_do_not_depend_on_the_number_of_cores():
    table = np.random.default_rng(0).standard_normal((2000, 100)) * np.linspace(1, 3, 100)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(DecentralizedPCA(n_agents=2, random_state=0).fit(table).components_)
    assert np.array_equal(*found)


# Likelihoods.


def constant_columns():
    table = ROWS.copy()
    table[:, 1], table[:, 3] = 7.3, 1 / 3
    return table


LIKELIHOODS = {
    "all components": (ROWS, None),
    "some components": (ROWS, 3),
    "far from the origin": (ROWS + 1e4, 2),
    "constant columns": (constant_columns(), 1),
    "constant pixels": (load_digits().data[:300], 5),
    "rank 3": (RNG.standard_normal((50, 3)) @ RNG.standard_normal((3, 7)) + 5, 2),
    "more columns than rows": (RNG.standard_normal((6, 10)) * np.arange(1, 11), 2),
    "one column": (ROWS[:, :1], None),
}


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("case", LIKELIHOODS)
def test_likelihoods_are_those_of_pooled_rows(case, whiten):
    table, p = LIKELIHOODS[case]
    found = pca(p, whiten=whiten, n_agents=3).fit(table)
    expected = PCA(p, whiten=whiten, svd_solver="full").fit(table)
    for name in ("get_covariance", "get_precision"):
        theirs = getattr(expected, name)()
        np.testing.assert_allclose(getattr(found, name)(), theirs, rtol=0, atol=1e-8 * np.abs(theirs).max())
    np.testing.assert_allclose(found.score_samples(table), expected.score_samples(table), rtol=1e-8)
    np.testing.assert_allclose(found.score(table), expected.score(table), rtol=1e-8)
    np.testing.assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=1e-8)


@pytest.mark.parametrize(
    ("table", "p", "seen"),
    [
        (load_digits().data, None, "61 of 64: leave out .*, or take fewer than 61 components"),
        (constant_columns(), None, "2 of 4: leave out .*, or take fewer than 2 components"),
        (constant_columns(), 3, "2 of 4"),
        (LIKELIHOODS["rank 3"][0], None, "3 of 7"),
        (LIKELIHOODS["rank 3"][0], 3, "3 of 7"),
        (LIKELIHOODS["more columns than rows"][0], None, "5 of 10"),
        (np.full((10, 4), 0.1), 2, "0 of 4: leave out columns that are constant or depend on others$"),
    ],
)
def test_no_likelihood_without_variance_in_some_direction(table, p, seen):
    """Those of scikit-learn's solvers are rounding errors, infinite or a LinAlgError there."""
    found = pca(p, n_agents=3).fit(table)
    assert found.noise_variance_ == 0
    for method in ("score", "score_samples"):
        with pytest.raises(destiny.ProblemError, match=f"variance in all directions; found it in {seen}"):
            getattr(found, method)(table)
    expected = PCA(p, svd_solver="full").fit(table)
    size = np.square(table).max()
    np.testing.assert_allclose(found.get_covariance(), expected.get_covariance(), rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, atol=1e-14 * size)


@pytest.mark.parametrize("given", [ROWS, sparse.csr_array(ROWS)], ids=["dense", "sparse"])
@pytest.mark.parametrize("p", [None, 4])
def test_all_components_need_no_search(given, p):
    found = pca(p, network="complete").fit(given)
    assert (found.n_rounds_, len(found.history_), found.converged_) == (4, 0, True)  # two averages
    # Sums and number of rows; then half of a symmetric matrix, bordered by the total variance: 14 messages.
    assert found.n_scalars_ == 14 * ((4 + 1) + (10 + 1 + 4))
    expected = PCA(svd_solver="full").fit(ROWS)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-12)
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, rtol=1e-12)


# What is refused.

CLASSES_AS_NUMBERS = np.arange(60) // 2
REFUSED = {
    "found a generator: give list(X)": lambda: pca().fit(s for s in SILOS),
    "found a set: give list(X)": lambda: pca().fit({1.0, 2.0}),
    "found an empty list": lambda: pca().fit([]),
    "found an array of tables: give list(X)": lambda: pca().fit(np.stack([ROWS, ROWS])),
    "array of tables: give list(X)": lambda: pca().fit(np.array([*SILOS, None], dtype=object)[:4]),
    "found groups: give [table for _, table in X]": lambda: pca().fit(FRAME.assign(h=0).groupby("h")),
    "found the names of files": lambda: pca().fit("a.csv"),
    "column 'day' is datetime64": lambda: pca().fit(DATES),
    "silo 1: columns must be numbers; column 'day'": lambda: pca().fit([FRAME.assign(day=0), DATES]),
    "found datetime64": lambda: pca().fit(DATES[["day"]].to_numpy()),
    "found timedelta64": lambda: pca().fit(DATES[["day"]].to_numpy() - DATES["day"].to_numpy()[0]),
    "found 'x' in row 2 of column 'e'": lambda: pca().fit(FRAME.assign(e=["1", "2", "x"] * 20)),
    "found None in row 0 of column 1": lambda: pca().fit([[1.0, None], [2.0, 3.0]]),
    "in row 0 of column 'day': leave the column out": lambda: pca().fit(DATES.astype(object)),
    "found 2 in row 0 and 1 in row 1": lambda: pca().fit([[1, 2], [3]]),
    "must not have masked entries": lambda: pca().fit(np.ma.masked_greater(ROWS, 3)),
    "found a structured array": lambda: pca().fit(FRAME.to_records(index=False)),
    "Complex data not supported": lambda: pca().fit(ROWS + 1j),
    "Input X contains NaN in row 0 of column 2: leave": lambda: pca().fit(np.where(ROWS > 3, np.nan, ROWS)),
    "silo 1: Input X contains NaN in row 0": lambda: pca().fit([ROWS, np.where(ROWS > 3, np.nan, ROWS)]),
    "silo 1: Expected 2D array, got 1D array instead: Reshape": lambda: pca().fit([ROWS, ROWS[0]]),
    "silo 1: X has 3 features, but": lambda: pca().fit(SILOS).transform([ROWS, ROWS[:, :3]]),
    "column for each of the 2 components; found 4": lambda: pca().fit(ROWS).inverse_transform(ROWS),
    "whiten must be True or False; found 'no'": lambda: pca(whiten="no").fit(ROWS),
    "fit_local takes the table of one agent": lambda: pca().fit_local(SILOS),
    "of the network, 4; found 3": lambda: pca(n_agents=3).fit(SILOS),
    "of the network, 5; found 3": lambda: pca(n_agents=3, network=networks.ring(5)).fit(ROWS),
    "of the network, 1; found 3": lambda: pca(n_agents=3).fit_local(ROWS),
    "algorithm must be an object": lambda: pca(None, method=7).fit(ROWS),
    "algorithm must be a method of": lambda: pca(None, method="newton").fit(ROWS),
    "found 1000.5 and others (Unknown label type: continuous): put": lambda: regression().fit(
        ROWS, ROWS[:, 0] * 0 + np.linspace(1000.5, 2000, 60)
    ),
    "silo 1: y must have the classes": lambda: regression().fit([ROWS, ROWS], [LABELS, ROWS[:, 0]]),
    "found 214 different numbers in 442 rows": lambda: regression().fit(*load_diabetes(return_X_y=True)),
    "found 30 different numbers in 60 rows": lambda: regression().fit(
        SILOS, np.split(CLASSES_AS_NUMBERS, CUTS)
    ),
    "Input y contains NaN": lambda: regression().fit(ROWS, np.where(LABELS, LABELS, np.nan)),
    "of one type; found NoneType and str": lambda: regression().fit(ROWS, ["a", "b", None] * 20),
    "the 4 silos, in a list; found generator": lambda: regression().fit(SILOS, (y for y in SILO_LABELS)),
    "each of the 4 silos, in a list; found None": lambda: regression().fit(SILOS),
    "each of the 4 silos, in a list; found 60": lambda: regression().fit(SILOS, LABELS),
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("sentence", REFUSED)
def test_refused_in_one_sentence(sentence):
    with pytest.raises((destiny.ProblemError, destiny.SettingsError), match=re.escape(sentence)) as raised:
        REFUSED[sentence]()
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 250


PERMUTED = FRAMES[1][list("badc")]
NUMBERED = pandas.DataFrame(ROWS)


COLUMNS = {
    "silo 1: columns must be in the order of silo 0, with 'a' as column 0; found b, a, d, c instead of "
    "a, b, c, d": lambda: pca().fit([FRAMES[0], PERMUTED]),
    "silo 2: columns must be in the order of silo 1, with": lambda: pca().fit([ROWS, FRAMES[0], PERMUTED]),
    "in the order of silo 0, with 1 as": lambda: pca().fit([NUMBERED, NUMBERED[[0, 2, 1, 3]]]),
    "columns must be those of silo 0": lambda: pca().fit([FRAME, FRAME.rename(columns={"b": "z"})]),
    "silo 1: columns must be the 4 of silo 0; found a, b": lambda: pca().fit([FRAME, FRAME[["a", "b"]]]),
    "silo 1: columns must be in the order of fit, with 'a' as": lambda: (
        pca().fit(FRAMES).transform([FRAMES[0], PERMUTED])
    ),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("sentence", COLUMNS)
def test_columns_of_another_order_or_name_are_refused(sentence):
    with pytest.raises(destiny.ProblemError, match=re.escape(sentence)):
        COLUMNS[sentence]()


def test_numbers_given_as_text_are_classes_however_many():
    found = regression(n_agents=2, network="complete", max_rounds=200, tol=1e-1)
    found.fit(ROWS, CLASSES_AS_NUMBERS.astype(str))
    assert len(found.classes_) == 30
    with pytest.raises(destiny.ProblemError, match="30 different numbers"):
        found.fit(ROWS, CLASSES_AS_NUMBERS)
    many = np.arange(63) % 21  # three rows of each
    assert len(found.fit(ROWS[np.arange(63) % 60], many).classes_) == 21
