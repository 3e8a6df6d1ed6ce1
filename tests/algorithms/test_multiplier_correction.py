"""Multiplier correction: its two feasible steps, its rotation, and answers in closed form."""

import numpy as np
import pytest

import destiny
from destiny.algorithms import KINDS, MultiplierCorrection
from destiny.algorithms.feasible import reflect
from destiny.geometry.stiefel import polar, random_point, transpose, violation
from destiny.problems import custom, pooled
from tests.helpers.small_problems import procrustes, small_problem

NETWORK = destiny.networks.complete(1)
UPDATES = pytest.mark.parametrize("update", ["reflection", "projection"])


def linear(seed=0, n=7, p=3):
    G = np.random.default_rng(seed).standard_normal((n, p))
    return G, custom.problem(lambda X: float(np.sum(G * X)), lambda X: G, shape=(n, p), agents=1)


def test_a_reflection_is_the_formula_and_feasible():
    rng = np.random.default_rng(0)
    X = np.stack([random_point(8, 3, seed) for seed in range(4)])
    V = X - 0.7 * rng.standard_normal(X.shape)
    expected = -X + 2 * V @ np.linalg.inv(transpose(V) @ V) @ transpose(V) @ X
    np.testing.assert_allclose(reflect(X, V), expected, atol=1e-12)
    assert violation(reflect(X, V)).max() < 1e-13


@UPDATES
def test_a_linear_objective_is_least_at_minus_the_polar_factor(update):
    G, problem = linear()
    result = destiny.solve(problem, NETWORK, MultiplierCorrection(update=update), rounds=500, tolerance=1e-10)
    assert result.converged, result
    np.testing.assert_allclose(result.X, -polar(G), atol=1e-8)


@pytest.mark.parametrize("sign", [1, -1])
def test_square_procrustes_has_the_answer_of_the_svd(sign):
    problem, best = procrustes(3, sign=sign)
    result = destiny.solve(pooled(problem), NETWORK, MultiplierCorrection(update="projection"), rounds=500)
    assert result.converged, result
    np.testing.assert_allclose(result.X, best, atol=1e-6)


def test_rotations_lower_f_make_the_multiplier_symmetric_and_keep_the_span():
    G, _ = linear(3)
    Y = X = random_point(7, 3, 1)
    values = [np.sum(G * X)]
    for _ in range(300):
        X = MultiplierCorrection().correct(X[None], G[None], np.zeros((1, 1, 1)))[0]
        values.append(np.sum(G * X))
    np.testing.assert_allclose(X @ X.T, Y @ Y.T, atol=1e-12)
    assert np.diff(values).max() < 1e-12
    assert values[1] < values[0] - 1e-3
    np.testing.assert_allclose(X.T @ G, G.T @ X, atol=1e-6)


def test_where_f_depends_on_the_span_alone_nothing_is_rotated():
    hosted = pooled(small_problem("pca")).host([0])
    X = random_point(12, 3, 2)[None]
    rotated = MultiplierCorrection().correct(X, hosted.gradient(X), np.zeros((1, 1, 1)))
    np.testing.assert_allclose(rotated, X, atol=1e-13)


def test_settings_are_checked():
    with pytest.raises(destiny.SettingsError, match="update must be reflection or projection; found 'qr'"):
        KINDS["multiplier-correction"](update="qr")
