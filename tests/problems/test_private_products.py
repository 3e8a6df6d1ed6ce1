"""Private PCA of many columns: sensitivity, composition, noise, the fitted matrix, audits that can fail."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import destiny
from destiny.problems import Privacy, centered, integer_sums, low_rank, pca
from destiny.problems.data.partition import Shift
from destiny.problems.data.rows import Rows
from destiny.problems.gaussian_mechanism import noise_ratio
from destiny.problems.integer_sums import FINE, Grid
from destiny.problems.low_rank import LowRank
from destiny.problems.pca import PrivatePCA
from destiny.problems.private_products import LARGEST_SQUARE, RANDOM, STEPS, PrivateProductsPCA
from destiny.problems.rounded_normal import rounded_normal
from tests.helpers.bit_audit import (
    TRIES,
    finds_out,
    most_guesses,
    noise_of_floats,
    possible_in_floats,
    two_tables,
)

GRID = Grid.of(2.0, 4.0, 1, 2, 0.5, short=True)


def vectors(rng, n, k):
    return np.rint(np.linalg.qr(rng.standard_normal((n, k)))[0] * 2.0**FINE).astype(np.int64)


def hidden(tables, p=1, **changes):
    return PrivateProductsPCA(
        pca.PCA(tables, p), Privacy(**{"epsilon": 1.0, "delta": 1e-6, "bound": 2.0, "seed": 0, **changes})
    )


# What one row can change


@pytest.mark.parametrize("most", [GRID.length // 2, GRID.length])
@pytest.mark.parametrize("factor", [1, 1000])
def test_one_row_more_changes_a_product_by_that_row_alone(rng, most, factor):
    """In whole numbers of Python: by z w^T, of norm at most length times most, whatever the vectors are."""
    A, Q = rng.standard_normal((700, 30)) * 0.7, factor * vectors(rng, 30, 4)
    whole = GRID.products(Rows(A), Q, most)
    for row in (0, 123, 699):
        z = GRID.round(A[row : row + 1].T)
        change = (whole - GRID.products(Rows(np.delete(A, row, axis=0)), Q, most)).astype(object)
        assert np.array_equal(change, GRID.products(Rows(A[row : row + 1]), Q, most))
        assert 0 < np.square(change).sum() <= (GRID.length * most) ** 2
        assert np.linalg.matrix_rank(change.astype(float)) == 1
        w = (Q.T.astype(object) @ z.astype(object))[:, 0] / 2**FINE
        scale = min(1.0, (most - 3) / math.sqrt(sum(float(v) ** 2 for v in w)))
        assert np.allclose(
            change.astype(float), scale * np.outer(z[:, 0], w).astype(float), atol=3 * GRID.length
        )


def test_a_row_within_the_vectors_changes_a_product_by_as_much_as_is_allowed():
    """The bound b^2 for orthonormal vectors and no shortening cannot be smaller."""
    Q = (np.eye(5, 2) * 2**FINE).astype(np.int64)
    change = GRID.products(Rows(2.0 * np.eye(5)[:1]), Q, GRID.length)
    assert np.linalg.norm(change) == pytest.approx(GRID.length**2, rel=1e-3)


def test_products_without_shortening_are_those_of_the_rows(rng):
    A, Q = rng.standard_normal((300, 20)) * 0.2, vectors(rng, 20, 3)
    exact = A.T @ A @ Q / 2.0**FINE
    assert np.allclose(
        GRID.products(Rows(A), Q, GRID.length) * GRID.unit**2, exact, atol=1e-3 * np.abs(exact).max()
    )
    assert GRID.squares(Rows(A))[0] * GRID.unit**2 == pytest.approx(np.sum(A**2), rel=1e-3)


def test_vectors_and_rows_that_exact_sums_cannot_hold_are_refused(rng, monkeypatch):
    with pytest.raises(destiny.ProblemError, match="vectors must have a norm of about 1"):
        GRID.products(Rows(rng.standard_normal((3, 4))), np.full((4, 2), 2**40), 100)
    monkeypatch.setattr(integer_sums, "SHORT_LARGEST", 3 * GRID.length**2)
    with pytest.raises(destiny.ProblemError, match="at most 3 samples at one agent; found 4: divide them"):
        GRID.products(Rows(np.ones((4, 2))), vectors(rng, 2, 1), GRID.length)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1, 30])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("noise", ["alone", "together"])
def test_all_releases_together_are_one_gaussian_mechanism(epsilon, center, noise):
    """In exact arithmetic: squared sensitivities over variances add up to 1/r^2, or hardly less."""
    agents, n = 5, 2000
    problem = PrivateProductsPCA(
        pca.PCA([np.zeros((1, n))] * agents, 3), Privacy(epsilon, 1e-6, 3.0, noise, mean_share=0.1)
    )
    if center:
        problem = problem.with_shifts({0: Shift(np.zeros(n), np.ones(n))})
    spent = Fraction(0)
    for step in range(STEPS):
        grid = problem.grid(step)
        most = int(problem._projected(step) * grid.length)
        spent += Fraction(grid.length * most) ** 2 / Fraction(4) ** grid.bits
        assert 2**grid.bits >= 16 * math.sqrt(agents)
        assert grid.bits <= 44
    trace = problem._trace_grid
    spent += Fraction(trace.length) ** 4 / Fraction(4) ** trace.bits
    if center:
        sums, weight = problem.privacy.grid_of_sums(agents, n)
        spent += Fraction(sums.length**2 + weight**2) / Fraction(4) ** sums.bits
    allowed = Fraction(noise_ratio(epsilon, 1e-6)) ** -2 * (agents if noise == "together" else 1)
    assert 0.998 * allowed <= spent <= allowed


def test_projections_on_random_vectors_are_hardly_ever_shortened():
    """|Q^T z|^2 / |z|^2 has a beta distribution for every row; four times its mean is far out."""
    for n, k in ((1001, 48), (3072, 60), (100_000, 120)):
        assert scipy.stats.beta.sf(RANDOM**2 * k / n, k / 2, (n - k) / 2) < 1e-12


# Noise and the numbers that travel


@pytest.mark.parametrize("noise", ["alone", "together"])
def test_the_noise_has_the_scale_of_the_formula(rng, noise):
    problem = hidden([np.zeros((3, 200))] * 4, noise=noise)
    Q = vectors(rng, 200, 48)
    for step, projected in ((0, 2 * math.sqrt(48 / 200)), (1, math.sqrt(0.5))):
        told = np.stack([problem.release(i, step, Q)[: Q.size] for i in range(4)])
        assert np.array_equal(told % 1, np.full(told.shape, 0.5))  # whole numbers and 1/2, to the bit
        ratio = noise_ratio(1.0, 1e-6) * math.sqrt(STEPS / 0.99) / (1 if noise == "alone" else 2)
        scaled = told * problem.grid(step).unit ** 2 / (ratio * projected * 4.0)
        assert scipy.stats.kstest(scaled.ravel(), "norm").pvalue > 1e-3
    assert np.array_equal(told[0], problem.release(0, 1, Q)[: Q.size])  # nothing to average
    other = problem.release(0, 1, Q[:, ::-1].copy())[: Q.size]
    assert abs(np.corrcoef(told[0], other)[0, 1]) < 0.1
    assert abs(np.corrcoef(told[0], told[1])[0, 1]) < 0.1


def test_a_secret_is_for_one_run(tmp_path, rng):
    def problem(seed):
        A = np.random.default_rng(seed).standard_normal((30, 60))
        return hidden([A], seed=None, secret=str(tmp_path / "noise.key"))

    first = problem(0).matrix
    assert np.array_equal(first.L, problem(0).matrix.L)
    with pytest.raises(destiny.ProblemError, match="data or settings are not those of the first run"):
        _ = problem(1).matrix


# The fitted matrix


def test_the_fit_is_the_minimizer(rng):
    """Against SciPy's solution of the Sylvester equation, n x n."""
    n, k = 25, 4
    Q = [np.linalg.qr(rng.standard_normal((n, k)))[0] for _ in range(3)]
    Q[2] = np.linalg.qr(Q[1] + 0.05 * rng.standard_normal((n, k)))[0]
    Y = [rng.standard_normal((n, k)) + np.diag(np.arange(n, 0, -1.0)) @ q for q in Q]
    M = sum(q @ q.T for q in Q) + low_rank.RIDGE * np.eye(n)
    B = sum(y @ q.T for q, y in zip(Q, Y, strict=True))
    values, axes = np.linalg.eigh(scipy.linalg.solve_sylvester(M, M, B + B.T))
    fitted = LowRank.fit(Q, Y, k)
    assert np.allclose(np.abs(np.sum(fitted.L * axes[:, ::-1][:, :k], axis=0)), 1)
    seen = np.maximum(np.sum(fitted.L * ((M - low_rank.RIDGE * np.eye(n)) @ fitted.L), axis=0), 1)
    assert np.allclose(fitted.values, values[::-1][:k] * (1 + low_rank.RIDGE / seen))


