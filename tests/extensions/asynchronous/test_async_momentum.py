"""The momentum of asynchronous agents: growth, restarts, and the ceiling where trackers grow."""

from dataclasses import replace

import numpy as np
import pytest

import destiny
from destiny.extensions import asynchronous
from destiny.extensions.asynchronous.async_momentum import AGE_MOST, CEILING_LEAST, next_momentum, no_momentum
from destiny.extensions.asynchronous.async_state import nearby
from tests.helpers.async_agents import AsyncAgents
from tests.helpers.small_problems import small_problem

ONE = np.ones(())
UPHILL, DOWNHILL = np.eye(3), -np.eye(3)


def after(momentum, tracker, move, delay=1.0, cosine=0.0, slower=1.0, own_word=1.0):
    """The next momentum of an agent whose neighbors have the same age and ceiling."""
    near = replace(momentum, cosine=np.asarray(cosine))
    return next_momentum(near, tracker * np.eye(3), move, delay * ONE, slower, own_word)


def watched(age, tracker, wakes=1000.0, ceiling=AGE_MOST):
    return replace(
        no_momentum(),
        age=age * ONE,
        ceiling=ceiling * ONE,
        size=tracker * ONE * np.sqrt(3),
        watched=wakes * ONE,
    )


def test_downhill_the_age_grows_as_in_nesterovs_sequence():
    momentum = no_momentum()
    for k in range(1, 40):
        momentum = after(momentum, 1.0, DOWNHILL)
        assert momentum.age == k
        assert momentum.mu == pytest.approx(k / (k + 3))
        assert momentum.cosine == pytest.approx(-1)
    assert after(momentum, 1.0, DOWNHILL, delay=4.0).age == momentum.age + 0.25
    assert watched(1e9, 1.0).mu == 0.999


def test_uphill_the_age_is_halved_unless_the_neighbors_go_downhill():
    momentum = watched(40.0, 1.0, wakes=0.0)
    assert after(momentum, 1.0, UPHILL).age == 20
    damping = 3 / 43
    assert after(momentum, 1.0, UPHILL, cosine=-0.41 * damping).age == 41
    assert after(momentum, 1.0, UPHILL, cosine=-0.39 * damping).age == 20
    assert after(momentum, 1.0, UPHILL, cosine=-0.39 * damping, delay=2.0).age == 40.5


def test_a_tracker_that_grew_from_one_restart_to_the_next_lowers_the_ceiling():
    grown = after(watched(40.0, 1.0), 1.3, UPHILL)
    assert grown.ceiling == 20
    assert grown.size == pytest.approx(1.3 * np.sqrt(3))
    assert grown.watched == 0
    for _ in range(30):
        grown = after(grown, 1.3, DOWNHILL)
    assert grown.age == pytest.approx(20 + 0.02 * 29)  # the ceiling rises by 0.02 in a wake
    assert grown.ceiling == pytest.approx(20 + 0.02 * 30)
    for _ in range(5):
        grown = after(watched(float(grown.age), 1.0, ceiling=float(grown.ceiling)), 1.3, UPHILL)
    assert grown.ceiling == CEILING_LEAST


def test_a_tracker_that_did_not_grow_raises_it_again():
    better = after(watched(20.0, 1.0, ceiling=20.0), 1.1, UPHILL)
    assert better.ceiling == pytest.approx(24)
    assert after(watched(20.0, 1.0), 0.5, UPHILL).ceiling == AGE_MOST


def test_growth_counts_where_it_is_more_than_noise():
    """Not before the first restart, not soon after the last one, and less so where messages are late."""
    assert after(watched(40.0, 0.0), 1.3, UPHILL).ceiling == AGE_MOST
    assert after(watched(40.0, 1.0, wakes=39.0), 1.3, UPHILL).ceiling == AGE_MOST
    assert after(watched(40.0, 1.0, wakes=40.0), 1.3, UPHILL).ceiling == 20
    assert after(watched(40.0, 1.0), 1.3, UPHILL, delay=2.0).ceiling == AGE_MOST
    assert after(watched(40.0, 1.0), 2.5, UPHILL, delay=2.0).ceiling == 20


