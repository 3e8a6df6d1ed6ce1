"""Estimators against scikit-learn's own on pooled rows, against planted answers, and when it goes wrong."""

import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny
from destiny import networks
from tests.helpers import estimators_ranks as ranks
from tests.helpers.mpi_launcher import MPICH, need

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from destiny.estimators import DecentralizedOLSRClassifier, DecentralizedPCA, DecentralizedSparseDictionary
from destiny.estimators.averager import Averager

SHARED = (
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "mean_",
    "noise_variance_",
    "n_components_",
    "n_samples_",
    "n_features_in_",
)


@pytest.fixture
def X():
    """Rows far from the origin, with variances well apart."""
    return np.random.default_rng(0).standard_normal((61, 6)) * [5, 4, 3, 2, 1, 0.5] + [1000, 5, 0, 0, -3, 1]


def assert_is_pca(found, X, p, rows=None, **options):
    """The attributes and methods of scikit-learn's PCA on pooled rows."""
    expected = PCA(p, svd_solver="full", **options).fit(X)
    for name in SHARED:
        assert np.allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-6), name
    rows = X if rows is None else rows
    codes = found.transform(rows)
    assert np.allclose(codes, expected.transform(X), rtol=0, atol=1e-6)
    assert np.allclose(found.inverse_transform(codes), expected.inverse_transform(codes), rtol=0, atol=1e-6)
    assert np.isclose(found.score(X), expected.score(X), rtol=0, atol=1e-6)
    assert found.converged_


@pytest.mark.parametrize("agents", [8, 32])
def test_pca_of_digits(agents):
    digits = load_digits().data
    found = DecentralizedPCA(10, n_agents=agents, random_state=0).fit(digits)
    assert_is_pca(found, digits, 10)
    assert found.network_.agents == agents
    assert len(found.history_) == 0  # covariances were averaged
    assert "the model of averaged-model: about" in found.notes_[0]


def test_pca_of_digits_by_momentum():
    digits = load_digits().data
    found = DecentralizedPCA(10, method="destiny-accelerated", random_state=0).fit(digits)
    assert_is_pca(found, digits, 10)
    assert found.history_.last["round"] < found.n_rounds_  # the averages cost rounds too


@pytest.mark.parametrize("sizes", [(30, 30, 1), (1, 0, 60), (61,), (2, 3, 5, 7, 11, 33)])
def test_silos_of_any_sizes(X, sizes):
    cuts = np.cumsum(sizes)[:-1]
    assert_is_pca(DecentralizedPCA(2, random_state=0).fit(np.split(X, cuts)), X, 2)


@pytest.mark.parametrize("p", [None, 1, 6])
def test_every_number_of_components_and_whitening(X, p):
    assert_is_pca(DecentralizedPCA(p, whiten=True, random_state=0).fit(X), X, p, whiten=True)


@pytest.mark.parametrize("rule", [0.3, 0.9, 0.999, 1 - 1e-9, "mle"])
@pytest.mark.parametrize("network", ["ring", "complete"])
def test_the_number_of_components_follows_from_the_variances(X, rule, network):
    found = DecentralizedPCA(rule, network=network, random_state=0).fit(X)
    assert_is_pca(found, X, rule)
    assert len(found.history_) == 0
    assert "all variances were asked for" in found.notes_[0]


@pytest.mark.parametrize("seed", range(4))
def test_the_most_likely_number_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((80, 9)) * np.where(np.arange(9) < rng.integers(1, 9), 2.0, 1.0)
    found = DecentralizedPCA("mle", random_state=0).fit(sparse.csr_array(rows) if seed else rows)
    assert found.n_components_ == PCA("mle", svd_solver="full").fit(rows).n_components_


