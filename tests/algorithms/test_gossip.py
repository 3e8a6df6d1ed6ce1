"""Several rounds at once: plain, Chebyshev, FastMix; steps that even out."""

import numpy as np
import pytest

import destiny
from destiny.algorithms.blocks.gossip import chebyshev, contraction, fast_mix, rounds_for
from destiny.algorithms.blocks.scheme import mix_with_step_size
from destiny.algorithms.blocks.step_sizes import Constant, Lipschitz, Pace
from tests.helpers.small_problems import agents_of, small_problem


@pytest.fixture
def ring():
    return destiny.networks.ring(16)


@pytest.fixture
def agents(ring):
    return agents_of(small_problem("pca", agents=16), ring)


def spread(X):
    return np.linalg.norm(X - X.mean(axis=0))


@pytest.mark.parametrize("rounds", [1, 2, 10, 40])
def test_chebyshev_contracts_as_its_bound_says_and_keeps_the_mean(agents, ring, rounds, rng):
    X = rng.standard_normal((16, 5, 2))
    (Y,) = chebyshev(agents, X, rounds=rounds, lambda_=ring.lambda_)
    c = ring.lambda_ / (1 + np.sqrt(1 - ring.lambda_**2))
    assert spread(Y) <= 1.000001 * 2 * c**rounds / (1 + c ** (2 * rounds)) * spread(X)
    np.testing.assert_allclose(Y.mean(axis=0), X.mean(axis=0), atol=1e-14)
    assert agents.traffic.rounds == rounds


@pytest.mark.parametrize("lambda_", [0.0, 1e-9, 0.3, 0.99])
def test_the_fewest_rounds_for_an_accuracy(lambda_):
    rounds = rounds_for(1e-12, lambda_)
    assert contraction(rounds, lambda_) <= 1e-12 or rounds == 1
    assert rounds == 1 or contraction(rounds - 1, lambda_) > 1e-12


def test_chebyshev_is_a_polynomial_of_the_mixing_matrix(agents, ring, rng):
    X = rng.standard_normal((16, 4))
    W, l = ring.W.toarray(), ring.lambda_
    T = [np.eye(16), W / l, 2 * (W / l) @ (W / l) - np.eye(16)]
    scale = 2 / l**2 - 1  # T_2(1/l)
    (Y,) = chebyshev(agents, X, rounds=2, lambda_=l)
    np.testing.assert_allclose(Y, T[2] @ X / scale, atol=1e-13)


@pytest.mark.parametrize("rounds", [1, 7])
def test_fast_mix_is_its_recursion_and_keeps_the_mean(agents, ring, rounds, rng):
    X = rng.standard_normal((16, 4))
    W, root = ring.W.toarray(), np.sqrt(1 - ring.lambda_**2)
    q = (1 - root) / (1 + root)
    before, now = X, X
    for _ in range(rounds):
        before, now = now, (1 + q) * W @ now - q * before
    (Y,) = fast_mix(agents, X, rounds=rounds, lambda_=ring.lambda_)
    np.testing.assert_allclose(Y, now, atol=1e-13)
    np.testing.assert_allclose(Y.mean(axis=0), X.mean(axis=0), atol=1e-13)


def test_accelerated_rounds_count_for_more_on_a_ring(agents, ring, rng):
    X = rng.standard_normal((16, 4))
    plain = spread(agents.mix(X, rounds=30)[0])
    for gossip in (chebyshev, fast_mix):
        assert spread(gossip(agents, X, rounds=30, lambda_=ring.lambda_)[0]) < 0.01 * plain


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.999])
def test_a_wrong_lambda_does_no_more_harm_than_slowness(agents, lambda_, rng):
    X = rng.standard_normal((16, 4))
    for gossip in (chebyshev, fast_mix):
        (Y,) = gossip(agents, X, rounds=60, lambda_=lambda_)
        assert spread(Y) < spread(X)


def test_steps_even_out_unless_they_were_given(agents, rng):
    X = rng.standard_normal((16, 3, 2))
    pace = Pace.start(rng.random((16, 1, 1)), np.ones((16, 1, 1)))
    _, kept = mix_with_step_size(agents, Constant(0.1), pace, X)
    assert kept is pace
    after = pace
    for _ in range(300):
        _, after = mix_with_step_size(agents, Lipschitz(), after, X)
    np.testing.assert_allclose(after.eta, pace.eta.mean(), rtol=1e-6)


def test_the_shortest_step_draws_all_others_down(agents):
    rule = Lipschitz(1.0)
    curvature = np.ones((16, 1, 1))
    curvature[5] = 4.0
    pace = Pace.start(1 / curvature, np.ones((16, 1, 1)))
    for _ in range(4000):
        _, pace = mix_with_step_size(agents, rule, pace, np.zeros((16, 1)))
        pace = destiny.steps.replace(pace, eta=destiny.steps.limit_step(pace.eta, 1.0, curvature))
    np.testing.assert_allclose(pace.eta, 0.25, rtol=1e-6)
