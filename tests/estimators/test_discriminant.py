"""Linear discriminant analysis: scikit-learn's on the pooled rows, uneven silos, singular scatter."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import sklearn
from packaging.version import Version
from scipy.sparse import csr_array
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score

import destiny
from destiny.algorithms import CDADT
from destiny.errors import ProblemError
from destiny.estimators import DecentralizedLDA

X, LABELS = load_wine(return_X_y=True)
Y = np.array(["one", "two", "three"])[LABELS]
SILOS = np.array_split(np.argsort(Y, kind="stable"), 5)  # no silo has all three classes


def fit(**options):
    model = DecentralizedLDA(random_state=0, **options)
    return model.fit([X[rows] for rows in SILOS], [Y[rows] for rows in SILOS])


@pytest.fixture(scope="module")
def model():
    return fit()


@pytest.mark.parametrize(
    "options",
    [{}, {"shrinkage": 0.2}, {"priors": [0.2, 0.3, 0.5]}, {"shrinkage": 0.5, "priors": [0.6, 0.3, 0.1]}],
)
def test_predictions_are_those_of_scikit_learn(options):
    model = fit(**options)
    pooled = LinearDiscriminantAnalysis(solver="eigen", **options).fit(X, Y)
    assert model.converged_
    assert model.classes_.tolist() == pooled.classes_.tolist()
    np.testing.assert_allclose(model.predict_proba(X), pooled.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(model.predict_log_proba(X), pooled.predict_log_proba(X), rtol=1e-6, atol=1e-6)
    assert (model.predict(X) == pooled.predict(X)).all()
    np.testing.assert_allclose(model.means_, pooled.means_, rtol=1e-10)


def test_directions_are_those_of_scikit_learn(model):
    pooled = LinearDiscriminantAnalysis(solver="eigen").fit(X, Y)
    ours, theirs = model.transform(X), pooled.transform(X)
    signs = np.sign(np.sum(ours * theirs, axis=0))
    np.testing.assert_allclose(ours, signs * theirs, atol=1e-6)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, pooled.explained_variance_ratio_[:2], atol=1e-9
    )
    assert (np.abs(model.scalings_).max(axis=0) == model.scalings_.max(axis=0)).all()


@pytest.mark.skipif(
    Version(sklearn.__version__) < Version("1.9"),
    reason='before 1.9 the solver "svd" divides by n - k, "eigen" by n',
)
def test_scores_are_those_of_scikit_learns_other_solver(model):
    pooled = LinearDiscriminantAnalysis(solver="svd").fit(X, Y)
    np.testing.assert_allclose(model.coef_, pooled.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, pooled.intercept_, rtol=1e-6)
    two = LABELS < 2
    binary = DecentralizedLDA(random_state=0).fit(X[two], Y[two])
    eigen = LinearDiscriminantAnalysis(solver="eigen").fit(X[two], Y[two])
    np.testing.assert_allclose(binary.decision_function(X), eigen.decision_function(X), rtol=1e-6, atol=1e-6)
    assert binary.coef_.shape == eigen.coef_.shape
    assert binary.transform(X).shape == (178, 1)


def test_fewer_components_predict_the_same(model):
    one = fit(n_components=1)
    np.testing.assert_array_equal(one.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(one.transform(X), model.transform(X)[:, :1], rtol=1e-12)
    with pytest.raises(destiny.SettingsError, match=r"from 1 to min\(n_classes - 1, n_features\) = 2"):
        fit(n_components=3)


def test_tables_of_any_kind_give_the_same(model):
    frames = [pd.DataFrame(X[rows]).add_prefix("f") for rows in SILOS]
    named = DecentralizedLDA(random_state=0).fit(frames, [pd.Series(Y[rows]) for rows in SILOS])
    np.testing.assert_array_equal(named.scalings_, model.scalings_)
    assert named.get_feature_names_out().tolist() == ["decentralizedlda0", "decentralizedlda1"]
    sparse = DecentralizedLDA(random_state=0).fit(
        [csr_array(X[rows]) for rows in SILOS], [Y[rows] for rows in SILOS]
    )
    np.testing.assert_allclose(sparse.scalings_, model.scalings_, atol=1e-9)
    assert model.score([X[rows] for rows in SILOS], [Y[rows] for rows in SILOS]) == model.score(X, Y)
    assert [part.shape for part in model.predict_proba([X[:3], X[:0]])] == [(3, 3), (0, 3)]


def test_units_of_the_features_do_not_matter(model):
    units = 10.0 ** np.arange(-6, 7)
    scaled = DecentralizedLDA(random_state=0).fit(
        [X[rows] * units for rows in SILOS], [Y[rows] for rows in SILOS]
    )
    np.testing.assert_allclose(scaled.predict_proba(X * units), model.predict_proba(X), atol=1e-8)


def test_averaged_scatter_and_a_run_agree(model):
    run = fit(method=CDADT())
    assert model.notes_[0].startswith("the agents averaged their scatter matrices")
    assert run.converged_
    assert run.history_.rows
    assert not model.history_.rows
    assert model.n_rounds_ < run.n_rounds_
    np.testing.assert_allclose(run.predict_proba(X), model.predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(run.transform(X), model.transform(X), atol=1e-6)


def test_agents_of_a_network_that_changes_run():
    model = fit(network=destiny.networks.link_loss(destiny.networks.complete(5), 0.2, seed=1))
    assert model.converged_
    assert model.history_.rows
    np.testing.assert_allclose(
        model.predict_proba(X),
        LinearDiscriminantAnalysis(solver="eigen").fit(X, Y).predict_proba(X),
        atol=1e-6,
    )


def test_a_method_of_choice_and_cross_validation():
    plain = DecentralizedLDA(method=CDADT(momentum=False), tol=1e-6, random_state=0).fit(X, Y)
    assert plain.score(X, Y) == 1.0
    with pytest.raises(destiny.MismatchError, match="cdadt"):
        fit(method=destiny.DestinyAccelerated())
    data = load_iris(return_X_y=True)
    ours = cross_val_score(DecentralizedLDA(n_agents=3, random_state=0), *data, cv=3)
    np.testing.assert_array_equal(ours, cross_val_score(LinearDiscriminantAnalysis(), *data, cv=3))


def test_a_singular_scatter_is_shrunk_with_a_warning_or_refused():
    constant = np.column_stack([X, np.full(len(X), 3.0)])
    with pytest.warns(
        UserWarning, match=r"takes shrinkage = 0.1: columns that do not vary within a class .*13"
    ):
        model = DecentralizedLDA(random_state=0).fit(constant, Y)
    assert model.shrinkage_ == 0.1
    pooled = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(constant, Y)
    np.testing.assert_allclose(model.predict_proba(constant), pooled.predict_proba(constant), atol=1e-6)
    twice = np.column_stack([X, X[:, 0] + X[:, 1]])
    for table, words in (
        (constant, "do not vary"),
        (twice, "depend on others"),
        (np.eye(6), "fewer than 9 rows"),
    ):
        with pytest.raises(destiny.ProblemError, match=words):
            DecentralizedLDA(shrinkage=0, n_agents=2, random_state=0).fit(
                table, Y[: len(table)] if len(table) > 6 else list("aabbcc")
            )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shrinkage": "auto"}, "shrinkage must be None or a number from 0 to 1"),
        ({"shrinkage": 1.5}, "shrinkage must be None or a number from 0 to 1"),
        ({"priors": [0.5, 0.5]}, "priors must be 3 numbers"),
        ({"priors": [0.5, 0.5, 0.5]}, "priors must be 3 numbers"),
        ({"priors": ["a", "b", "c"]}, "priors must be 3 numbers"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(destiny.SettingsError, match=words):
        fit(**options)


def test_one_class_is_refused():
    with pytest.raises(destiny.ProblemError, match="at least 2 classes"):
        DecentralizedLDA().fit(X[LABELS == 0], Y[LABELS == 0])


@pytest.mark.parametrize("shrinkage", [None, 0.1])
def test_data_that_do_not_vary_are_refused_at_once(shrinkage):
    with pytest.raises(ProblemError, match="columns must vary within a class; found none that does"):
        DecentralizedLDA(shrinkage=shrinkage, random_state=0).fit(np.ones((30, 4)), np.arange(30) % 3)
