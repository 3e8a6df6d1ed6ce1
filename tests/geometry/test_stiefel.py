import numpy as np
import pytest
import scipy.linalg

from destiny.errors import ProblemError
from destiny.geometry import stiefel


def test_polar_is_the_nearest_point(rng):
    X = rng.standard_normal((3, 8, 4))
    for Z, Q in zip(X, stiefel.polar(X), strict=True):
        np.testing.assert_allclose(Q, scipy.linalg.polar(Z)[0], atol=1e-12)


def test_qr_is_unique_and_orthonormal(rng):
    X = rng.standard_normal((5, 9, 3))
    Q = stiefel.qr(X)
    R = stiefel.transpose(Q) @ X
    np.testing.assert_allclose(stiefel.violation(Q), 0, atol=1e-14)
    np.testing.assert_allclose(R, np.triu(R), atol=1e-13)
    assert (np.diagonal(R, axis1=1, axis2=2) > 0).all()


def test_tangent_projection_is_idempotent_orthogonal_and_tangent(rng):
    X = stiefel.random_point(10, 3, seed=int(rng.integers(100)))
    D = rng.standard_normal((10, 3))
    T = stiefel.tangent(X, D)
    np.testing.assert_allclose(stiefel.sym(X.T @ T), 0, atol=1e-14)
    np.testing.assert_allclose(stiefel.tangent(X, T), T, atol=1e-14)
    assert abs(stiefel.inner(D - T, T)) < 1e-13


def test_inner_and_norm_match_traces(rng):
    X, Y = rng.standard_normal((2, 4, 6, 2))
    np.testing.assert_allclose(stiefel.inner(X, Y), [np.trace(a.T @ b) for a, b in zip(X, Y, strict=True)])
    np.testing.assert_allclose(stiefel.norm(X), [np.linalg.norm(a) for a in X])


def test_inner_of_one_matrix_does_not_depend_on_its_neighbors(rng):
    X, Y = rng.standard_normal((2, 7, 33, 5))
    assert (stiefel.inner(X, Y)[3:5] == stiefel.inner(X[3:5], Y[3:5])).all()


@pytest.mark.parametrize("angle", [1e-9, 1e-4, 0.3, np.pi / 2])
def test_subspace_distance_is_the_sine_of_the_angle(angle):
    X = np.eye(4)[:, :2]
    Y = X.copy()
    Y[:, 1] = [0, np.cos(angle), np.sin(angle), 0]
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])  # another basis of the same subspace
    np.testing.assert_allclose(stiefel.subspace_distance(X, Y @ turn), np.sin(angle), rtol=1e-6)


def test_random_point_needs_a_wide_enough_space():
    assert (stiefel.random_point(5, 2, seed=3) == stiefel.random_point(5, 2, seed=3)).all()
    with pytest.raises(ProblemError, match=r"1 <= p <= n; found n = 2, p = 3"):
        stiefel.random_point(2, 3)