def test_next_to_no_noise_gives_the_axes_of_the_data(rng):
    U = np.linalg.qr(rng.standard_normal((150, 3)))[0]
    A = rng.standard_normal((4000, 3)) * [3.0, 2.0, 1.0] @ U.T
    problem = hidden(np.array_split(A, 4), p=3, epsilon=1e7, bound=40.0)
    exact = np.linalg.svd(A, full_matrices=False)[2][:3].T
    X, C = problem.matrix.L[:, :3], A.T @ A / 4
    assert np.allclose(X @ X.T, exact @ exact.T, atol=2e-3)
    assert problem.matrix.values[:3] == pytest.approx(np.linalg.eigvalsh(C)[::-1][:3], rel=1e-2)
    assert problem.variance(0) == pytest.approx(np.trace(C), rel=1e-2)
    result = destiny.solve(problem, destiny.networks.ring(4))
    assert result.converged
    assert np.allclose(result.X @ result.X.T, X @ X.T, atol=1e-6)


def test_products_are_about_as_good_as_matrices(rng):
    A = rng.standard_normal((12_000, 300)) * np.arange(1, 301) ** -0.7
    A /= np.linalg.norm(A, axis=1).mean()
    C = A.T @ A
    best, shares = np.linalg.eigvalsh(C)[-3:].sum(), {}
    for kind in (PrivatePCA, PrivateProductsPCA):
        problem = kind(pca.from_data(A, 3, 2), Privacy(1.0, 1e-6, 1.2, seed=0))
        X = pca.solution(problem)
        shares[kind] = np.trace(X.T @ C @ X) / best
    assert shares[PrivatePCA] > 0.98
    assert shares[PrivateProductsPCA] > shares[PrivatePCA] - 0.01


