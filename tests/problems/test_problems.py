"""Problems: values and gradients against their formulas, on every way the data may be held."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import destiny
from destiny.errors import ProblemError
from destiny.problems import (
    L1,
    OLSR,
    PCA,
    SDL,
    Centered,
    Generalized,
    Privacy,
    Separable,
    batched,
    centered,
    check_gradient,
    olsr,
    pca,
    pooled,
    regularized,
    sdl,
)
from destiny.problems.cached import CachedProblem
from destiny.problems.data.partition import split_rows
from destiny.problems.own_problem import unwrap

SEEDS = range(3)
LAYOUTS = {
    "equal, Gram": [30, 30, 30],
    "equal, products": [8] * 11 + [2],
    "uneven, both": [50, 3, 0, 20, 17],
    "one agent": [90],
}


def make(kind: str, sizes: Any = 4, seed: int = 0, scale: float = 1.0, m: int = 90):
    """A problem of 20 features and its pooled data, samples in columns as in the paper."""
    rng = np.random.default_rng([seed, 1])
    data, targets = rng.standard_normal((20, m)), rng.standard_normal((3, m))
    if kind == "pca":
        return pca.from_data(data.T, 3, sizes, scale), data, targets
    if kind == "olsr":
        return olsr.from_data(data.T, targets.T, sizes, scale), data, targets
    return sdl.from_data(data.T, 3, sizes, scale), data, targets


def formula(kind: str, A: np.ndarray, D: np.ndarray, X: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and gradient of one agent straight from (1.3)-(1.5)."""
    if kind == "pca":
        return -0.5 * np.trace(X.T @ A @ A.T @ X), -A @ A.T @ X
    if kind == "olsr":
        return float(np.linalg.norm(A.T @ X - D.T) ** 2), 2 * A @ (A.T @ X - D.T)
    return -0.25 * np.sum((X.T @ A) ** 4), -A @ (A.T @ X) ** 3


def points(problem, seed: int, agents: int | None = None) -> np.ndarray:
    rng = np.random.default_rng([seed, 2])
    return rng.standard_normal((problem.agents if agents is None else agents, *problem.shape))


@pytest.fixture(params=["pca", "olsr", "sdl"])
def kind(request):
    return request.param


