"""Sums in fixed point: exact, independent of order, never beyond 64 bits, with exponents by the rule."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import destiny
from destiny.engines.fixed_point import (
    BITS,
    GRAIN,
    HEAD,
    LEAST,
    MOST,
    NOT_FINITE,
    OUTSIDE,
    RENEW,
    Agreed,
    Exponents,
    Neighbours,
    decide,
    decode,
    encode,
    layout,
)
from tests.helpers.small_problems import agents_of, small_problem

numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6)


def private_agents(network, threads=1):
    agents = agents_of(small_problem("pca", network.agents), network, threads)
    agents.sum_privately(network.diameter)
    return agents


def test_narrow_arrays_have_an_exponent_per_column_and_wide_ones_one():
    columns = layout((9, 1, 3, 20))
    assert columns.width == 33
    assert columns.starts.tolist() == [0, 9, 10, 11, 12, 13]
    assert columns.group.tolist() == [0] * 9 + [1, 2, 3, 4] + [5] * 20


@given(numbers)
def test_exponents_are_the_least_coarse_ones_that_fit(values):
    found = layout((1,) * len(values)).exponents(np.array([values]))[0]
    for value, exponent in zip(values, found.tolist(), strict=True):
        assert exponent % GRAIN == 0
        assert LEAST <= exponent <= MOST
        assert abs(Fraction(value)) < Fraction(2) ** exponent
        assert exponent == LEAST or abs(Fraction(value)) >= Fraction(2) ** (exponent - GRAIN)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_an_exponent_of_its_own_and_becomes_nan(value):
    columns = layout((2, 12))
    assert columns.exponents(np.array([[1.0, value] + [2.0] * 12])).tolist() == [[4, NOT_FINITE, 4]]
    agents = private_agents(destiny.networks.ring(5))
    X = np.ones((5, 2))
    X[1, 1] = value
    with np.errstate(invalid="ignore"):
        mixed, wide = agents.mix(X, np.ones((5, 12)))
    assert np.isfinite(wide).all()
    assert np.isfinite(mixed[:, 0]).all()
    assert np.isnan(mixed[[0, 2], 1]).all(), "its neighbours hear no number"
    assert np.isfinite(mixed[[3, 4], 1]).all()


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats(0, 1)), min_size=1, max_size=30))
def test_sums_are_exact_to_half_a_unit_each_and_never_overflow(pairs):
    values, weights = np.array([[a] for a, _ in pairs]), np.array([w for _, w in pairs])
    weights /= max(1.0, float(sum(Fraction(w) for w in weights)) * (1 + 1e-15))
    columns = layout((1,))
    largest = columns.exponents(values).max(axis=0)
    chosen = decide(np.array([LEAST]), largest, fresh=True)
    unit = columns.unit(chosen)
    contributions = encode(values, weights, unit)
    exact = sum(int(c) for c in contributions.ravel())
    assert abs(exact) <= 2 ** (BITS - HEAD) + len(pairs)
    assert int(contributions.sum()) == exact
    true = sum(Fraction(a) * Fraction(w) for a, w in zip(values.ravel(), weights, strict=True))
    step = Fraction(2) ** (int(chosen[0]) - BITS)
    size = Fraction(2) ** int(largest[0])
    allowed = len(pairs) * (step / 2 + size * Fraction(2) ** -53) + abs(true) * Fraction(2) ** -52
    assert abs(Fraction(float(decode(np.array([exact]), unit)[0])) - true) <= allowed


def test_the_rule_renews_all_raises_what_does_not_fit_and_leaves_the_rest():
    before = np.array([8, 8, 8, 8])
    largest = np.array([0, 8, 12, NOT_FINITE])
    assert decide(before, largest, fresh=False).tolist() == [8, 8, 12 + HEAD, 8]
    assert decide(before, largest, fresh=True).tolist() == [HEAD, 8 + HEAD, 12 + HEAD, 8]


def test_a_slot_is_fresh_when_new_and_after_so_many_uses():
    known = Exponents(0, np.zeros((1, 1), dtype=np.int64))
    fresh = []
    for _ in range(2 * RENEW + 1):
        fresh.append(known.fresh)
        known.uses += 1
    assert [k for k, new in enumerate(fresh) if new] == [0, RENEW, 2 * RENEW]


@pytest.mark.parametrize("network", [destiny.networks.ring(7), destiny.networks.complete(7)], ids=str)
def test_mix_is_the_weighted_average_and_keeps_the_mean(network, rng):
    agents = private_agents(network)
    X, Y = rng.standard_normal((2, 7, 12, 3)) * np.array([1e-9, 1e12])[:, None, None, None]
    x, y = agents.mix(X, Y)
    for mixed, own in ((x, X), (y, Y)):
        expected = np.einsum("ij,jnp->inp", network.W.toarray(), own)
        np.testing.assert_allclose(mixed, expected, atol=1e-15 * np.abs(own).max())
        np.testing.assert_allclose(mixed.mean(axis=0), own.mean(axis=0), atol=1e-15 * np.abs(own).max())
    assert agents.traffic.rounds == 1
    assert agents.traffic.scalars == 2 * len(network.edges) * 72


def test_every_receiver_has_exponents_of_its_own_neighbours_alone(rng):
    network = destiny.networks.ring(8)
    agents = private_agents(network)
    X = rng.standard_normal((8, 20))
    X[3] *= 1e6
    agents.mix(X)
    (known,) = agents.agreed.slots.values()
    table = known.table[:, 0].copy()
    assert (table[[2, 4]] >= 20).all(), "its neighbours hear large numbers"
    assert (table[[0, 1, 3, 5, 6, 7]] <= 8).all()
    X[3] /= 1e6
    X[5] *= 1e3
    agents.mix(X)
    after = known.table[:, 0]
    assert (after[[2, 4]] == table[[2, 4]]).all(), "what fits changes nothing"
    assert after[6] > table[6]


def test_calls_of_a_step_have_slots_of_their_own_and_rounds_of_a_call_share_one():
    agents = private_agents(destiny.networks.ring(5))
    X = np.ones((5, 10))
    agents.mix(X)
    agents.mix(X)
    for _ in range(3):
        agents.begin_step()
        agents.mix(X, rounds=4)
        agents.mix(1e9 * X)
    agents.end_steps()
    agents.mix(X)
    uses = {slot: known.uses for slot, known in agents.agreed.slots.items()}
    assert uses == {(OUTSIDE, (10,)): 3, (0, (10,)): 12, (1, (10,)): 3}


def test_exponents_go_through_a_checkpoint(rng):
    agents = private_agents(destiny.networks.ring(5))
    agents.begin_step()
    agents.mix(rng.standard_normal((5, 10)), rng.standard_normal((5, 1)))
    arrays = agents.agreed.arrays()
    loaded = Agreed.load(5, arrays | {"other": np.zeros(3)})
    assert loaded.slots.keys() == agents.agreed.slots.keys()
    for slot, known in agents.agreed.slots.items():
        assert loaded.slots[slot].uses == known.uses
        assert (loaded.slots[slot].table == known.table).all()
    name = next(iter(arrays))
    with pytest.raises(ValueError, match="shape"):
        Agreed.load(5, {name: arrays[name][:, :-1]})


def test_neighbours_of_rows_leave_the_agent_itself_out():
    W = destiny.networks.star(4).W
    found = Neighbours.of(W, W, np.arange(4))
    np.testing.assert_allclose(found.own, W.diagonal())
    assert [p.tolist() for p in found.places] == [[1, 2, 3], [0], [0], [0]]