def test_variances_of_noise_alone_are_below_the_edge():
    problem = hidden([np.zeros((1, 400))] * 3, p=4)
    assert 0.3 * problem.noise_edge < problem.matrix.values[0] < problem.noise_edge
    result = destiny.solve(problem, destiny.networks.ring(3), rounds=100)
    assert any(note.startswith("4 of 4 axes have no more variance than the noise") for note in result.notes)


def test_noise_for_which_no_units_are_left_is_refused():
    with pytest.raises(destiny.ProblemError, match=r"noise must be at most .* use a larger epsilon or delta"):
        _ = hidden([np.eye(60)], epsilon=1e-12, delta=1e-12).matrix


def test_many_columns_are_chosen_for_products():
    def made(n, p=1):
        return type(pca.private(pca.PCA([np.zeros((2, n))], p), Privacy(1, 1e-6, 1)))

    assert (made(LARGEST_SQUARE), made(LARGEST_SQUARE + 1)) == (PrivatePCA, PrivateProductsPCA)
    assert (made(2400, 200), made(2401, 200)) == (PrivatePCA, PrivateProductsPCA)
    assert "T = 4 products, with 48 vectors and then 5" in hidden([np.zeros((2, 90))]).describe()


# Audits: somebody who knows the code and all rows but one sees all that an agent tells


@pytest.fixture
def noise_at_once(monkeypatch):
    """All noise of an audit in one draw for each standard deviation: the same law, and faster."""
    drawn: dict[int, np.ndarray] = {}
    used: dict[int, int] = {}

    def some(_: bytes, count: int, bits: int) -> np.ndarray:
        if bits not in drawn:
            drawn[bits], used[bits] = rounded_normal(b"audit", 260 * TRIES, bits), 0
        used[bits] += count
        numbers = drawn[bits][used[bits] - count : used[bits]]
        assert len(numbers) == count
        return numbers

    monkeypatch.setattr(destiny.problems.privacy, "rounded_normal", some)


