"""Large data: blocks of rows give the results of arrays, sparse data stay sparse, memory stays small.

Blocks are made tiny here, so that small data take the paths of large ones.
"""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sparse

import destiny
from destiny.problems import OLSR, PCA, Privacy, centered, pca, pooled
from destiny.problems.data import row_blocks, rows

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA as PooledPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from destiny.estimators import (
    DecentralizedImputer,
    DecentralizedOLSRClassifier,
    DecentralizedPCA,
    DecentralizedScaler,
    DecentralizedSparseDictionary,
    DecentralizedSparsePCA,
)

WINE = StandardScaler().fit_transform(load_wine().data) + 3
LABELS = load_wine().target
ORDER = np.random.default_rng(0).permutation(178)
CUTS = [70, 120]
SILOS = np.split(WINE[ORDER], CUTS)
Y = np.split(LABELS[ORDER], CUTS)


@pytest.fixture
def tiny_blocks(monkeypatch):
    """17 rows of wine in a block, and no centered copy of anything."""
    monkeypatch.setattr(row_blocks, "BLOCK", 17 * 13)
    monkeypatch.setattr(rows, "LARGE", 0)


def files_of(folder, tables, dtype=np.float64):
    for k, table in enumerate(tables):
        np.save(folder / f"{k}.npy", table.astype(dtype))
    return destiny.Silos([folder / f"{k}.npy" for k in range(len(tables))])


def thin(tables):
    """Sparse tables: what is small is zero."""
    return [sparse.csr_array(np.where(np.abs(table - 3) < 0.7, 0.0, table)) for table in tables]


ESTIMATORS = [
    DecentralizedPCA(n_components=2, random_state=0),
    DecentralizedPCA(random_state=0),
    DecentralizedSparsePCA(n_components=2, alpha=0.05, random_state=0),
    DecentralizedOLSRClassifier(random_state=0, tol=1e-7),
    DecentralizedScaler(with_mean=False, random_state=0),
]