def test_a_share_of_the_variance_with_weights_and_in_parts(X):
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    known = PCA(0.8, svd_solver="full").fit(np.repeat(X, weights.astype(int), axis=0))
    found = DecentralizedPCA(0.8, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_allclose(np.abs(found.components_), np.abs(known.components_), atol=1e-6)
    parts = DecentralizedPCA(0.8, random_state=0).partial_fit(X[:40]).partial_fit(X[40:])
    assert_is_pca(parts, X, 0.8)


def test_fewer_rows_than_agents_and_than_features(X):
    assert_is_pca(DecentralizedPCA(2, random_state=0).fit(X[:4]), X[:4], 2)


def test_sparse_rows_are_never_written_out():
    X = sparse.random_array((80, 7), density=0.3, rng=np.random.default_rng(0), format="csr") @ np.diag(
        [5, 4, 3, 2, 1, 1, 1]
    )
    rows = sparse.csr_array(X)
    rows.toarray = rows.todense = None
    found = DecentralizedPCA(2, random_state=0).fit(rows)
    assert_is_pca(found, sparse.csr_array(X).toarray(), 2, rows=rows)
    assert DecentralizedPCA(2, random_state=0).fit(rows[:5]).converged_  # three agents without rows
    labels = np.arange(80) % 3
    sparsely = DecentralizedOLSRClassifier(random_state=0, tol=1e-8).fit(rows, labels)
    densely = DecentralizedOLSRClassifier(random_state=0, tol=1e-8).fit(sparse.csr_array(X).toarray(), labels)
    assert np.allclose(sparsely.coef_, densely.coef_, atol=1e-5)


@pytest.mark.parametrize(
    "network",
    ["ring", "star", networks.grid(2, 3), networks.link_loss(networks.complete(5), 0.3, seed=1)],
    ids=lambda network: str(network).splitlines()[0],
)
def test_networks_by_name_as_such_and_changing(X, network):
    found = DecentralizedPCA(2, network=network, random_state=0).fit(X)
    assert_is_pca(found, X, 2)


@pytest.mark.parametrize("agents", [1, 2, 3, 5, 60])
def test_the_default_network_is_connected_for_any_number_of_agents(agents):
    for seed in range(3):
        found = DecentralizedPCA(1, n_agents=agents, random_state=seed, tol=1e-3).fit([[1, 0], [-1, 0]] * 9)
        assert found.network_.agents == agents
        assert agents == 1 or found.network_.spectral_gap > 0


def test_lists_of_lists_are_one_table_and_lists_of_tables_are_silos(X):
    one = DecentralizedPCA(2, n_agents=3, random_state=0).fit(X.tolist())
    assert (one.network_.agents, one.n_samples_) == (3, 61)
    silos = DecentralizedPCA(2, random_state=0).fit([X, X])
    assert (silos.network_.agents, silos.n_samples_) == (2, 122)


def test_an_average_costs_what_it_says_and_all_agents_know_it():
    network = networks.ring(7)
    average = Averager(network, destiny.engines.local())
    found = average(lambda i: np.array([i, i**2]))
    assert np.allclose(list(found.by_agent.values()), [3, 13], rtol=1e-14, atol=0)
    assert sorted(found.by_agent) == list(range(7))
    assert average.rounds == 2 * network.depth == 6
    assert average.scalars == 2 * 6 * 2  # two numbers up and down the six links of the tree


def test_random_state_decides_and_parameters_stay(X):
    estimator = DecentralizedPCA(2, network="erdos-renyi", n_agents=12, random_state=3)
    before = estimator.get_params()
    first, again = clone(estimator).fit(X), estimator.fit(X)
    assert np.array_equal(first.components_, again.components_)
    assert estimator.get_params() == before
    other = clone(estimator).set_params(random_state=np.random.RandomState(5)).fit(X)
    assert not np.array_equal(other.network_.edges, first.network_.edges)


def test_a_pipeline_and_names_of_columns(X):
    y = X[:, 1] > X[:, 1].mean()
    pipe = make_pipeline(
        DecentralizedPCA(2, random_state=0), DecentralizedOLSRClassifier(random_state=0)
    ).fit(X, y)
    assert list(pipe[:1].get_feature_names_out()) == ["decentralizedpca0", "decentralizedpca1"]
    reference = make_pipeline(PCA(2), LinearDiscriminantAnalysis()).fit(X, y)
    assert (pipe.predict(X) == reference.predict(X)).mean() > 0.95


def test_too_few_rounds_are_told_with_the_reason(X):
    with pytest.warns(ConvergenceWarning, match="out of rounds: 30 of 30 used") as told:
        found = DecentralizedPCA(2, method="destiny-accelerated", max_rounds=30, random_state=0).fit(X)
    assert told[0].filename == __file__
    assert not found.converged_


@dataclass(frozen=True)
class Interrupted(destiny.DestinyAccelerated):
    """Somebody presses Ctrl-C while it runs."""

    def init(self, X, agents):
        signal.raise_signal(signal.SIGINT)
        return super().init(X, agents)


def test_ctrl_c_reaches_the_caller(X):
    with pytest.raises(KeyboardInterrupt):
        DecentralizedPCA(2, method=Interrupted(), random_state=0).fit(X)


def test_a_method_that_diverges_is_an_error(X):
    wild = destiny.Destiny(1e9, destiny.steps.Constant(10.0))
    with pytest.raises(destiny.DestinyError, match="found no answer: diverged"):
        DecentralizedPCA(2, method=wild, random_state=0).fit(X)


REFUSED = {
    'between 0 and 1, "mle" or None; found 1.5': lambda X: DecentralizedPCA(1.5).fit(X),
    "or None; found 'all'": lambda X: DecentralizedPCA("all").fit(X),  # type: ignore[arg-type]
    "as many rows as features; found 5 rows and 6": lambda X: DecentralizedPCA("mle").fit(X[:5]),
    "found 2001 features and 1100 rows": lambda X: DecentralizedPCA(0.9).fit(np.ones((1100, 2001))),
    'missing="ignore" needs n_components as a whole': lambda X: DecentralizedPCA(0.9, missing="ignore").fit(
        X
    ),
    "privacy needs n_components as a whole number; found 'mle'": lambda X: DecentralizedPCA(
        "mle", privacy=destiny.problems.Privacy(epsilon=1, delta=1e-6, bound=1)
    ).fit(X),
    "from 1 to min.* = 6; found 7": lambda X: DecentralizedPCA(7).fit(X),
    "n_agents must be a whole number of at least 1; found 0": lambda X: DecentralizedPCA(n_agents=0).fit(X),
    "each of the 2 silos; found 3 agents": lambda X: DecentralizedPCA(network=networks.ring(3)).fit([X, X]),
    "network must be a name or one of": lambda X: DecentralizedPCA(network=7).fit(X),  # type: ignore[arg-type]
    "needs the option 'degree'": lambda X: DecentralizedPCA(network="random-regular").fit(X),
    "silo 1: X has 5 features, but": lambda X: DecentralizedPCA().fit([X, X[:, 1:]]),
    "silo 1: Input X contains NaN": lambda X: DecentralizedPCA().fit([X, X * np.nan]),
    "at least 2 rows; found 1": lambda X: DecentralizedPCA().fit([X[:1], X[:0]]),
    "at least 2 classes; found 1": lambda X: DecentralizedOLSRClassifier().fit(X, np.ones(61)),
    "labels of each of the 2 silos, in a list; found 1": lambda X: DecentralizedOLSRClassifier().fit(
        [X, X], [np.ones(61)]
    ),
    "target_scale must be a positive": lambda X: DecentralizedOLSRClassifier(target_scale=0).fit(
        X, X[:, 0] > 1000
    ),
    "found none at any agent": lambda X: DecentralizedSparseDictionary(1).fit([X[:0]]),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_mistakes_are_told_in_a_sentence(sentence, X):
    with pytest.raises((destiny.ProblemError, destiny.SettingsError, destiny.NetworkError), match=sentence):
        REFUSED[sentence](X)


def test_regression_classifies_digits_about_as_well_as_lda():
    X, y = load_digits(return_X_y=True)
    train, test, known, asked = train_test_split(X, y, random_state=0)
    found = DecentralizedOLSRClassifier(random_state=0).fit(train, known)
    assert found.score(test, asked) > LinearDiscriminantAnalysis().fit(train, known).score(test, asked) - 0.02
    assert np.allclose(found.components_ @ found.components_.T, np.eye(9), atol=1e-9)
    assert np.allclose(found.means_, [train[known == c].mean(axis=0) for c in range(10)], atol=1e-9)
    assert np.allclose(found.transform(train), (train - train.mean(axis=0)) @ found.components_.T)


def test_regression_predicts_as_lda_does_in_the_reduced_space(X, rng):
    y = rng.choice(["a", "b", "c"], len(X), p=[0.2, 0.3, 0.5])
    X = X + 3 * (y == "a")[:, None] + 2 * (y == "b")[:, None] * np.eye(6)[1]
    found = DecentralizedOLSRClassifier(random_state=0).fit(np.array_split(X, 4), np.array_split(y, 4))
    inside = LinearDiscriminantAnalysis(solver="lsqr").fit(found.transform(X), y)
    assert (found.predict(X) == inside.predict(found.transform(X))).all()
    assert found.score(X, y) > 0.6


def test_agents_without_rows_or_without_some_classes_take_part(X):
    y = np.repeat([2, 5, 9], [20, 20, 21])
    X = X + y[:, None]
    cuts = [0, 20, 40]  # nobody has two classes, one has none
    found = DecentralizedOLSRClassifier(random_state=0).fit(
        np.split(X, cuts), [np.empty(0), *np.split(y, cuts[1:])]
    )
    assert found.classes_.dtype == y.dtype
    assert found.classes_.tolist() == [2, 5, 9]
    pooled = DecentralizedOLSRClassifier(n_agents=1).fit(X, y)
    assert (found.predict(X) == pooled.predict(X)).mean() > 0.95
    assert np.allclose(found.priors_, [20 / 61, 20 / 61, 21 / 61])


def test_regression_is_a_stationary_point_of_least_squares(X, rng):
    y = rng.integers(0, 2, len(X))
    X = X - 2 * y[:, None]
    found = DecentralizedOLSRClassifier(random_state=0, tol=1e-10, n_agents=3).fit(X, y)
    # One component: (C C^T + nu I) x = C t for a ridge nu, hence x, C C^T x and C t lie in one plane.
    C = X - X.mean(axis=0)
    x = found.components_[0]
    plane = np.linalg.qr(np.column_stack([x, C.T @ (C @ x)]))[0]
    t = C.T @ (y - y.mean())
    assert np.linalg.norm(t - plane @ (plane.T @ t)) < 1e-6 * np.linalg.norm(t)


@pytest.mark.parametrize("p", [1, 4, 8])
def test_rows_along_the_elements_of_a_dictionary_give_them_exactly(p, rng):
    # One code per row: the sum of fourth powers is largest at the elements themselves, and nowhere else.
    Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    rows = np.repeat(Q, 5, axis=0) * rng.standard_normal((40, 1)) * 7
    found = DecentralizedSparseDictionary(p, random_state=0).fit(rows)
    match = np.abs(found.components_ @ Q.T)
    assert np.allclose(match.max(axis=1), 1, rtol=0, atol=1e-6)
    assert len(set(match.argmax(axis=1))) == p
    moments = (found.transform(rows) ** 4).mean(axis=0)
    assert np.allclose(found.fourth_moments_, moments)
    assert (np.diff(moments) <= 0).all()
    if p == 8:
        assert np.allclose(found.inverse_transform(found.transform(rows)), rows)


def test_a_planted_dictionary_is_found_again(rng):
    Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    codes = rng.standard_normal((4000, 8)) * (rng.random((4000, 8)) < 0.1)
    match = np.abs(DecentralizedSparseDictionary(random_state=0).fit(codes @ Q).components_ @ Q.T)
    assert (match.max(axis=1) > 0.98).all()  # as far as 4000 rows tell
    assert len(set(match.argmax(axis=1))) == 8


def test_fit_local_on_ranks_has_the_bits_of_silos_in_one_process(tmp_path):
    mpi = need(MPICH)
    job = mpi.run(mpi.command(3, mpi.bin / "python", "-m", "tests.helpers.estimators_ranks", tmp_path))
    assert (job.code, job.output) == (0, "")
    for name, estimator in ranks.ESTIMATORS.items():
        tables, labels = zip(*(ranks.rows(rank, name) for rank in range(ranks.RANKS)), strict=True)
        weights = [ranks.weights(rank, name) for rank in range(ranks.RANKS)]
        parts = [ranks.views(name, *both) for both in zip(tables, labels, strict=True)]
        X, y = map(list, zip(*parts, strict=True))
        expected = ranks.attributes(estimator.fit(X, y, None if weights[0] is None else weights))
        for rank in range(ranks.RANKS):
            with np.load(tmp_path / f"{name} {rank}.npz") as file:
                assert set(file.files) == set(expected)
                for key, value in expected.items():
                    assert np.array_equal(file[key], value), (name, rank, key)
    for rank in range(ranks.RANKS):
        for number, words in enumerate(
            (
                "number of features is 4 on rank 0 but 3 on rank 1",
                "n_components is 1 on rank 0 but 2 on rank 1",
                'network is "ring" on rank 0 but "complete" on rank 1',
                "shrinkage is 0 on rank 0 but 0.1 on rank 1",
                "fit_intercept is true on rank 0 but false on rank 1",
                "NaN" if rank == 1 else "found a refusal on rank 1",
            )
        ):
            assert words in (tmp_path / f"unlike {number} {rank}.txt").read_text()


def test_fit_local_alone_is_a_network_of_one(X):
    found = DecentralizedPCA(2, random_state=0).fit_local(X)
    assert_is_pca(found, X, 2)
    assert found.n_scalars_ == 0


def test_the_package_does_not_import_scikit_learn_and_says_what_to_install():
    code = (
        "import sys, destiny; assert 'sklearn' not in sys.modules; sys.modules['sklearn'] = None\n"
        "try: destiny.estimators\n"
        "except destiny.MissingExtraError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    how = 'pip install ".[sklearn]" in a checkout of DESTINY'
    assert told == f"destiny.estimators needs scikit-learn: {how}\n"


def test_a_variance_beyond_the_tolerance_is_not_called_converged():
    rng = np.random.default_rng(4)
    table = rng.standard_normal((300, 5)) * [1e6, 1, 0.5, 0.3, 0.4]
    with pytest.warns(ConvergenceWarning, match="of the largest, which a tol of 1e-10 does not see: scale"):
        assert not DecentralizedPCA(2, method="destiny-accelerated", random_state=0).fit(table).converged_
    known = PCA(svd_solver="full").fit(table)
    for components in (2, None):  # nothing is searched for
        whole = DecentralizedPCA(components, random_state=0).fit(table)
        assert whole.converged_
        np.testing.assert_allclose(np.abs(whole.components_[1] @ known.components_[1]), 1, atol=1e-6)


@pytest.mark.parametrize("components", [2, None])
def test_a_variance_hidden_by_rounding_is_not_called_converged(components):
    """Cells per litre beside an age; but data of low rank have nothing to hide."""
    rng = np.random.default_rng(4)
    table = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4))
    with pytest.warns(
        ConvergenceWarning, match="which rounding hides, and columns have very different scales"
    ):
        assert not DecentralizedPCA(components, random_state=0).fit(table * [1, 1, 1e9, 1]).converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = np.column_stack([table[:, 0], table[:, :1] @ [[2.0, 0.5]], np.full(60, 7.3)])
        assert DecentralizedPCA(components, random_state=0).fit(flat).converged_


@pytest.mark.parametrize("factor", [1e-60, 1e30])
def test_numbers_beyond_reason_are_refused(factor):
    rows = np.random.default_rng(0).standard_normal((30, 4)) * factor
    with pytest.raises(destiny.ProblemError, match="multiply all rows of all agents by the same factor"):
        DecentralizedPCA(2).fit(rows)


def test_labels_of_different_types_are_refused():
    rows, labels = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    with pytest.raises(destiny.ProblemError, match="of one type at all agents; found numbers and text"):
        DecentralizedOLSRClassifier().fit([rows[:20], rows[20:]], [labels[:20], labels[20:].astype(str)])


@pytest.mark.parametrize(
    "setting", [{"tol": -1.0}, {"tol": np.nan}, {"tol": "x"}, {"tol": True}, {"max_rounds": 3}]
)
def test_settings_are_checked_under_their_names(setting):
    with pytest.raises(destiny.SettingsError, match=f"^{next(iter(setting))} must be"):
        DecentralizedPCA(2, method="destiny-accelerated", **setting).fit(
            np.random.default_rng(0).standard_normal((30, 4))
        )


def test_what_is_often_given_in_place_of_silos():
    rows = np.random.default_rng(0).standard_normal((30, 4))
    nested = DecentralizedPCA(2, random_state=0).fit([rows[:10].tolist(), rows[10:].tolist()])
    arrays = DecentralizedPCA(2, random_state=0).fit([rows[:10], rows[10:]])
    np.testing.assert_array_equal(nested.components_, arrays.components_)
    for given, told in (
        ({"a": rows}, r"give list\(X.values\(\)\)"),
        (["a.csv", "b.csv"], "the names of files"),
        ([rows, []], "silo 1: Expected 2D array"),
    ):
        with pytest.raises(destiny.ProblemError, match=told):
            DecentralizedPCA(2).fit(given)
