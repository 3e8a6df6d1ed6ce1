"""Directions against the Riemannian gradient, their potentials, and the eigenvectors."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from destiny.algorithms.blocks.curvature import largest_curvature
from destiny.geometry import stiefel
from destiny.geometry.directions import ANY_F, DIRECTIONS
from tests.helpers.small_problems import KINDS, small_problem


@pytest.fixture(params=KINDS)
def gradient(request):
    hosted = small_problem(request.param).host([0])
    return lambda X: hosted.gradient(X[None])[0]


def near(rng, size=0.05):
    return stiefel.random_point(12, 3, seed=7) + size * rng.standard_normal((12, 3))


@pytest.mark.parametrize("name", ANY_F)
def test_on_the_manifold_it_is_the_riemannian_gradient(name, gradient):
    X = stiefel.random_point(12, 3, seed=3)
    slope = gradient(X)
    expected = stiefel.tangent(X, slope)
    if name == "landing":  # the canonical metric's: the part along X counts half
        expected = (slope - X @ slope.T @ X) / 2
    np.testing.assert_allclose(DIRECTIONS[name](gradient, X, 5.0), expected, atol=1e-12)


@pytest.mark.parametrize("name", ANY_F)
def test_the_penalty_adds_its_gradient(name, gradient, rng):
    X = near(rng)
    added = DIRECTIONS[name](gradient, X, 2.0) - DIRECTIONS[name](gradient, X, 0.0)
    slope = approx_fprime(X.ravel(), lambda x: stiefel.violation(x.reshape(12, 3)) ** 2 / 2)
    np.testing.assert_allclose(added, slope.reshape(12, 3), atol=1e-5)


def test_the_parts_of_landing_are_orthogonal(gradient, rng):
    X = near(rng, 0.2)
    turn = DIRECTIONS["landing"](gradient, X, 0.0)
    pull = X @ stiefel.deviation(X)
    assert abs(np.sum(turn * pull)) < 1e-12 * np.linalg.norm(turn) * np.linalg.norm(pull) + 1e-14


@pytest.mark.parametrize("name", ["sanger", "oja"])
def test_sangers_rules_vanish_at_the_eigenvectors_and_nowhere_else_in_their_span(name, rng):
    A = rng.standard_normal((12, 40))
    _, V = np.linalg.eigh(A @ A.T)
    X = V[:, ::-1][:, :3]
    field = DIRECTIONS[name]
    gradient = lambda Y: -A @ (A.T @ Y)  # noqa: E731
    np.testing.assert_allclose(field(gradient, X, 0.0), 0, atol=1e-10)
    turned = X @ stiefel.random_point(3, 3, seed=1)
    assert np.linalg.norm(field(gradient, turned, 0.0)) > 0.1
    if name == "oja":  # lengths of the columns do not matter to it
        np.testing.assert_allclose(field(gradient, X * [2.0, 0.5, 3.0], 0.0), 0, atol=1e-9)


def test_the_steepest_curvature_of_a_quadratic_is_its_largest_eigenvalue(rng):
    A = rng.standard_normal((5, 12, 40))
    C = A @ A.transpose(0, 2, 1)
    X = np.stack([stiefel.random_point(12, 3, seed=k) for k in range(5)])
    L = largest_curvature(lambda Y: C @ Y, X, C @ X)
    largest = np.linalg.eigvalsh(C)[:, -1]
    assert L.shape == (5, 1, 1)
    assert (L[:, 0, 0] <= 1.0001 * largest).all()
    assert (L[:, 0, 0] >= 0.85 * largest).all()


def test_no_curvature_is_zero_not_nan():
    X = np.zeros((2, 4, 1))
    assert (largest_curvature(lambda Y: 0 * Y, X, X) == 0).all()
