"""h, g, b, their gradients and the directions G and H, against finite differences and identities."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from destiny.geometry import lagrangian, stiefel
from destiny.geometry.directions import DIRECTIONS
from tests.helpers.small_problems import KINDS, small_problem


@pytest.fixture(params=KINDS)
def f(request):
    hosted = small_problem(request.param).host([1])

    class One:
        def value(self, X):
            return hosted.value(X[None])[0]

        def gradient(self, X):
            return hosted.gradient(X[None])[0]

    return One()


def near(rng, n=12, p=3, size=0.1):
    return stiefel.random_point(n, p, seed=int(rng.integers(1000))) + size * rng.standard_normal((n, p))


def numerical_gradient(function, X):
    return approx_fprime(X.ravel(), lambda x: float(function(x.reshape(X.shape))), 1e-7).reshape(X.shape)


def test_exact_gradient_of_h(f, rng):
    X = near(rng)
    expected = numerical_gradient(lambda Y: lagrangian.h(f.value, Y, 1.3), X)
    np.testing.assert_allclose(lagrangian.gradient_h(f.gradient, X, 1.3), expected, atol=2e-4)


def test_h_is_g_plus_beta_b_and_b_has_the_gradient_of_the_paper(f, rng):
    X = near(rng)
    by_parts = lagrangian.g(f.value, X) + 0.7 * lagrangian.b(X)
    np.testing.assert_allclose(lagrangian.h(f.value, X, 0.7), by_parts)
    expected = numerical_gradient(lagrangian.b, X)
    np.testing.assert_allclose(X @ (X.T @ X - np.eye(3)), expected, atol=1e-5)


def test_H_is_the_riemannian_gradient_on_the_manifold(f, rng):
    X = stiefel.random_point(12, 3, seed=int(rng.integers(1000)))
    riemannian = stiefel.tangent(X, f.gradient(X))
    for beta in (0.0, 5.0):
        np.testing.assert_allclose(lagrangian.H(f.gradient, X, beta), riemannian, atol=1e-12)
    np.testing.assert_allclose(lagrangian.gradient_h(f.gradient, X, 5.0), riemannian, atol=1e-12)


def test_H_as_printed(f, rng):
    X, beta = near(rng), 0.9
    Z = f.gradient(X @ X.T @ X)
    sym = (X.T @ Z + Z.T @ X) / 2
    G = 1.5 * Z - 0.5 * Z @ X.T @ X - X @ sym
    np.testing.assert_allclose(lagrangian.G(f.gradient, X), G, atol=1e-12)
    H = G + beta * X @ (X.T @ X - np.eye(3))
    np.testing.assert_allclose(lagrangian.H(f.gradient, X, beta), H, atol=1e-12)


def test_dissolving_direction_is_the_gradient_of_the_dissolved_function(f, rng):
    X, beta = near(rng), 0.9
    expected = numerical_gradient(lambda Y: f.value(lagrangian.dissolve(Y)) + beta * lagrangian.b(Y), X)
    np.testing.assert_allclose(DIRECTIONS["expen"](f.gradient, X, beta), expected, atol=2e-4)


def test_penalty_controls_infeasibility_inside_the_region(f, rng):
    """Lemma 2.1: ||H||^2 >= ||G||^2 + beta ||X^T X - I||^2 on R for beta >= (6 + 21 C_0) / 5."""
    X = near(rng, size=0.01)
    assert stiefel.violation(X) <= 1 / 6
    C0 = 2 * np.linalg.norm(f.gradient(lagrangian.cubic(X)))  # an upper bound near X
    beta = (6 + 21 * C0) / 5
    H, G = lagrangian.H(f.gradient, X, beta), lagrangian.G(f.gradient, X)
    assert np.sum(H**2) >= np.sum(G**2) + beta * stiefel.violation(X) ** 2


def test_stacks_agree_with_single_matrices(f, rng):
    X = np.stack([near(rng) for _ in range(4)])
    stacked = lagrangian.H(lambda Y: np.stack([f.gradient(y) for y in Y]), X, 0.4)
    for x, h in zip(X, stacked, strict=True):
        np.testing.assert_allclose(h, lagrangian.H(f.gradient, x, 0.4), atol=1e-12)
