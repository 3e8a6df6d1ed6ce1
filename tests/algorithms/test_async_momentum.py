"""The momentum of asynchronous agents: growth, restarts, and the ceiling where trackers grow."""

from dataclasses import replace

import numpy as np
import pytest

from destiny.algorithms.blocks.async_momentum import AGE_MOST, CEILING_LEAST, next_momentum, no_momentum

ONE = np.ones(())
UPHILL, DOWNHILL = np.eye(3), -np.eye(3)


def after(momentum, tracker, move, delay=1.0, cosine=0.0):
    """The next momentum of an agent whose neighbours have the same age and ceiling."""
    near = replace(momentum, cosine=np.asarray(cosine))
    return next_momentum(near, tracker * np.eye(3), move, delay * ONE)


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
    assert watched(1e9, 1.0).mu == 0.995


def test_uphill_the_age_is_halved_unless_the_neighbours_go_downhill():
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
    assert grown.age == pytest.approx(20 + 0.05 * 29)  # the ceiling rises by 0.05 in a wake
    assert grown.ceiling == pytest.approx(20 + 0.05 * 30)
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


def test_without_gradient_or_move_nothing_is_uphill():
    still = after(watched(10.0, 1.0), 0.0, UPHILL)
    assert still.age == 11
    assert still.cosine == 0
    assert after(watched(10.0, 1.0), 1.0, 0 * UPHILL).age == 11
