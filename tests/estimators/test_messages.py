"""The option `messages` of estimators: private sums, few bits, and where they are refused."""

import inspect

import numpy as np
import pytest

import destiny
from destiny.errors import MismatchError, NetworkError, SettingsError

pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator, clone
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from destiny import estimators
from destiny.engines import Local
from destiny.engines.mixers import Private
from destiny.estimators.averager import Averager
from destiny.extensions.vertical import VerticalPCA, VerticalRidge
from destiny.problems import Privacy

PRIVATE, FEW = Private(), destiny.Quantized(8)
ROWS, TARGET = load_diabetes(return_X_y=True, scaled=False)
SCALED = StandardScaler().fit_transform(ROWS)
PARTS = np.array_split(np.random.default_rng(0).permutation(len(ROWS)), 5)
SILOS, SCALED_SILOS = ([table[part] for part in PARTS] for table in (ROWS, SCALED))
RAISED = [(np.median(TARGET) < TARGET)[part].astype(int) for part in PARTS]
CLASSES = [
    estimator
    for name in estimators.__all__
    if isinstance(estimator := getattr(estimators, name), type) and issubclass(estimator, BaseEstimator)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_estimator_takes_messages_and_refuses_other_things(kind):
    assert inspect.signature(kind).parameters["messages"].default is None
    assert clone(kind(messages=PRIVATE)).messages == PRIVATE
    columns = kind.__name__.startswith("Vertical")
    tables = [ROWS[:, :4], ROWS[:, 4:7], ROWS[:, 7:]] if columns else SCALED_SILOS
    labels = TARGET if columns else SCALED_SILOS if "CCA" in kind.__name__ else RAISED
    with pytest.raises(SettingsError, match=r"messages must be .*; found 'secret'"):
        kind(messages="secret").fit(tables, labels)
    two = ([ROWS[:, :4], ROWS[:, 4:]], TARGET) if columns else (tables[:2], labels[:2])
    with pytest.raises(NetworkError, match=r"need at least 3 agents.*found 2: add a party"):
        kind(messages=PRIVATE).fit(*two)


@pytest.mark.parametrize("messages", [PRIVATE, FEW], ids=str)
def test_pca_is_that_of_pooled_rows(messages):
    ours = estimators.DecentralizedPCA(2, messages=messages, random_state=0).fit(SCALED_SILOS)
    theirs = PCA(2, svd_solver="full").fit(SCALED)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-6)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-8)
    assert ours.converged_
    assert ours.n_samples_ == len(ROWS)
    assert (len(ours.history_) > 0) == messages.few_bits  # averages alone, where they can be