@pytest.mark.parametrize("kind", ["array", "file", "sparse", "weighted"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_blocks_give_the_answer_of_arrays(estimator, kind, tmp_path, monkeypatch):
    tables = thin(SILOS) if kind == "sparse" else SILOS
    weights = [np.arange(len(y)) % 3 + 0.5 for y in Y] if kind == "weighted" else None
    dense = [table.toarray() for table in tables] if kind == "sparse" else SILOS
    expected = clone(estimator).fit(dense, Y, weights)
    monkeypatch.setattr(row_blocks, "BLOCK", 17 * 13)
    monkeypatch.setattr(rows, "LARGE", 0)
    silos = files_of(tmp_path, SILOS) if kind == "file" else destiny.Silos(tables)
    found = clone(estimator).fit(silos, Y, weights)
    for name in ("components_", "mean_", "scale_", "coef_", "explained_variance_", "noise_variance_"):
        if getattr(expected, name, None) is not None:
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-6, err_msg=name)


def test_a_pipeline_over_files_keeps_nothing(tiny_blocks, tmp_path):
    silos = files_of(tmp_path, SILOS)
    pipe = make_pipeline(
        DecentralizedImputer(), DecentralizedScaler(), DecentralizedPCA(n_components=2, random_state=0)
    )
    codes = pipe.fit(silos).transform(silos)
    scaled = pipe[:-1].transform(silos)
    assert all(isinstance(part, rows.MappedRows) for part in scaled)
    theirs = make_pipeline(StandardScaler(), PooledPCA(2)).fit(np.concatenate(SILOS))
    np.testing.assert_allclose(
        np.concatenate([part[:] for part in codes]), theirs.transform(np.concatenate(SILOS)), atol=1e-7
    )
    np.testing.assert_allclose(scaled[0][3:5], theirs[0].transform(SILOS[0][3:5]), atol=1e-12)
    model = DecentralizedOLSRClassifier(random_state=0).fit(scaled, Y)
    assert model.score(scaled, Y) > 0.95
    assert [len(part) for part in model.predict(scaled)] == [70, 50, 58]


def test_whole_numbers_and_single_precision_are_computed_in_double(tiny_blocks, tmp_path):
    digits, _ = load_digits(return_X_y=True)
    tables = np.split(digits[:, 10:40], [500, 900])
    theirs = PooledPCA(3, svd_solver="full").fit(digits[:, 10:40])
    for dtype in (np.uint8, np.float32):
        found = DecentralizedPCA(n_components=3, random_state=0).fit(files_of(tmp_path, tables, dtype))
        np.testing.assert_allclose(found.components_, theirs.components_, atol=1e-6)
        assert found.components_.dtype == (np.float32 if dtype == np.float32 else np.float64)
        np.testing.assert_allclose(found.explained_variance_, theirs.explained_variance_, rtol=1e-6)
    dictionary = DecentralizedSparseDictionary(2, random_state=0, tol=1e-4).fit(
        files_of(tmp_path, tables, np.uint8)
    )
    same = DecentralizedSparseDictionary(2, random_state=0, tol=1e-4).fit(tables)
    np.testing.assert_allclose(dictionary.components_, same.components_, atol=1e-6)


def test_sparse_rows_are_never_written_out(monkeypatch):
    """Nothing but blocks of rows becomes dense, on the way to any fitted attribute or transformed row."""
    monkeypatch.setattr(row_blocks, "BLOCK", 40 * 13)
    toarray = sparse.csr_array.toarray

    def small_only(self, *arguments, **options):
        assert self.shape[0] <= 40, self.shape
        return toarray(self, *arguments, **options)

    tables = thin(SILOS)
    dense = [table.toarray() for table in tables]
    monkeypatch.setattr(sparse.csr_array, "toarray", small_only)
    monkeypatch.setattr(sparse.csr_array, "todense", small_only)
    silos = destiny.Silos(tables)
    privacy = Privacy(epsilon=50, delta=1e-6, bound=20.0, seed=0)
    for estimator in (*ESTIMATORS, DecentralizedImputer(), DecentralizedPCA(2, privacy=privacy)):
        rough = {"tol": 1e-6} if "tol" in estimator.get_params() else {}
        clone(estimator).set_params(**rough).fit(silos, Y)
    found = DecentralizedPCA(n_components=2, random_state=0).fit(silos)
    theirs = PooledPCA(2).fit(np.concatenate(dense))
    np.testing.assert_allclose(found.components_, theirs.components_, atol=1e-7)
    np.testing.assert_allclose(
        np.concatenate(list(found.transform(silos))), theirs.transform(np.concatenate(dense)), atol=1e-6
    )
    assert found.score(silos) == pytest.approx(theirs.score(np.concatenate(dense)))
    pca.solution(PCA(silos, 2))


@pytest.mark.parametrize("wrap", [lambda p: p, centered, lambda p: centered(p, standardize=True)])
@pytest.mark.parametrize("kind", ["sparse", "large"])
def test_problems_of_blocks_are_those_of_matrices(wrap, kind, monkeypatch):
    tables = thin(SILOS) if kind == "sparse" else SILOS
    matrices = [table.toarray() if kind == "sparse" else table for table in tables]
    targets = [np.eye(3)[y] for y in Y]
    X = np.linalg.qr(np.random.default_rng(0).standard_normal((13, 3)))[0]
    stack, everyone = np.stack([X] * 3), range(3)

    def evaluate(data):
        found = []
        for problem in (PCA(data, 3, scale=0.5), OLSR(data, targets, scale=0.5)):
            wrapped = wrap(problem)
            ready = wrapped.pooled() if wrapped is not problem else wrapped
            hosted = ready.host(everyone)
            found += [hosted.value(stack), hosted.gradient(stack), hosted.hessian()]
            found.append(pooled(ready).host([0]).gradient(X[None]))
            if isinstance(ready, PCA):
                found += [ready.variance(1), ready.second_moments(0)]
                found.append(ready.portrait({"a": X})["spectrum"]["found"]["a"])
            else:
                found.append(ready.portrait({"a": X}).get("points", {}).get("class", [0]))
        return found

    expected = evaluate(matrices)
    monkeypatch.setattr(row_blocks, "BLOCK", 17 * 13)
    monkeypatch.setattr(rows, "LARGE", 0)
    for one, other in zip(
        evaluate(matrices if kind == "large" else tables),
        expected,
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_sparse_problems_are_solved():
    rng = np.random.default_rng(1)
    matrices = [sparse.random_array((m, 30), density=0.2, format="csc", rng=rng) for m in (50, 20, 0, 70)]
    problem = centered(PCA(matrices, 3))
    result = destiny.solve(problem, destiny.networks.ring(4), tolerance=1e-9)
    theirs = PooledPCA(3).fit(np.concatenate([matrix.toarray() for matrix in matrices]))
    assert destiny.stiefel.subspace_distance(result.X, theirs.components_.T) < 1e-7
    with pytest.raises(destiny.ProblemError, match="must be dense; found a sparse matrix"):
        destiny.problems.SDL(matrices, 2)
    with pytest.raises(destiny.ProblemError, match="targets must be dense"):
        OLSR(matrices, matrices)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["float32", "sparse"])
def test_memory(kind, monkeypatch):
    """A fit takes less than half as much as the data on top of them; 1.5 in all."""
    monkeypatch.setattr(row_blocks, "BLOCK", 2**13)
    monkeypatch.setattr(rows, "LARGE", 2**12)
    rng = np.random.default_rng(0)
    if kind == "float32":
        tables = [
            rng.standard_normal((20_000, 30), dtype=np.float32) * np.arange(1, 31, dtype=np.float32)
            for _ in range(2)
        ]
        size = sum(table.nbytes for table in tables)
    else:
        tables = [
            sparse.random_array((8_000, 60), density=0.2, format="csr", rng=rng, dtype=np.float32)
            for _ in range(2)
        ]
        size = sum(table.data.nbytes + table.indices.nbytes + table.indptr.nbytes for table in tables)
    silos = destiny.Silos(tables)
    estimator = DecentralizedPCA(n_components=2, network="complete", random_state=0, max_rounds=20)
    estimator.fit(silos)  # whatever is imported or kept for good is there now
    tracemalloc.start()
    estimator.fit(silos)
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert extra < 0.5 * size


def test_rows_agree_with_the_matrix(monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK", 40)
    rng = np.random.default_rng(0)
    A = sparse.random_array((50, 7), density=0.3, format="csr", rng=rng)
    mean, scale, weights = rng.standard_normal(7), rng.random(7) + 0.5, rng.random(50)
    X, T = rng.standard_normal((7, 2)), rng.standard_normal((50, 2))
    D = 0.5 * np.sqrt(weights)[:, None] * ((A.toarray() - mean) / scale)
    twice = sparse.csr_array((np.repeat(A.data / 2, 2), np.repeat(A.indices, 2), 2 * A.indptr), shape=A.shape)
    for table in (A, twice, A.toarray()):
        C = rows.Rows(table, mean, scale, weights, 0.5)
        np.testing.assert_allclose(C.gram(), D.T @ D)
        np.testing.assert_allclose(C.gram(X), (D @ X).T @ (D @ X))
        np.testing.assert_allclose(C.squared_norm(), np.sum(D**2))
        np.testing.assert_allclose(C.sums(), D.sum(axis=0), atol=1e-13)
        np.testing.assert_allclose(C.weighted_sums(), np.sqrt(weights) @ D, atol=1e-13)
        np.testing.assert_allclose(C.magnitudes(), np.abs(D).sum(axis=0))
        np.testing.assert_allclose(C.squares(), np.square(D).sum(axis=0))
        np.testing.assert_allclose(C.array(), D)
        np.testing.assert_allclose(C[10:20], D[10:20])
        np.testing.assert_allclose(C.take(np.array([3, 1])).times(X), D[[3, 1]] @ X)
        np.testing.assert_allclose(C.t_times(T), D.T @ T, atol=1e-13)
        np.testing.assert_allclose(C.value(X, T), np.sum((D @ X - T) ** 2))
        np.testing.assert_allclose(C.gradient(X, T), D.T @ (D @ X - T))