# Values and gradients


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sizes", LAYOUTS.values(), ids=LAYOUTS)
def test_values_and_gradients_follow_the_formula(kind, sizes, seed):
    problem, data, targets = make(kind, sizes, seed, scale=0.5)
    X = points(problem, seed)
    hosted = problem.host(range(problem.agents))
    values, gradients = hosted.value(X), hosted.gradient(X)
    assert values.shape == (len(sizes),)
    assert gradients.shape == X.shape
    ends = np.cumsum(sizes)
    for i, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        part = slice(end - size, end)
        value, gradient = formula(kind, 0.5 * data[:, part], targets[:, part], X[i])
        np.testing.assert_allclose(values[i], value, rtol=1e-11)
        np.testing.assert_allclose(gradients[i], gradient, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("agents", [2, 9])
def test_gradients_have_taylor_slope_two(kind, agents, seed):
    problem, *_ = make(kind, agents, seed)
    check = check_gradient(problem.host(range(agents)), points(problem, seed), seed=seed)
    assert check.ok, check
    assert check.slope == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("agents", [2, 9])
def test_gradients_agree_with_finite_differences(kind, agents):
    problem, *_ = make(kind, agents)
    hosted, X = problem.host([1]), points(problem, 0, agents=1)
    slopes = scipy.optimize.approx_fprime(X.ravel(), lambda x: hosted.value(x.reshape(X.shape))[0], 1e-7)
    size = np.abs(slopes).max()
    np.testing.assert_allclose(hosted.gradient(X).ravel() / size, slopes / size, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_gram_and_products_agree(seed):
    rng = np.random.default_rng(seed)
    C, D, X = rng.standard_normal((12, 30)), rng.standard_normal((2, 30)), rng.standard_normal((1, 12, 2))
    whole = olsr.from_data(C.T, D.T, 1).host([0])  # 30 samples: the Gram matrix
    parts = olsr.from_data(C.T, D.T, 5).host(range(5))  # 6 samples each: products
    np.testing.assert_allclose(parts.gradient(np.repeat(X, 5, 0)).sum(0), whole.gradient(X)[0], rtol=1e-11)
    np.testing.assert_allclose(parts.value(np.repeat(X, 5, 0)).sum(), whole.value(X)[0], rtol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(4, 600_000), (3, 10)])
def test_gram_in_blocks(n, m):
    data = np.random.default_rng(0).standard_normal((n, m)).astype(np.float32)
    X = np.random.default_rng(1).standard_normal((1, n, 2))
    exact = data.astype(np.float64)
    gradient = pca.from_data(data.T, 2, 1).host([0]).gradient(X)[0]
    np.testing.assert_allclose(gradient, -exact @ (exact.T @ X[0]), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int64", "float16", "float32", ">f8"])
@pytest.mark.parametrize("agents", [1, 12])
def test_quadratics_compute_in_float64_whatever_the_data_are(dtype, agents):
    rng = np.random.default_rng(0)
    C, D = (
        rng.integers(0, 2, (5, 36)).astype(dtype),
        olsr.one_hot(rng.integers(0, 3, 36), range(3)).astype(dtype),
    )
    X = rng.standard_normal((1, 5, 3))
    stack, scale = np.repeat(X, agents, 0), 0.1
    value, gradient = formula("olsr", scale * C.astype(float), D.astype(float).T, X[0])
    hosted = olsr.from_data(C.T, D, agents, scale).host(range(agents))
    np.testing.assert_allclose(hosted.value(stack).sum(), value, rtol=1e-13)
    np.testing.assert_allclose(hosted.gradient(stack).sum(0), gradient, rtol=0, atol=1e-13)
    assert hosted.gradient(stack).dtype == np.float64


# Hosting


@pytest.mark.parametrize("sizes", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("p", [1, 3])
def test_an_agents_bits_do_not_depend_on_its_company(kind, sizes, p):
    rng = np.random.default_rng(5)
    data, targets = rng.standard_normal((20, 90)), rng.standard_normal((p, 90))
    make_one = {
        "pca": lambda: pca.from_data(data.T, p, sizes),
        "sdl": lambda: sdl.from_data(data.T, p, sizes),
    }
    problem = make_one.get(kind, lambda: olsr.from_data(data.T, targets.T, sizes))()
    X = points(problem, 0)
    everyone = problem.host(range(problem.agents))
    values, gradients = everyone.value(X), everyone.gradient(X)
    backwards = problem.host(range(problem.agents)[::-1])
    np.testing.assert_array_equal(backwards.gradient(X[::-1])[::-1], gradients)
    np.testing.assert_array_equal(backwards.value(X[::-1])[::-1], values)
    for i in range(problem.agents):
        alone = problem.host([i])
        np.testing.assert_array_equal(alone.gradient(X[i : i + 1])[0], gradients[i])
        np.testing.assert_array_equal(alone.value(X[i : i + 1])[0], values[i])


def test_bits_do_not_depend_on_the_layout_of_x(kind):
    problem, *_ = make(kind, [30, 30, 4, 26])
    hosted, X = problem.host(range(4)), points(problem, 0)
    turned = np.ascontiguousarray(X.transpose(2, 1, 0)).transpose(2, 1, 0)
    np.testing.assert_array_equal(hosted.gradient(turned), hosted.gradient(X))


def test_equal_agents_form_one_group_without_a_copy():
    hosted = pca.synthetic(n=30, m=40, p=2, xi=0.9, agents=4, seed=0).host(range(4))
    assert len(hosted._parts) == 1
    assert hosted._parts[0][1].data.shape == (4, 10, 30)


@pytest.mark.parametrize("agents", [3, [15, 10, 5], [np.arange(0, 30, 3), [1, 4, 7, 2], np.r_[5, 8, 10:30]]])
def test_dealing_out(agents):
    data = np.arange(60.0).reshape(2, 30).T
    if isinstance(agents, list) and not isinstance(agents[0], int):
        agents[2] = np.setdiff1d(np.arange(30), np.concatenate(agents[:2]))
    parts = [source() for source in split_rows(data, agents)]
    assert sorted(np.concatenate(parts)[:, 0]) == list(range(30))
    for source, part in zip(split_rows(data, agents), parts, strict=True):
        assert source.shape == part.shape


@pytest.mark.parametrize(("m", "d"), [(751, 32), (5, 8), (0, 2), (7, 1)])
def test_dealing_out_in_order_is_array_split(m, d):
    data = np.arange(float(m))[:, None]
    for source, part in zip(split_rows(data, d), np.array_split(np.arange(m), d), strict=True):
        np.testing.assert_array_equal(source()[:, 0], part)


def test_empty_and_zero_agents(kind):
    data, targets = np.zeros((6, 9)), np.zeros((2, 9))
    data[:, :4] = np.random.default_rng(0).standard_normal((6, 4))
    sizes = [4, 0, 5]
    problem = (
        olsr.from_data(data.T, targets.T, sizes)
        if kind == "olsr"
        else (pca if kind == "pca" else sdl).from_data(data.T, 2, sizes)
    )
    hosted, X = problem.host([0, 1, 2]), points(problem, 0)
    assert np.linalg.norm(hosted.gradient(X)[0]) > 0
    assert not hosted.gradient(X)[1:].any()
    assert not hosted.value(X)[1:].any()
    assert problem.host([]).gradient(X[:0]).shape == (0, 6, 2)


def test_lazy_silos_are_loaded_only_when_hosted(kind):
    loads: list[int] = []

    def lazy(i: int) -> Callable[[], np.ndarray]:
        def load() -> np.ndarray:
            loads.append(i)
            return np.random.default_rng(i).standard_normal((6, 4 + i)).T

        return load

    silos, targets = [lazy(i) for i in range(3)], [np.ones((2, 4 + i)) for i in range(3)]
    problem = {
        "pca": lambda: PCA(silos, p=2, n=6),
        "olsr": lambda: OLSR(silos, [a.T for a in targets], n=6),
        "sdl": lambda: SDL(silos, p=2, n=6),
    }[kind]()
    assert loads == []
    hosted = problem.host([2])
    assert loads == [2]
    X = points(problem, 0, agents=1)
    value, gradient = formula(kind, np.random.default_rng(2).standard_normal((6, 6)), targets[2], X[0])
    np.testing.assert_allclose(hosted.value(X), [value])
    np.testing.assert_allclose(hosted.gradient(X)[0], gradient, atol=1e-12)
    assert loads == [2]


def test_every_problem_says_what_it_is(kind):
    problem, *_ = make(kind)
    assert problem.kind == kind
    assert problem.agents == 4
    assert problem.shape == (20, 3)
    assert problem.describe().startswith(kind.upper())
    assert "4 agents hold 90 samples of 20 features" in problem.describe()


# Rows and columns swapped


def test_a_problem_says_how_its_tables_are_read():
    problem = PCA([np.ones((20, 12))] * 4, 2)
    assert repr(problem) == "PCA of 4 agents, 80 samples in rows x 12 features, p = 2"
    assert repr(centered(problem)) == repr(problem) + ", centered"
    hidden = pca.private(problem, Privacy(1.0, 1e-3, 1.0, seed=0))
    assert "80" not in repr(hidden)
    assert "20" not in repr(hidden)


def test_tables_that_look_swapped_are_a_note():
    table = np.random.default_rng(0).standard_normal((60, 5))
    right, swapped = ([part.T if turned else part for part in np.split(table, 3)] for turned in (False, True))
    (note,) = PCA(swapped, 2).remarks()
    assert "every agent's table has 5 rows and 20 columns" in note
    network = destiny.networks.complete(3)
    assert note in destiny.solve(PCA(swapped, 2), network).notes
    assert note not in destiny.solve(PCA(right, 2), network).notes
    assert not PCA([swapped[0], swapped[0][:4]], 2).remarks()  # features would be as many everywhere
    assert not PCA(destiny.Silos(swapped), 2).remarks()  # of which rows are samples by definition
    assert not pca.from_data(table, 2, 20).remarks()  # parts of a long table
    assert not pca.private(PCA(swapped, 2), Privacy(1.0, 1e-3, 1.0, seed=0)).remarks()


def test_unwrap_finds_a_problem_within_others():
    plain = pca.synthetic(n=6, m=40, p=2, xi=0.8, agents=4)
    around = centered(plain)
    assert unwrap(CachedProblem(around), Centered) is around
    assert unwrap(CachedProblem(around), PCA) is plain
    assert unwrap(plain + L1(0.1), PCA) is plain
    assert unwrap(batched(plain, 3), PCA) is plain
    assert unwrap(Generalized(plain, [np.eye(6)] * 4), PCA) is plain
    assert unwrap(pooled(plain), PCA) is plain
    assert unwrap(plain, Centered) is None
    assert unwrap(pooled(around), Centered) is None  # its data are centered already
    assert unwrap(plain + plain, PCA) is None  # a sum has several
    with pytest.raises(ProblemError, match=r"centered\(problem\) \+ regularizer"):
        regularized(around, L1(0.1))


# Synthetic data and known answers


@pytest.mark.parametrize("seed", SEEDS)
def test_synthetic_pca_has_the_spectrum_of_the_paper(seed):
    problem = pca.synthetic(n=12, m=50, p=4, xi=0.8, agents=5, seed=seed)
    A = np.concatenate([source() for source in problem.data.sources]).T
    U, singular, _ = np.linalg.svd(A)
    np.testing.assert_allclose(singular, 0.8 ** (np.arange(1, 13) / 2), rtol=1e-12)
    X = pca.solution(problem)
    np.testing.assert_allclose(np.abs(U[:, :4].T @ X), np.eye(4), atol=1e-8)
    np.testing.assert_allclose(X.T @ X, np.eye(4), atol=1e-12)
    assert (np.take_along_axis(X, np.abs(X).argmax(0)[None], 0) > 0).all()


def test_synthetic_pca_is_the_construction_of_section_4_1():
    rng = np.random.default_rng(7)
    U, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    V, _ = np.linalg.qr(rng.standard_normal((8, 5)))
    A = U @ np.diag([0.9 ** (i / 2) for i in range(1, 6)]) @ V.T
    problem = pca.synthetic(n=5, m=8, p=2, xi=0.9, agents=3, seed=7, scale=2.0)
    for source, part in zip(problem.data.sources, np.array_split(A.T, 3), strict=True):
        np.testing.assert_allclose(source(), part, rtol=0, atol=1e-15)
    assert problem.scale == 2.0


@pytest.mark.parametrize("seed", SEEDS)
def test_scale_multiplies_the_data(kind, seed):
    scaled, data, targets = make(kind, 3, seed, scale=3.0)
    by_hand = {
        "pca": lambda: pca.from_data((3.0 * data).T, 3, 3),
        "olsr": lambda: olsr.from_data((3.0 * data).T, targets.T, 3),
        "sdl": lambda: sdl.from_data((3.0 * data).T, 3, 3),
    }[kind]()
    X = points(scaled, seed)
    np.testing.assert_allclose(
        scaled.host(range(3)).gradient(X), by_hand.host(range(3)).gradient(X), rtol=1e-11, atol=1e-9
    )
    if kind == "pca":
        np.testing.assert_allclose(pca.solution(scaled), pca.solution(by_hand), atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("agents", [2, 9])
def test_synthetic_olsr_is_zero_at_the_planted_answer(agents, seed):
    problem = olsr.synthetic(n=10, m=60, p=3, agents=agents, seed=seed)
    X = olsr.planted(10, 3, seed)
    np.testing.assert_allclose(X.T @ X, np.eye(3), atol=1e-13)
    stack = np.repeat(X[None], agents, 0)
    hosted = problem.host(range(agents))
    np.testing.assert_allclose(hosted.value(stack), 0, atol=1e-13)
    np.testing.assert_allclose(hosted.gradient(stack), 0, atol=1e-13)
    noisy = olsr.synthetic(n=10, m=60, p=3, agents=agents, seed=seed, noise=0.1).host(range(agents))
    assert (noisy.value(stack) > 1e-4).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_synthetic_sdl_is_nearly_stationary_at_the_planted_dictionary(seed):
    problem = sdl.synthetic(n=8, m=20_000, p=3, agents=2, seed=seed)
    Q = sdl.planted(8, seed)
    np.testing.assert_allclose(Q.T @ Q, np.eye(8), atol=1e-13)
    hosted = problem.host(range(2))

    def stationarity(X: np.ndarray) -> float:
        G = hosted.gradient(np.repeat(X[None], 2, 0)).mean(0)
        XtG = X.T @ G
        return float(np.linalg.norm(G - X @ (XtG + XtG.T) / 2) / np.linalg.norm(G))

    anywhere = np.linalg.qr(np.random.default_rng([seed, 3]).standard_normal((8, 3)))[0]
    assert stationarity(Q[:, :3]) < 0.1 < stationarity(anywhere)


def test_one_hot():
    np.testing.assert_array_equal(olsr.one_hot([2, 1, 2]), [[0, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(olsr.one_hot([[2.0]], classes=[1, 2, 3]), [[0, 1, 0]])
    with pytest.raises(ProblemError, match=r"one of the classes \[1, 2\]; found 3"):
        olsr.one_hot([1, 3], classes=[1, 2])


# SDL: dtypes, blocks, memory


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few samples, so that little data have many of them."""
    monkeypatch.setattr("destiny.problems.fourth_power.BLOCK", 1024)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("m", [0, 1, 7, 8, 9, 64, 65])
@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ">f4", "uint8", "int16", "bool"])
def test_sdl_in_blocks_and_dtypes(dtype, m, p):
    rng = np.random.default_rng(m)
    images = rng.integers(0, 5, (m, 16)).astype(dtype)
    exact = images.T.astype(np.float64)
    X = rng.standard_normal((1, 16, p))
    value, gradient = formula("sdl", exact / 4, np.empty(0), X[0])
    inexact = images.dtype.kind == "f" and images.dtype.itemsize < 8
    rtol = 1e-5 if inexact else 1e-12
    size = np.abs(gradient).max(initial=0)
    for data in (images.T, np.ascontiguousarray(images.T)):
        hosted = sdl.from_data(data.T, p, 1, scale=0.25).host([0])
        np.testing.assert_allclose(hosted.value(X)[0], value, rtol=rtol)
        np.testing.assert_allclose(hosted.gradient(X)[0], gradient, atol=rtol * size)
    double = sdl.from_data(images, p, 1, scale=0.25, precision="float64").host([0])
    np.testing.assert_allclose(double.gradient(X)[0], gradient, atol=1e-12 * size)
    single = sdl.from_data(images, p, 1, scale=0.25, precision="float32").host([0])
    np.testing.assert_allclose(single.gradient(X)[0], gradient, atol=1e-5 * size)


@pytest.mark.parametrize("magnitude", [1e-15, 1.0, 1e15])
def test_sdl_float32_cubes_neither_overflow_nor_vanish(magnitude):
    rng = np.random.default_rng(0)
    data = (magnitude * rng.standard_normal((16, 40))).astype(np.float32)
    X = rng.standard_normal((1, 16, 2))
    _, gradient = formula("sdl", data.astype(np.float64), np.empty(0), X[0])
    found = sdl.from_data(data.T, 2, 1).host([0]).gradient(X)[0]
    np.testing.assert_allclose(found, gradient, atol=1e-5 * np.abs(gradient).max())


def test_sdl_keeps_images_in_place():
    images = np.random.default_rng(0).integers(0, 256, (50, 12), dtype=np.uint8)
    streams = sdl.from_data(images, 1, 4).host(range(4))._streams
    assert all(np.shares_memory(stream.samples, images) for stream in streams)
    assert all(stream.samples.dtype == np.uint8 for stream in streams)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_sdl_needs_no_large_temporary(dtype):
    images = np.zeros((40_000, 1024), dtype=dtype)
    images[:, ::7] = 1
    X = np.full((4, 1024, 2), 1 / 32)
    tracemalloc.start()
    try:
        hosted = sdl.from_data(images, 2, 4).host(range(4))
        hosted.gradient(X)
        hosted.value(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16e6 < images.nbytes


# Mistakes: one sentence each, with expected, found and what to do


NAN = np.array([[1.0, 2.0, 3.0], [4.0, np.nan, 6.0]]).T
GOOD = np.eye(3, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: PCA([GOOD, np.ones((2, 3))], 1),
            r"agent 1's data must have 2 columns.*are those of this table in columns\?",
        ),
        (lambda: PCA([GOOD, np.ones(3)], 1), r"agent 1's data must be 2-D.*found 1-D of shape \(3,\)"),
        (lambda: PCA(GOOD, 1), r"agent 0's data must be 2-D.*one array per agent"),  # type: ignore[arg-type]
        (lambda: PCA([GOOD * 1j], 1), "agent 0's data must be real numbers; found dtype complex128"),
        (lambda: SDL([GOOD.astype(object)], 1), "agent 0's data must be real numbers; found dtype object"),
        (lambda: PCA([GOOD, NAN], 1), "agent 1's data must be finite; found nan at sample 1, feature 1"),
        (lambda: SDL([-NAN / 0.0], 1), "agent 0's data must be finite; found -inf at sample 0, feature 0"),
        (lambda: PCA([np.ones((3, 0))], 1), r"at least one feature; found shape \(3, 0\)"),
        (lambda: PCA([], 1), "at least one agent; found no data"),
        (lambda: PCA([GOOD], 3), "p must lie between 1 and the number of features n = 2; found 3"),
        (lambda: SDL([GOOD], 0), "p must lie between 1 and the number of features n = 2; found 0"),
        (lambda: PCA([GOOD], 1.5), "p must be a whole number; found 1.5"),  # type: ignore[arg-type]
        (lambda: PCA([GOOD], 1, scale=np.nan), "scale must be a number of at most .* found nan"),
        (
            lambda: SDL([GOOD], 1, precision="half"),  # type: ignore[arg-type]
            "precision must be auto, float32 or float64; found 'half'",
        ),
        (lambda: PCA([lambda: GOOD], 1), "number of columns of the data must be known.*pass it"),
        (
            lambda: PCA([lambda: GOOD], 1, n=5).host([0]),
            r"agent 0's data must have 5 columns.*found shape \(3, 2\)",
        ),
        (lambda: PCA([lambda: NAN], 1, n=2).host([0]), "agent 0's data must be finite; found nan"),
        (lambda: PCA([GOOD], 1).host([1]), "agents are numbered 0 to 0; found 1"),
        (lambda: PCA([GOOD], 1).host([0]).gradient(np.ones((1, 2, 2))), r"\(1, 2, 1\); found \(1, 2, 2\)"),
        (lambda: SDL([GOOD], 1).host([0]).value(np.ones((2, 1))), r"\(1, 2, 1\); found \(2, 1\)"),
        (lambda: OLSR([GOOD], [GOOD, GOOD]), "found data of 1 agents and targets of 2"),
        (
            lambda: OLSR([GOOD], [np.ones((4, 1))]),
            "agent 0 must hold one target per sample; found 3 samples and 4",
        ),
        (
            lambda: OLSR([lambda: GOOD], [np.ones((4, 1))], n=2).host([0]),
            "agent 0 must hold one target per sample; found 3 samples and 4 targets",
        ),
        (lambda: OLSR([GOOD], [NAN]), "agent 0's targets must be finite; found nan"),
        (lambda: OLSR([GOOD], [np.ones((3, 3))]), "p must lie between 1 and .* n = 2; found 3"),
        (lambda: olsr.from_data(GOOD, np.ones((4, 1)), 1), "found 3 samples and 4 targets"),
        (lambda: pca.from_data(np.ones(3), 1, 1), r"the data must be 2-D.*found 1-D of shape \(3,\)"),
        (lambda: pca.from_data(GOOD, 1, 0), "at least one agent; found agents = 0"),
        (lambda: pca.from_data(GOOD, 1, -2), "at least one agent; found agents = -2"),
        (lambda: pca.from_data(GOOD, 1, []), r"at least one agent; found agents = \[\]"),
        (lambda: pca.from_data(GOOD, 1, [1, 1]), r"with sum m = 3; found \[1, 1\]"),
        (lambda: pca.from_data(GOOD, 1, [4, -1]), r"none negative, with sum m = 3; found \[4, -1\]"),
        (lambda: pca.from_data(GOOD, 1, [1.5, 1.5]), r"whole numbers.*found \[1.5, 1.5\]"),
        (lambda: pca.from_data(GOOD, 1, [[0], [1]]), "found sample 2 with 0 agents"),
        (lambda: pca.from_data(GOOD, 1, [[0, 1], [1, 2]]), "found sample 1 with 2 agents"),
        (
            lambda: pca.from_data(GOOD, 1, [[0, 1], [3]]),
            "agent 1's samples must lie between 0 and 2; found 3 to 3",
        ),
        (
            lambda: pca.from_data(GOOD, 1, [[0, 1], [2.0]]),  # type: ignore[arg-type]
            "agent 1's part must be a 1-D array of sample indices",
        ),
        (lambda: pca.synthetic(5, 4, 1, 0.9, 2, 0), "need n <= m; found n = 5 and m = 4"),
        (lambda: sdl.synthetic(5, 4, 1, 2, 0, density=0.0), r"density must lie in \(0, 1\]; found 0.0"),
        (lambda: olsr.synthetic(2, 4, 3, 2, 0), "p must lie between 1 and .* n = 2; found 3"),
        (lambda: Separable([], (2, 1)), "at least one agent; found no objectives"),
        (lambda: Separable([object()], (2, 1)), "agent 0's objective must have.*found object without value"),  # type: ignore[list-item]
    ],
)
def test_mistakes_are_named(call, words):
    with np.errstate(all="ignore"), pytest.raises(ProblemError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_masked_array_is_refused():
    masked = np.ma.masked_greater(np.arange(12.0).reshape(3, 4), 7)
    with pytest.raises(ProblemError, match="found a masked one"):
        PCA([masked], 2)