@pytest.mark.parametrize("messages", [PRIVATE, FEW], ids=str)
def test_lda_and_cca_are_those_of_pooled_rows(messages):
    lda = estimators.DecentralizedLDA(messages=messages, random_state=0).fit(SILOS, RAISED)
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(np.concatenate(SILOS), np.concatenate(RAISED))
    np.testing.assert_allclose(lda.predict_proba(ROWS), theirs.predict_proba(ROWS), atol=1e-6)
    views = [silo[:, :4] for silo in SILOS], [silo[:, 4:] for silo in SILOS]
    cca = estimators.DecentralizedCCA(1, messages=messages, random_state=0).fit(*views)
    a, b = CCA(1, max_iter=5000, tol=1e-12).fit_transform(ROWS[:, :4], ROWS[:, 4:])
    assert cca.correlations_[0] == pytest.approx(np.corrcoef(a[:, 0], b[:, 0])[0, 1], abs=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        estimators.DecentralizedOLSRClassifier(random_state=0),
        estimators.DecentralizedSparseDictionary(2, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_messages_do_not_change_what_is_found(estimator):
    plain, private, few = (
        clone(estimator).set_params(messages=m).fit(SCALED_SILOS, RAISED) for m in (None, PRIVATE, FEW)
    )
    np.testing.assert_allclose(private.components_, plain.components_, atol=1e-8)
    np.testing.assert_allclose(few.components_, plain.components_, atol=10 * plain.tol)


@pytest.mark.parametrize("network", ["ring", "complete"])
def test_private_averages_are_totals_of_the_same_bits_at_all_agents(network):
    average = Averager(destiny.networks.build(network, 6), Local(), PRIVATE)
    numbers = np.random.default_rng(1).standard_normal((6, 12, 10))
    found = average(numbers.__getitem__)
    np.testing.assert_allclose(found.common, numbers.mean(axis=0), atol=1e-14)
    assert all(np.array_equal(one, found.common) for one in found.by_agent.values())
    depth = 1 if network == "complete" else 3
    assert average.rounds == 2 * 2 * depth  # sizes first, then the numbers
    assert average.scalars == 2 * 5 * (1 + 6 * (12 + 10) + 1 + 12 * 10)
    average(lambda i: numbers[i, :3, :4])
    assert average.rounds == 3 * 2 * depth  # of a small matrix sizes would take as much as its numbers


def test_entries_keep_their_digits_whatever_the_units_of_rows_and_columns():
    rng = np.random.default_rng(2)
    units = np.outer(np.logspace(-9, 9, 20), np.logspace(9, -9, 30))
    for shape in (np.logspace(-12, 12, 30), np.logspace(-12, 12, 20)[:, None], units):
        numbers = rng.uniform(1, 2, (6, 20, 30)) * shape
        found = Averager(destiny.networks.ring(6), Local(), PRIVATE)(numbers.__getitem__).common
        np.testing.assert_allclose(found, numbers.mean(axis=0), rtol=1e-14)


@pytest.mark.parametrize("noisy", [False, True])
def test_of_matrices_with_noise_nothing_is_told_but_their_sum(noisy):
    network, n = destiny.networks.star(5), 12
    A = np.random.default_rng(3).standard_normal((5, n, n))
    A = A + A.swapaxes(1, 2)
    average = Averager(network, Local(), PRIVATE)
    found = average(A.__getitem__, symmetric=True, noisy=noisy)
    np.testing.assert_allclose(found.common, A.mean(axis=0), atol=1e-14)
    triangle = n * (n + 1) // 2
    words = 1 + 6 * triangle if noisy else (1 + 6 * n) + (1 + triangle)
    assert (average.rounds, average.scalars) == (2 if noisy else 4, 2 * 4 * words)


@pytest.mark.parametrize("messages", [None, PRIVATE], ids=str)
def test_an_answer_that_all_agents_have_is_not_averaged_again(messages):
    network = destiny.networks.star(5)
    pca = estimators.DecentralizedPCA(2, method="averaged-krylov", network=network, messages=messages)
    pca.fit(SCALED_SILOS)
    run, sums = pca.history_["round"][-1], 2 if messages is None else 2 + 1  # means, variances; their sizes
    assert pca.n_rounds_ == run + sums * 2 * network.depth
    np.testing.assert_allclose(pca.components_, PCA(2).fit(SCALED).components_, atol=1e-8)


def test_private_fits_of_many_columns_send_little_more_than_plain_ones():
    rng = np.random.default_rng(4)
    units = 10.0 ** rng.uniform(-6, 6, 60)
    labels = [rng.integers(0, 4, 60) for _ in range(4)]
    tables = [(rng.standard_normal((60, 60)) + np.eye(60)[y]) * units for y in labels]
    for estimator, targets in (
        (estimators.DecentralizedPCA(3), None),
        (estimators.DecentralizedLDA(), labels),
        (estimators.DecentralizedRidge(), labels),
        (estimators.DecentralizedCCA(2), [table[:, :20] / units[:20] for table in tables]),
    ):
        plain, private = (
            clone(estimator).set_params(messages=m, random_state=0).fit(tables, targets)
            for m in (None, PRIVATE)
        )
        assert private.n_scalars_ < 2 * plain.n_scalars_  # and not 6 times as many
    plain, private = (estimators.DecentralizedLDA(messages=m).fit(tables, labels) for m in (None, PRIVATE))
    np.testing.assert_allclose(private.means_, plain.means_, rtol=1e-12)
    np.testing.assert_allclose(
        private.scalings_ * units[:, None], plain.scalings_ * units[:, None], atol=1e-10
    )


def test_a_scaler_refuses_columns_too_small_for_private_sums():
    rng = np.random.default_rng(3)
    tables = [rng.standard_normal((20, 3)) * [1, 1e-28, 1] + [0, 0, 1e-6] for _ in range(4)]
    np.testing.assert_allclose(
        estimators.DecentralizedScaler().fit(tables).scale_, np.concatenate(tables).std(axis=0)
    )
    with pytest.raises(destiny.PrivacyError, match="that of column 1 is smaller: multiply"):
        estimators.DecentralizedScaler(messages=PRIVATE).fit(tables)
    constant = [np.c_[table[:, :1], np.full((20, 2), [1e-6, 1e-30])] for table in tables]
    assert (estimators.DecentralizedScaler(messages=PRIVATE).fit(constant).scale_[1:] == 1).all()


def test_a_regularizer_has_no_private_method():
    with pytest.raises(MismatchError, match=r"which destiny-prox does not use: .* or leave private out"):
        estimators.DecentralizedSparsePCA(2, messages=PRIVATE).fit(SCALED_SILOS)


@pytest.mark.parametrize("network", ["star", "path"])
def test_agents_with_one_neighbor_are_hidden_too(network):
    ours = estimators.DecentralizedPCA(2, messages=PRIVATE, network=network).fit(SCALED_SILOS)
    np.testing.assert_allclose(ours.components_, PCA(2).fit(SCALED).components_, atol=1e-9)


def test_columns_in_very_different_units_keep_their_digits():
    factors = np.logspace(-12, 12, ROWS.shape[1])
    scaler = estimators.DecentralizedScaler(messages=PRIVATE).fit([silo * factors for silo in SILOS])
    theirs = StandardScaler().fit(ROWS * factors)
    np.testing.assert_allclose(scaler.mean_, theirs.mean_, rtol=1e-12)
    np.testing.assert_allclose(scaler.scale_, theirs.scale_, rtol=1e-12)
    assert scaler.n_samples_seen_ == len(ROWS)
    rows = [np.where(np.arange(10) == 3, np.nan, silo * factors) for silo in SILOS[:2]] + SILOS[2:]
    filled = estimators.DecentralizedImputer(messages=PRIVATE).fit(rows)
    np.testing.assert_allclose(filled.statistics_, np.nanmean(np.concatenate(rows), axis=0), rtol=1e-12)
    tables = [silo * factors for silo in SILOS]
    views = [table[:, :4] for table in tables], [table[:, 4:] for table in tables]
    plain, private = (estimators.DecentralizedCCA(1, messages=m).fit(*views) for m in (None, PRIVATE))
    np.testing.assert_allclose(private.x_rotations_, plain.x_rotations_, rtol=1e-9)
    pca = estimators.DecentralizedPCA(1, messages=PRIVATE).fit([silo * factors for silo in SILOS])
    assert pca.n_samples_ == len(ROWS)
    np.testing.assert_allclose(pca.mean_, (ROWS * factors).mean(axis=0), rtol=1e-12)


def test_columns_split_over_parties():
    parties = np.split(ROWS, [4, 7], axis=1)
    ridge = VerticalRidge(alpha=2.0, messages=PRIVATE).fit(parties, TARGET)
    theirs = Ridge(alpha=2.0).fit(ROWS, TARGET)
    np.testing.assert_allclose(ridge.coef_, theirs.coef_, rtol=1e-7)
    np.testing.assert_allclose(ridge.predict(parties), theirs.predict(ROWS), rtol=1e-9)
    for messages in (PRIVATE, FEW):
        pca = VerticalPCA(2, messages=messages, random_state=0).fit(np.split(SCALED, [4, 7], axis=1))
        np.testing.assert_allclose(pca.components_, PCA(2).fit(SCALED).components_, atol=1e-6)
        assert pca.n_rounds_ < 100 or messages.few_bits  # products with few vectors, averaged exactly


@pytest.mark.parametrize(
    ("fit", "why"),
    [
        (lambda: estimators.DecentralizedScaler(messages=FEW).fit(SILOS), "only averages, in numbers of 64"),
        (lambda: estimators.DecentralizedImputer(messages=FEW).fit(SILOS), "only averages, in numbers of 64"),
        (lambda: estimators.DecentralizedRidge(messages=FEW).fit(SILOS, RAISED), "only averages"),
        (lambda: VerticalRidge(messages=FEW).fit([ROWS, SCALED], TARGET), "only averages"),
        (lambda: estimators.DecentralizedPCA(messages=FEW).fit(SILOS), "below n_features"),
        (lambda: estimators.DecentralizedPCA(0.9, messages=FEW).fit(SILOS), "below n_features"),
    ],
)
def test_few_bits_are_refused_where_there_is_no_run(fit, why):
    with pytest.raises(SettingsError, match=why):
        fit()


def test_noise_added_together_needs_private_messages():
    privacy = Privacy(epsilon=1e9, delta=1e-6, bound=3e3, mean_bound=3e3, noise="together", seed=0)
    cancer = load_breast_cancer().data[:, :4]
    plain = estimators.DecentralizedPCA(1, network="complete", random_state=0, privacy=privacy)
    with pytest.raises(SettingsError, match="needs private messages"):
        plain.fit(cancer)
    private = plain.set_params(messages=PRIVATE).fit(cancer)
    np.testing.assert_allclose(private.components_, PCA(1).fit(cancer).components_, atol=1e-3)
