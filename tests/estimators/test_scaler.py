"""`DecentralizedScaler` against scikit-learn's `StandardScaler` on pooled rows."""

import re

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny
from destiny import networks

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

import pandas
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from destiny.estimators import DecentralizedOLSRClassifier, DecentralizedPCA, DecentralizedScaler

WINE = load_wine()
ROWS = np.column_stack([WINE.data, np.full(178, 7.3), 1e5 + WINE.data[:, 0]])  # a constant, and a large mean
SILOS = [ROWS[WINE.target == maker] for maker in range(3)]
POOLED = np.concatenate(SILOS)
GAPS = np.where(np.random.default_rng(0).random(POOLED.shape) < 0.3, np.nan, POOLED)
WEIGHTS = np.random.default_rng(1).integers(0, 4, 178).astype(float)
CUTS = np.cumsum([len(silo) for silo in SILOS])[:-1]


def assert_same(found, expected, rtol=1e-9):
    for name in ("mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"):
        theirs = getattr(expected, name)
        if theirs is None:
            assert getattr(found, name) is None, name
        else:
            np.testing.assert_allclose(getattr(found, name), theirs, rtol=rtol, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    "options", [{}, {"with_mean": False}, {"with_std": False}, {"with_mean": False, "with_std": False}]
)
@pytest.mark.parametrize("rows", [POOLED, GAPS], ids=["whole", "with gaps"])
def test_means_and_deviations_of_pooled_rows(options, rows):
    expected = StandardScaler(**options).fit(rows)
    silos = np.split(rows, CUTS)
    found = DecentralizedScaler(**options).fit(silos)
    assert_same(found, expected)
    scaled = found.transform(silos)
    assert [part.shape for part in scaled] == [silo.shape for silo in SILOS]
    some = np.s_[:, :14]  # the last column loses digits to its mean
    np.testing.assert_allclose(np.concatenate(scaled)[some], expected.transform(rows)[some], atol=1e-9)
    np.testing.assert_allclose(np.concatenate(found.inverse_transform(scaled)), rows, rtol=1e-12)


@pytest.mark.parametrize("rows", [POOLED, GAPS], ids=["whole", "with gaps"])
def test_weights(rows):
    found = DecentralizedScaler().fit(np.split(rows, CUTS), sample_weight=np.split(WEIGHTS, CUTS))
    assert_same(found, StandardScaler().fit(np.repeat(rows, WEIGHTS.astype(int), axis=0)))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_sparse_rows_stay_sparse(weights):
    rows = sparse.random_array((178, 6), density=0.2, rng=np.random.default_rng(0), format="csr") + 0
    rows.data[::7] = np.nan
    expected = StandardScaler(with_mean=False).fit(rows, sample_weight=weights)
    found = DecentralizedScaler(with_mean=False, n_agents=4).fit(rows, sample_weight=weights)
    assert_same(found, expected)
    scaled = found.transform(rows)
    assert sparse.issparse(scaled)
    np.testing.assert_allclose(scaled.toarray(), expected.transform(rows).toarray(), rtol=1e-12)
    np.testing.assert_allclose(found.inverse_transform(scaled).toarray(), rows.toarray(), rtol=1e-12)


@pytest.mark.parametrize(
    "network",
    [networks.path(3), networks.link_loss(networks.complete(3), 0.3, seed=1)],
    ids=["path", "changing"],
)
def test_columns_of_any_scale_are_averaged_to_their_own_accuracy(network):
    silos = [silo * ([1e-8, 1e8] + [1] * 13) for silo in SILOS]
    found = DecentralizedScaler(network=network).fit(silos)
    assert_same(found, StandardScaler().fit(np.concatenate(silos)), rtol=1e-8)


def test_what_it_costs():
    found = DecentralizedScaler(network="complete").fit(SILOS)
    assert found.n_rounds_ == 4
    assert found.n_scalars_ == 4 * (2 * 15 + 15)  # two links, up and down: sums and counts, then squares
    assert DecentralizedScaler(network="complete", with_std=False).fit(SILOS).n_rounds_ == 2


def test_a_pipeline_over_silos_is_that_of_pooled_rows():
    silos = [silo[:, :13] for silo in SILOS]
    labels = [silo[:, 0] > 13 for silo in SILOS]
    pipe = make_pipeline(
        DecentralizedScaler(),
        DecentralizedPCA(2, random_state=0),
        DecentralizedOLSRClassifier(random_state=0),
    ).fit(silos, labels)
    pooled = make_pipeline(StandardScaler(), PCA(2, svd_solver="full")).fit(POOLED[:, :13])
    np.testing.assert_allclose(
        np.concatenate(pipe[:2].transform(silos)), pooled.transform(POOLED[:, :13]), atol=1e-6
    )
    assert pipe.score(silos, labels) > 0.8
    one = make_pipeline(DecentralizedScaler(), DecentralizedPCA(2, random_state=0)).fit(POOLED[:, :13])
    np.testing.assert_allclose(one.transform(POOLED[:, :13]), pooled.transform(POOLED[:, :13]), atol=1e-6)


def test_frames_and_types_are_kept():
    frames = [pandas.DataFrame(silo[:, :3], columns=list("abc")) for silo in SILOS]
    scaled = DecentralizedScaler().set_output(transform="pandas").fit_transform(frames)
    assert [list(frame.columns) for frame in scaled] == [list("abc")] * 3
    single = DecentralizedScaler().fit([silo.astype(np.float32) for silo in SILOS])
    assert single.mean_.dtype == np.float64
    assert single.transform(SILOS[0].astype(np.float32)).dtype == np.float32
    rows = SILOS[0].copy()
    DecentralizedScaler(with_mean=False, with_std=False).fit(rows).transform(rows)[:] = 0
    np.testing.assert_array_equal(rows, SILOS[0])


REFUSED = {
    "sparse rows cannot be centered": lambda: DecentralizedScaler().fit(sparse.csr_array(POOLED)),
    "needs rows with numbers; found none": lambda: DecentralizedScaler().fit([POOLED[:0], POOLED[:0]]),
    "rows must have 15 columns; found 3": lambda: (
        DecentralizedScaler().fit(SILOS).inverse_transform(ROWS[:, :3])
    ),
    "silo 1: X has 3 features": lambda: DecentralizedScaler().fit(SILOS).transform([ROWS, ROWS[:, :3]]),
    "n_agents must be the number of silos": lambda: DecentralizedScaler(n_agents=2).fit(SILOS),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused_in_one_sentence(sentence):
    with pytest.raises((destiny.ProblemError, destiny.SettingsError), match=re.escape(sentence)):
        REFUSED[sentence]()
