"""A gradient that does not belong to its objective is said in the result, even if one agent alone has it."""

import numpy as np
import pytest

import destiny

AGENTS = 6
DATA = [np.random.default_rng([7, agent]).standard_normal((8, 20)) for agent in range(AGENTS)]


def value(X, A, mistake):
    return float(0.25 * np.sum((A.T @ X) ** 4) / 20)


def gradient(X, A, mistake):
    return mistake * (A @ (A.T @ X) ** 3) / 20


def solve(mistakes, value=value):
    problem = destiny.problems.custom.problem(
        value, gradient, data=list(zip(DATA, mistakes, strict=True)), shape=(8, 2)
    )
    return destiny.solve(problem, destiny.networks.ring(AGENTS), rounds=2000)


def notes(result):
    return [note for note in result.notes if "gradient and objective do not match" in note]


@pytest.mark.parametrize("mistake", [-1.0, 0.0, 0.8], ids=["sign", "zero", "factor"])
def test_a_wrong_gradient_of_one_agent(mistake):
    result = solve([1.0] * (AGENTS - 1) + [mistake])
    (note,) = notes(result)
    assert "destiny.check_gradient" in note


def test_right_gradients_have_no_note():
    result = solve([1.0] * AGENTS)
    assert result.converged
    assert not notes(result)
    assert result.history["gradients"][-1] == result.gradients  # looking at the answer is not counted


def test_values_in_single_precision_or_far_from_zero_have_no_note():
    for wrapped in (
        lambda X, A, mistake: float(np.float32(value(X, A, mistake))),
        lambda X, A, mistake: 1e9 + value(X, A, mistake),
    ):
        assert not notes(solve([1.0] * AGENTS, wrapped))


def test_no_note_where_the_objective_ends():
    """Beside the answer the value is not a number: nothing can be said."""
    answer = solve([1.0] * AGENTS).X

    def inside(X, A, mistake):
        return value(X, A, mistake) if abs(np.linalg.norm(X) - np.linalg.norm(answer)) < 1e-7 else np.nan

    problem = destiny.problems.custom.problem(inside, gradient, data=[(A, 1.0) for A in DATA], shape=(8, 2))
    result = destiny.solve(problem, destiny.networks.ring(AGENTS), start=answer, rounds=30)
    assert not notes(result)
