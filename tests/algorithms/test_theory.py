"""The statements of docs/theory.md, each with numbers.

For PCA the constants of the convergence theorem have bounds in closed form, so that its conditions can be met
to the letter and every inequality of its proof be watched along a run.
"""

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

import destiny
from destiny import registry
from destiny.algorithms import METHODS
from destiny.algorithms.blocks.step_sizes import Constant
from destiny.geometry import lagrangian, stiefel
from destiny.geometry.stiefel import sym
from destiny.run import metrics
from tests.helpers.small_problems import KINDS, small_problem
from tests.helpers.theory_constants import step_bounds

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"
EDGE = 1 / 6  # ||X^T X - I|| on the boundary of the region R


class Mean:
    """f = (1/d) sum f_i, its gradient, and H, at single matrices."""

    def __init__(self, problem):
        self.hosted = destiny.problems.pooled(problem).host([0])

    def value(self, X):
        return float(self.hosted.value(X[None])[0])

    def gradient(self, X):
        return self.hosted.gradient(X[None])[0]

    def multiplier(self, X):
        """sym(X^T grad f(X X^T X)), the matrix Lambda of the page."""
        return sym(X.T @ self.gradient(lagrangian.cubic(X)))

    def H(self, X, beta):
        return lagrangian.H(self.gradient, X, beta)

    def G(self, X):
        return lagrangian.G(self.gradient, X)


def point(rng, n, p, violation):
    """A point with X^T X = I + E for a random symmetric E of the given norm."""
    E = sym(rng.standard_normal((p, p)))
    E *= violation / np.linalg.norm(E)
    values, vectors = np.linalg.eigh(np.eye(p) + E)
    return stiefel.random_point(n, p, seed=int(rng.integers(1000))) @ (vectors * np.sqrt(values) @ vectors.T)


