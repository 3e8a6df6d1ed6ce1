"""Problems of one's own objectives: Separable, and the check of their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from destiny.errors import ProblemError
from destiny.problems import Separable, check_gradient, sdl

SEEDS = range(3)


class Quartic:
    """sum X^4 times a factor; the gradient is off by a relative mistake."""

    def __init__(self, factor: float = 1.0, mistake: float = 0.0) -> None:
        self.factor, self.mistake = factor, mistake

    def value(self, X):
        return self.factor * float(np.sum(X**4))

    def gradient(self, X):
        return (1 + self.mistake) * self.factor * 4 * X**3


class Returns:
    """Whatever it is told to return."""

    def __init__(self, value, gradient) -> None:
        self._value, self._gradient = value, gradient

    def value(self, X):
        return self._value

    def gradient(self, X):
        return self._gradient


def test_separable_hosts_its_objectives_in_order():
    problem = Separable([Quartic(i) for i in range(4)], (3, 2))
    X = np.random.default_rng(0).standard_normal((3, 3, 2))
    hosted = problem.host([3, 1, 1])
    np.testing.assert_allclose(hosted.value(X), [k * np.sum(x**4) for k, x in zip([3, 1, 1], X, strict=True)])
    np.testing.assert_allclose(hosted.gradient(X), 4 * np.array([3, 1, 1])[:, None, None] * X**3)
    assert "3 x 2 matrices: 4 agents" in problem.describe()


def test_separable_refuses_more_columns_than_rows():
    with pytest.raises(ProblemError, match=r"p must lie between 1 and .* n = 2; found 3"):
        Separable([Quartic()], (2, 3))


def test_separable_passes_on_what_is_not_finite():
    hosted = Separable([Returns(np.inf, np.full((3, 2), np.nan))], (3, 2)).host([0])
    assert np.isnan(hosted.gradient(np.ones((1, 3, 2)))).all()
    assert hosted.value(np.ones((1, 3, 2)))[0] == np.inf


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (Returns(0.0, np.ones(6)), r"agent 1's gradient must be of shape \(3, 2\); found shape \(6,\)"),
        (
            Returns(0.0, np.ones((3, 2)) * 1j),
            "agent 1's gradient must be real numbers; found dtype complex128",
        ),
        (Returns(0.0, None), "agent 1's gradient must be real numbers; found dtype object"),
        (Returns(np.ones(2), np.ones((3, 2))), r"agent 1's value must be one number; found shape \(2,\)"),
    ],
)
def test_separable_names_the_agent_and_both_shapes(objective, words):
    hosted = Separable([Quartic(), objective], (3, 2)).host([0, 1])
    method = hosted.value if "value" in words else hosted.gradient
    with pytest.raises(ProblemError, match=words):
        method(np.ones((2, 3, 2)))


class Function:
    """An objective from two functions."""

    def __init__(self, value, gradient) -> None:
        self.value, self.gradient = value, gradient


A = np.random.default_rng(0).standard_normal((5, 2))
RIGHT = {
    "linear": Function(lambda X: np.vdot(A, X), lambda X: A),
    "constant": Function(lambda X: 3.0, lambda X: np.zeros_like(X)),
    "quadratic": Function(lambda X: np.sum(X**2), lambda X: 2 * X),
    "quadratic above a large constant": Function(lambda X: 1e8 + np.sum(X**2), lambda X: 2 * X),
    "linear and a little curved": Function(
        lambda X: np.vdot(A, X) + 1e-9 * np.sum(X**2), lambda X: A + 2e-9 * X
    ),
    "quartic": Quartic(),
    "tiny": Quartic(1e-200),
    "huge": Quartic(1e200),
    "cubic at its saddle": Function(lambda X: np.sum((X - 1) ** 3), lambda X: 3 * (X - 1) ** 2),
    "undefined far away": Function(
        lambda X: np.sum(np.sqrt(1.5 - (X - 1) ** 2)), lambda X: -(X - 1) / np.sqrt(1.5 - (X - 1) ** 2)
    ),
    "exponential": Function(lambda X: np.sum(np.exp(X)), np.exp),
}
WRONG = {
    "sign": Function(lambda X: np.sum(X**2), lambda X: -2 * X),
    "factor": Quartic(mistake=1.0),
    "a thousandth": Quartic(mistake=1e-3),
    "a hundred-thousandth": Quartic(mistake=1e-5),
    "nothing": Function(lambda X: np.vdot(A, X), lambda X: np.zeros_like(X)),
    "linear, a little off": Function(lambda X: np.vdot(A, X), lambda X: A * (1 + 1e-9)),
    "one entry": Function(lambda X: np.sum(X**2), lambda X: 2 * X + np.eye(5, 2) * 1e-2),
    "kink": Function(lambda X: np.sum(np.abs(X - 1)), lambda X: np.zeros_like(X)),
    "not finite": Function(lambda X: np.nan, lambda X: X),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("objective", RIGHT.values(), ids=RIGHT)
def test_check_gradient_accepts(objective, seed):
    check = check_gradient(objective, np.ones((5, 2)), seed=seed)
    assert check, check
    assert np.isnan(check.slope) or check.slope > 1.8
    assert "agree" in str(check)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("objective", WRONG.values(), ids=WRONG)
def test_check_gradient_rejects(objective, seed):
    check = check_gradient(objective, np.ones((5, 2)), seed=seed)
    assert not check.ok, check
    assert np.isnan(check.slope) or check.slope == pytest.approx(1, abs=0.2)
    assert "disagree" in check.message or "not finite" in check.message


def test_check_gradient_at_zero_and_in_float32():
    assert check_gradient(Quartic(), np.zeros((4, 1)))
    X = np.random.default_rng(0).standard_normal((1, 16, 2))
    data = np.random.default_rng(1).standard_normal((16, 50)).astype(np.float32)
    check = check_gradient(sdl.from_data(data.T, 2, 1).host([0]), X, noise=float(np.finfo(np.float32).eps))
    assert check, check


def test_check_gradient_names_a_wrong_shape():
    with pytest.raises(ProblemError, match=r"the gradient must be of shape \(4, 1\); found shape \(4,\)"):
        check_gradient(Returns(0.0, np.ones(4)), np.ones((4, 1)))
