"""How much of their moves asynchronous agents make, and that momentum makes up for the rest."""

from dataclasses import replace

import numpy as np
import pytest

import destiny
from destiny.extensions.asynchronous.async_friction import (
    GAIN,
    GAIN_LEAST,
    GAIN_MOST,
    next_friction,
    no_friction,
)
from destiny.extensions.asynchronous.async_state import nearby_gain
from tests.helpers.async_agents import AsyncAgents
from tests.helpers.small_problems import small_problem

ONE = np.ones(())


def after(gain, wakes=2000, noise=0.3, delay=1.0, seed=0):
    """The friction of an agent alone, in a motion of which this share is made, with noise in all moves."""
    rng, friction = np.random.default_rng(seed), no_friction(np.zeros((30, 3)))
    direction = rng.standard_normal((30, 3))
    for _ in range(wakes):
        a, b = noise * rng.standard_normal((2, 30, 3))
        friction = next_friction(
            friction, friction.gain, gain * direction + a, direction + b, np.asarray(delay)
        )
    return friction


@pytest.mark.parametrize("gain", [0.9, 0.99, 1.05])
@pytest.mark.parametrize("delay", [1.0, 3.0])
def test_the_gain_is_the_share_of_a_motion_that_is_made(gain, delay):
    assert after(gain, delay=delay).gain == pytest.approx(gain, abs=0.005)


@pytest.mark.parametrize("gain", [0.9, 0.99])
def test_momentum_near_one_makes_up_for_what_is_missing(gain):
    friction = replace(no_friction(np.zeros((2, 1))), gain=np.asarray(gain))
    mu = np.asarray(0.9999)
    assert gain * friction.made_up(mu) == pytest.approx(GAIN * mu, abs=1e-3)
    small = np.asarray(0.6)
    assert friction.made_up(small) == pytest.approx(small, abs=1e-5), "there is no need to"


@pytest.mark.parametrize("gain", [GAIN, 1.3])
def test_what_nothing_is_missing_from_stays(gain):
    friction = replace(no_friction(np.zeros((2, 1))), gain=np.asarray(gain))
    assert friction.made_up(np.asarray(0.99)) == 0.99


def test_without_a_motion_an_agent_believes_its_neighbors():
    start = no_friction(np.zeros((4, 2)))
    still = next_friction(start, np.asarray(0.97), np.zeros((4, 2)), np.zeros((4, 2)), ONE)
    back = next_friction(start, np.asarray(0.97), np.ones((4, 2)), -np.ones((4, 2)), ONE)
    assert (still.gain, back.gain) == (0.97, 0.97)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_a_gain_stays_in_its_range(factor):
    gain = after(factor, wakes=500, noise=0.0).gain
    assert GAIN_LEAST <= gain <= GAIN_MOST
    assert gain == pytest.approx(GAIN_LEAST if factor < 1 else GAIN_MOST)


def test_agents_average_their_gains():
    agents = AsyncAgents(small_problem("pca", 6), destiny.networks.ring(6))
    state, agent = agents.states[0], agents.agents[0]
    assert nearby_gain(state, agent) == pytest.approx(GAIN)
    heard = replace(state, inbox=replace(state.inbox, gain=np.array([0.9, 0.96])))
    assert nearby_gain(heard, agent) == pytest.approx((GAIN + 0.9 + 0.96) / 3)


def test_lost_messages_are_friction_and_fast_agents_are_not():
    """All agents of a network agree on the gain, as their messages say."""
    problem, network = small_problem("pca", 6), destiny.networks.ring(6)
    agents = AsyncAgents(problem, network, ahead=True)
    for _ in agents.chaos(np.random.default_rng(0), 1500, loss=0.5, late=0.0, double=0.0):
        pass
    gains = [float(s.friction.gain) for s in agents.states]
    assert max(gains) < GAIN
    assert max(gains) - min(gains) < 0.1
    assert agents.wake(0).gain == agents.states[0].friction.gain