# The penalty ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_penalty_identity_holds_everywhere(kind, rng):
    """<H, X E> = tr(E (beta (I + E) - 3/2 Lambda) E), not near the manifold only."""
    f = Mean(small_problem(kind))
    for violation in (0.1, 0.9):
        X, beta = point(rng, 12, 3, violation), float(rng.uniform(0, 3))
        E = X.T @ X - np.eye(3)
        expected = np.trace(E @ (beta * (np.eye(3) + E) - 1.5 * f.multiplier(X)) @ E)
        np.testing.assert_allclose(np.sum(f.H(X, beta) * (X @ E)), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_lemma_of_the_penalty_and_its_form_without_units(kind, rng):
    """||H||^2 >= ||G||^2 + beta (5 beta - 21 C_0) / 6 ||E||^2 on R: the lemma where 5 beta >= 6 + 21 C_0."""
    f = Mean(small_problem(kind))
    samples = [point(rng, 12, 3, violation) for violation in np.linspace(0.01, EDGE, 20)]
    for X in samples:
        C_0 = np.linalg.norm(f.gradient(lagrangian.cubic(X)))  # the supremum is at least that
        E2, G2 = stiefel.violation(X) ** 2, np.sum(f.G(X) ** 2)
        for beta in (21 / 5 * C_0, 6 * C_0, (6 + 21 * C_0) / 5):
            assert np.sum(f.H(X, beta) ** 2) >= G2 + beta * (5 * beta - 21 * C_0) / 6 * E2 - 1e-9 * G2
        beta = (6 + 21 * C_0) / 5
        assert np.sum(f.H(X, beta) ** 2) >= G2 + beta * E2 * (1 - 1e-9)


def test_curvature_across_the_manifold_is_two_beta_minus_three_lambda(rng):
    """At a stationary point <X S, DH[X S]> = tr(S (2 beta - 3 Lambda) S); its sign changes with beta."""
    problem, values, vectors = minor_components(rng, p=2)
    f = Mean(problem)
    X, Lambda = vectors[:, :2], np.diag(values[:2])
    S = sym(rng.standard_normal((2, 2)))
    for beta in (0.5 * values[0], 1.5 * values[1] + 1):
        t = 1e-6
        change = (f.H(X + t * X @ S, beta) - f.H(X - t * X @ S, beta)) / (2 * t)
        expected = np.trace(S @ (2 * beta * np.eye(2) - 3 * Lambda) @ S)
        np.testing.assert_allclose(np.sum(X @ S * change), expected, rtol=1e-6, atol=1e-6)


def minor_components(rng, p=1, n=5, agents=4):
    """f_i(X) = 1/2 tr(X^T A_i X), A_i positive definite: the smallest eigenvalues, with Lambda positive."""
    matrices = [np.diag(1.0 + np.arange(n)) + 0.2 * sym(rng.standard_normal((n, n))) for _ in range(agents)]
    mean = np.mean(matrices, axis=0)
    problem = destiny.problems.custom.problem(
        lambda X, A: 0.5 * float(np.trace(X.T @ A @ X)), lambda X, A: A @ X, shape=(n, p), data=matrices
    )
    return problem, *np.linalg.eigh(mean)


def test_below_the_threshold_there_is_a_stationary_point_off_the_manifold(rng):
    """Along eigenvectors u_j of (1/d) sum A_i, H = 0 at r_j u_j with r_j = 1 or r_j^2 = 2 beta / (3 a_j)."""
    problem, values, vectors = minor_components(rng, p=2)
    f = Mean(problem)
    beta = 0.9 * 1.5 * values[0]
    X = vectors[:, :2] * [math.sqrt(2 * beta / (3 * values[0])), 1.0]
    assert np.linalg.norm(f.H(X, beta)) < 1e-12
    np.testing.assert_allclose(stiefel.violation(X), 0.1, rtol=1e-9)  # well inside R


@pytest.mark.parametrize("factor", [0.9, 1.2])
def test_destiny_settles_off_the_manifold_below_the_threshold_only(factor, rng):
    problem, values, vectors = minor_components(rng)
    start = vectors[:, :1] + 0.01 * rng.standard_normal((5, 1))  # next to the answer, and a little too short
    start *= math.sqrt(0.97) / np.linalg.norm(start)
    ring, beta = destiny.networks.ring(4), factor * 1.5 * values[0]
    method = destiny.Destiny(beta, Constant(0.3 / values[-1]), watch=False)
    result = destiny.solve(problem, ring, method, start=start, rounds=1500, tolerance=1e-9)
    assert result.measures.consensus < 1e-8  # the agents agree, right or wrong
    if factor > 1:
        assert result.converged
        np.testing.assert_allclose(result.measures.objective, values[0] / 2, rtol=1e-9)
    else:
        assert not result.converged
        np.testing.assert_allclose(result.measures.feasibility, 1 - factor, rtol=1e-6)


@pytest.mark.parametrize("above", [False, True])
def test_above_the_threshold_every_zero_of_H_in_the_region_is_feasible(above, rng):
    """beta > 9/5 sup lambda_max(Lambda) on R, at most 9/5 (7/6)^2 a_max: least squares find no other zero."""
    problem, values, vectors = minor_components(rng, p=2)
    f = Mean(problem)
    beta = 9 / 5 * (7 / 6) ** 2 * values[-1] if above else 0.9 * 1.5 * values[0]
    starts = [point(rng, 5, 2, EDGE) for _ in range(10)]
    starts += [vectors[:, [0, j]] * [math.sqrt(0.88), 1.0] for j in range(1, 5)]
    violations = []
    for X in starts:
        found = least_squares(
            lambda x: f.H(x.reshape(5, 2), beta).ravel(), X.ravel(), xtol=1e-15, ftol=1e-15, gtol=1e-15
        )
        Y = found.x.reshape(5, 2)
        if np.linalg.norm(found.fun) < 1e-9 and stiefel.violation(Y) <= EDGE:
            violations.append(float(stiefel.violation(Y)))
    assert len(violations) >= 4
    assert (max(violations) < 1e-6) == above


@pytest.mark.parametrize("beta", [1e-6, 1.0])
def test_for_pca_no_penalty_is_too_small(beta, rng):
    """<H, X E> >= beta tr(X^T X E^2) off the manifold: zeros of H with independent columns are feasible."""
    f = Mean(small_problem("pca"))
    for _ in range(20):
        X = 2 * rng.standard_normal((12, 3))  # nowhere near the manifold
        E = X.T @ X - np.eye(3)
        across = np.sum(f.H(X, beta) * (X @ E))
        assert across >= beta * np.trace(X.T @ X @ E @ E)
        assert np.trace(f.multiplier(X) @ E @ E) < 0


# The convergence theorem ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constants:
    """Those of Section 3 for PCA, as upper bounds in closed form, and beta and eta that meet Assumption 3."""

    L: float
    L_f: float
    M_g: float
    M_b: float
    beta: float
    lambda_: float
    d: int

    @classmethod
    def of(cls, matrices, p, lambda_):
        """G_i is made of 3/2 C Y, 1/2 C Y X^T X and X sym(X^T C Y), Y = X X^T X, in a ball of radius r."""
        d, c = len(matrices), max(np.linalg.norm(C, 2) for C in matrices)
        r = math.sqrt(7 * d * p / 6) + math.sqrt(d)
        M_g, L_g = c * (1.5 * r**3 + 1.5 * r**5), c * (4.5 * r**2 + 7.5 * r**4)
        M_b, L_b = r**3 + r, 3 * r**2 + 1
        C_0 = c * (7 / 6) ** 1.5 * math.sqrt(p)
        beta = 2 * max((6 + 21 * C_0) / 5, 72 * (4 + 3 * M_g) / 5, 1 / L_b, 22 * c**2)
        L = L_g + beta * L_b
        return cls(L, c, M_g, M_b, beta, lambda_, d)

    def longest_step(self, spread):
        """The smallest of eta_1 .. eta_12, for trackers that start so far apart."""
        return min(step_bounds(self.beta, self.M_g, self.M_b, self.L, self.lambda_, self.d, spread).values())

    @property
    def gap(self):
        return 1 - self.lambda_**2

    @property
    def C_1(self):
        return self.lambda_**2 * (1 + self.lambda_**2) / self.gap

    @property
    def C_2(self):
        return 12.1 * (1 + self.lambda_**2) * self.L**2 / self.gap

    @property
    def rho(self):
        return 3 * self.gap / (16 * self.C_2)


@dataclass(frozen=True)
class Numbers:
    """What the lemmas speak of, at one step."""

    X: np.ndarray
    D: np.ndarray
    x: float  # ||Xbar - X||^2
    d: float  # ||Dbar - D||^2
    h: float
    H: float  # ||H(Xbar)||^2
    G: float
    E: float
    tracked: float  # ||Dbar - Hbar||
    merit: float

    @classmethod
    def at(cls, moment, f, c):
        X, D = moment.X, moment.state.D
        mean = X.mean(axis=0)
        squares = [float(np.sum((A - A.mean(axis=0)) ** 2)) for A in (X, D)]
        h = float(lagrangian.h(f.value, mean, c.beta))
        sizes = [float(np.sum(A**2)) for A in (f.H(mean, c.beta), f.G(mean))]
        tracked = float(np.linalg.norm(D.mean(axis=0) - moment.state.H.mean(axis=0)))
        merit = metrics.merit(moment.team, X, D, c.beta, c.rho)
        return cls(X, D, *squares, h, *sizes, float(stiefel.violation(mean) ** 2), tracked, merit)


def run_to_the_letter(rng, multiple=1.0, steps=60):
    """DESTINY on PCA with the longest step allowed, or a multiple of it.

    The mean starts at the edge of R, and the agents as far apart as Proposition 3.2 lets them be.
    """
    d, n, p = 4, 5, 1
    network = destiny.networks.path(d)
    A = rng.standard_normal((d, n, 4))
    A *= math.sqrt(1e-5 / max(np.linalg.norm(a @ a.T, 2) for a in A))  # M_g is then of the order of 1
    problem = destiny.problems.PCA([a.T for a in A], p)
    matrices = A @ np.swapaxes(A, 1, 2)
    f, c = Mean(problem), Constants.of(matrices, p, network.lambda_)
    apart = rng.standard_normal((d, n, p))
    apart -= apart.mean(axis=0)
    X0 = point(rng, n, p, 0.98 * EDGE) + 0.9 * math.sqrt(d) / c.L * apart / np.linalg.norm(apart)
    D0 = np.stack([lagrangian.H(lambda Y, C=C: -C @ Y, X, c.beta) for X, C in zip(X0, matrices, strict=True)])
    eta = multiple * c.longest_step(float(np.linalg.norm(D0 - D0.mean(axis=0))))
    numbers = []
    for moment in destiny.iterate(problem, network, destiny.Destiny(c.beta, Constant(eta)), start=X0):
        numbers.append(Numbers.at(moment, f, c))
        if moment.step == steps:
            return c, eta, numbers
    raise AssertionError("iterate never ends by itself")


def test_every_inequality_of_the_proof_along_a_run(rng):
    c, eta, run = run_to_the_letter(rng)
    lambda2, slack = c.lambda_**2, 1e-12 * abs(run[0].h)
    C_D = (
        math.sqrt(run[0].d) + 3 * math.sqrt(c.d) / (1 - c.lambda_) + math.sqrt(c.d) * (c.M_g + c.beta * c.M_b)
    )
    for k, l in pairwise(run):
        assert k.tracked <= 1e-12 * math.sqrt(k.H)  # mean(D) = mean(H)
        np.testing.assert_allclose(l.X.mean(0), k.X.mean(0) - eta * k.D.mean(0), rtol=0, atol=1e-14)
        assert math.sqrt(k.E) <= EDGE  # Lemma 3.1 and Proposition 3.2
        assert k.x <= c.d / c.L**2
        assert np.linalg.norm(k.D) <= C_D
        assert l.x <= (1 + lambda2) / 2 * k.x + eta**2 * c.C_1 * k.d + 1e-28  # Lemma 3.3; 1e-28: rounding
        assert c.d * np.sum(k.D.mean(0) ** 2) <= 2 * c.L**2 * k.x + 2 * c.d * k.H  # Lemma 3.4
        assert l.d <= (5 + 3 * lambda2) / 8 * k.d + c.C_2 * k.x + eta / (8 * c.rho) * k.H  # Lemma 3.5
        descent = c.gap / 8 * k.x + 10.5 * eta * c.L_f**2 * k.E - 5 / 8 * eta * k.H
        assert l.h <= k.h + descent + slack  # Lemma 3.6
        gain = 3 / 16 * c.gap * (k.x + c.rho * k.d) + eta / 2 * (k.G + c.L_f**2 * k.E)
        assert l.merit <= k.merit - gain + slack  # Proposition 3.7
    spent = run[0].merit - run[-1].merit
    assert spent > 1e4 * slack  # what was asserted is far above rounding
    K = len(run) - 1  # Theorem 3.8, with the last value for the lower bound
    assert min(k.x for k in run[:-1]) <= 16 * spent / (3 * c.gap * K)
    assert min(k.G for k in run[:-1]) <= 2 * spent / (eta * K)


def test_a_step_far_above_the_bounds_breaks_them(rng):
    seed = int(rng.integers(1000))
    c, eta, _ = run_to_the_letter(np.random.default_rng(seed), steps=1)
    too_long = 4 / c.beta  # more than twice eta_2
    _, _, run = run_to_the_letter(np.random.default_rng(seed), multiple=too_long / eta, steps=2)
    assert not all(math.sqrt(k.E) <= EDGE for k in run)
    assert not all(l.merit <= k.merit for k, l in pairwise(run))


@pytest.mark.parametrize("lambda_", [0.1, 0.5, 0.9])
def test_two_of_the_printed_step_bounds_are_too_large(lambda_):
    """eta_9 makes the tracking error contract, eta_11 bounds a cross term: equality at the corrected ones."""
    L, d, lambda2 = 7.0, 8, lambda_**2
    bounds = step_bounds(1.0, 1.0, 1.0, L, lambda_, d, 0.0)
    gamma = (1 - lambda2) / (2 * lambda2)

    def factor(eta):
        return lambda2 * (1 + gamma) * (1 + 3 * eta**2 * L**2 / gamma)

    np.testing.assert_allclose(factor(bounds["eta_9"]), (5 + 3 * lambda2) / 8)
    assert factor(bounds["eta_9"] / lambda_) > (5 + 3 * lambda2) / 8  # as printed: lambda^2 for lambda

    def cross(eta):
        return 2 * L**2 / d - (1 - lambda2) / (24 * eta)

    np.testing.assert_allclose(cross(bounds["eta_11"]), 0, atol=1e-12)
    assert cross(4 * bounds["eta_11"]) > 0  # as printed: 12 for 48


def test_merit_function_has_h_of_the_mean_not_of_the_sum(rng):
    """With steps of practical size, too: the printed function grows while the corrected one falls."""
    problem, network = small_problem("pca"), destiny.networks.ring(6)
    f, ours, printed = Mean(problem), [], []
    for moment in destiny.iterate(
        problem, network, destiny.Destiny(0.5, Constant(0.02)), seed=int(rng.integers(9))
    ):
        X, D = moment.X, moment.state.D
        ours.append(metrics.merit(moment.team, X, D, beta=0.5, rho=1e-3))
        h_of_mean, h_of_sum = (float(lagrangian.h(f.value, Y, 0.5)) for Y in (X.mean(axis=0), X.sum(axis=0)))
        printed.append(ours[-1] - h_of_mean + h_of_sum)
        if moment.step == 200:
            break
    assert np.diff(ours).max() <= 1e-12
    assert np.diff(printed).max() > 1e-3


# What the theorem does not cover ----------------------------------------------------------------------------


@pytest.mark.parametrize("W", [np.eye(2), np.eye(2)[::-1]])
def test_assumption_2_does_not_give_lambda_below_one(W):
    """Symmetric, doubly stochastic, zero where there is no link: and yet two agents never agree."""
    assert (W == W.T).all()
    assert (W >= 0).all()
    assert (W.sum(axis=0) == 1).all()
    assert np.linalg.norm(W - 0.5, 2) == pytest.approx(1.0)
    with pytest.raises(destiny.NetworkError):
        destiny.networks.from_weights(W)


def test_with_steps_of_their_own_the_mean_does_not_follow_the_mean_tracker(rng):
    """mean(D) = mean(H) stays true, Xbar+ = Xbar - eta Dbar does not: the theorem has one step for all."""
    problem, network = small_problem("olsr", seed=int(rng.integers(9))), destiny.networks.ring(6)
    before = None
    for moment in destiny.iterate(problem, network, destiny.Destiny()):
        state = moment.state
        assert metrics.tracking_error(state.D, state.H) < 1e-12
        if moment.step == 30:
            break
        before = state
    moved = state.X.mean(axis=0) - before.X.mean(axis=0)
    direction = before.D.mean(axis=0)
    cosine = -np.sum(moved * direction) / np.linalg.norm(moved) / np.linalg.norm(direction)
    assert cosine < 1 - 1e-6


def test_the_page_says_of_every_method_what_is_known():
    """One row each, and the same about exactness as the method itself."""
    rows = re.findall(r"^\| `([\w-]+)` \| (yes|no) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == sorted(set(rows), key=rows.index)
    exact = {
        method.kind: "yes" if "inexact" not in method.about else "no"
        for method in (*METHODS, *registry.methods().values())
    }
    assert dict(rows) == exact