def transcript(problem):
    """Vectors and what was told of them, in each step."""
    told = []

    def total(part):
        told.append(part(0))
        return told[-1]

    asked, release = [], problem.release
    problem.release = lambda agent, step, Q: (asked.append(Q), release(agent, step, Q))[1]
    problem.find(total)
    del problem.release
    return list(zip(asked, told, strict=True))


def sums_of(problem, A, step, Q):
    grid = problem.grid(step)
    exact = grid.products(Rows(A), Q, int(problem._projected(step) * grid.length)).ravel()
    return np.append(exact, problem._trace_grid.squares(Rows(A))) if step == 0 else exact


def right_guesses(epsilon, n=8):
    """Guesses by the likelihood of all releases, once every one of them is possible for both tables."""
    tables, right = two_tables(n), 0
    problems = [hidden([A], epsilon=epsilon) for A in tables]
    for k in range(TRIES):
        distances = [0.0, 0.0]
        for step, (Q, told) in enumerate(transcript(problems[k % 2])):
            sigma = np.full(len(told), 2.0 ** problems[0].grid(step).bits)
            sigma[Q.size :] = 2.0 ** problems[0]._trace_grid.bits
            for i in (0, 1):
                noise = told - 0.5 - sums_of(problems[0], tables[i], step, Q)
                assert np.array_equal(noise, np.rint(noise))  # possible, to the bit
                distances[i] += float(np.sum(np.square((noise + 0.5) / sigma)))
        right += finds_out(k % 2, [1.0, 1.0], distances)
    return right


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.usefixtures("noise_at_once")
def test_audit_of_all_that_an_agent_tells(epsilon):
    assert right_guesses(epsilon) <= most_guesses(epsilon, 1e-6)


@pytest.mark.usefixtures("noise_at_once")
def test_the_audit_fails_where_noise_is_too_small(monkeypatch):
    ratio = Privacy.ratio
    monkeypatch.setattr(Privacy, "ratio", lambda *args: ratio(*args) / 10)
    assert right_guesses(1.0) > most_guesses(1.0, 1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_products_with_noise_of_floats_tell_tables_apart(epsilon, rng):
    """What the audit is for: float64 noise of the right size on float64 products hides nothing."""
    Q = np.linalg.qr(rng.standard_normal((8, 3)))[0]
    sums = [(A.T @ (A @ Q)).ravel() for A in two_tables(8)]
    s, right = 4.0 * noise_ratio(epsilon, 1e-6) * math.sqrt(STEPS), 0
    for seed in range(TRIES):
        released = sums[seed % 2] + s * noise_of_floats(seed, Q.size)
        shares = [possible_in_floats(released, exact, s) for exact in sums]
        right += finds_out(seed % 2, shares, [float(np.linalg.norm(released - exact)) for exact in sums])
    assert right > 0.98 * TRIES


# Centering


def test_centered_products(rng):
    A = rng.standard_normal((20_000, 80)) * np.arange(1, 81) ** -1.0 + 1.0
    problem = centered(
        PrivateProductsPCA(pca.from_data(A, 2, 3), Privacy(8.0, 1e-6, 3.0, mean_bound=12.0, seed=0))
    )
    result = destiny.solve(problem, destiny.networks.ring(3))
    exact = np.linalg.svd(A - A.mean(axis=0), full_matrices=False)[2][:2].T
    assert np.linalg.svd(exact.T @ result.X)[1].min() > 0.98
    assert result.notes[0] == "centered: the mean of 80 columns was subtracted (2 rounds)"
    assert "epsilon = 8, delta = 1e-06" in result.notes[1]
    assert "T = 4 products" in result.notes[1]
    spectrum = problem.portrait({"a": result.X})["spectrum"]
    kept = problem.pooled().matrix  # what the run found, not another release
    assert spectrum["found"]["a"] == pytest.approx(3 * kept.values[:2], rel=1e-6)