def test_a_slow_agent_watches_by_the_wakes_of_its_neighbors():
    """What only it knows grows in a few of its own wakes, in which its neighbors make many moves."""
    soon = watched(40.0, 1.0, wakes=30.0)
    assert after(soon, 1.3, UPHILL).ceiling == AGE_MOST
    assert after(soon, 1.3, UPHILL, slower=20.0).ceiling == 20
    assert after(soon, 1.3, DOWNHILL, slower=20.0).watched == 50


def test_without_gradient_or_move_nothing_is_uphill():
    still = after(watched(10.0, 1.0), 0.0, UPHILL)
    assert still.age == 11
    assert still.cosine == 0
    assert after(watched(10.0, 1.0), 1.0, 0 * UPHILL).age == 11


def heard(cosine, cosines, rate, uses=1.0, age=40.0):
    """The mean cosine of an agent of a ring and its two neighbors, and the momentum that follows."""
    agents = AsyncAgents(small_problem("pca", 6), destiny.networks.ring(6))
    state, agent = agents.states[0], agents.agents[0]
    news = replace(
        state.inbox,
        cosine=np.asarray(cosines),
        rate=np.asarray(rate),
        uses=np.array([uses, 1.0]),
        age=np.full(2, age),
    )
    mine = replace(state.momentum, cosine=np.asarray(cosine), age=age * ONE)
    near = nearby(replace(state, inbox=news, momentum=mine), agent)
    move = UPHILL if cosine > 0 else DOWNHILL
    return float(near.cosine), next_momentum(near, np.eye(3), move, ONE, 1.0, 1.0)


def test_a_word_counts_by_how_slow_its_speaker_is():
    """On a ring all weights are 1/3; rates are wakes of the neighbors during one of this agent."""
    assert heard(0.3, [-0.6, -0.6], [1.0, 1.0])[0] == pytest.approx(-0.3)
    assert heard(0.3, [-0.6, -0.6], [10.0, 10.0])[0] == pytest.approx((0.3 - 0.12) / 1.2)
    assert heard(0.3, [-0.6, 0.0], [0.1, 1.0])[0] == pytest.approx((0.3 - 6.0) / 12)


def test_a_slow_agent_that_goes_uphill_is_not_outvoted_by_fast_ones():
    """What they do between two of its wakes is mostly noise; it alone may know a direction that grows."""
    assert heard(0.4, [-0.7, -0.7], [20.0, 20.0])[1].age == 20
    assert heard(0.4, [-0.7, -0.7], [1.0, 1.0])[1].age == 41


def test_a_fast_agent_does_not_restart_where_a_slow_one_goes_downhill():
    assert heard(1.0, [-1.0, 1.0], [0.05, 1.0])[1].age == 41
    assert heard(1.0, [-1.0, 1.0], [1.0, 1.0])[1].age == 20


def test_who_is_silent_for_long_has_no_more_to_say_than_others():
    """Its rate sinks for ever; its last word must not keep its neighbors from restarts."""
    assert heard(1.0, [-1.0, 1.0], [1e-9, 1.0], uses=40.0)[0] == pytest.approx((2 - 20) / 22)
    cosine, momentum = heard(1.0, [-1.0, 1.0], [1e-9, 1.0], uses=41.0)
    assert cosine == pytest.approx(1 / 3)
    assert momentum.age == 20


def test_on_a_long_ring_a_word_is_mostly_hearsay():
    """Cosines of an agent and two neighbors are noise there; what they tell is a mean over many."""
    told = after(watched(40.0, 1.0), 1.0, UPHILL, cosine=-0.2, own_word=0.25)
    assert told.cosine == pytest.approx(0.75 * -0.2 + 0.25)
    shares = [asynchronous.DestinyAsync(lambda_=x).own_word for x in (0.0, 0.87, 0.95, 0.9875)]
    assert shares == pytest.approx([1, 1, 0.4, 0.1])
