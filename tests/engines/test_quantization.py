"""Messages of few bits: what is rounded, what is kept, what a message holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import destiny
from destiny.engines.mixers.quantized import LEAST, NARROW, OUTSIDE, Quantized, layout, quantize
from tests.helpers.small_problems import agents_of, small_problem

RNG = np.random.default_rng(0)
numbers = arrays(np.float64, (3, 11), elements=st.floats(-1e300, 1e300))
BITS = (8, 16)


def agents_with(bits, network, threads=1):
    agents = agents_of(small_problem("pca", network.agents), network, threads, messages=Quantized(bits))
    agents.mixer.begin({})
    return agents


@pytest.mark.parametrize("bits", BITS)
@given(A=numbers)
def test_products_are_within_half_a_unit_and_units_as_small_as_can_be(bits, A):
    unit, whole = quantize(A, bits)
    most = 2 ** (bits - 1) - 1
    assert whole.dtype == np.dtype(f"int{bits}")
    assert (np.abs(whole.astype(int)) <= most).all()
    size = np.abs(A).max(axis=1, keepdims=True)
    np.testing.assert_allclose(unit, np.where(size / most < LEAST, 0, size / most), rtol=1e-15)
    assert (np.abs(whole * unit - A) <= np.maximum(0.5000001 * unit, most * LEAST)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_becomes_nan_at_this_agent_alone(value):
    A = np.ones((3, 10))
    A[1, 4] = value
    with np.errstate(invalid="ignore"):
        unit, whole = quantize(A, 8)
        products = whole * unit
    assert np.isnan(products[1]).all()
    np.testing.assert_array_equal(products[[0, 2]], 1)


@pytest.mark.parametrize("bits", BITS)
def test_a_message_holds_integers_then_numbers_and_can_be_read_by_others(bits):
    widths = (9, 1, NARROW, 21)
    columns = layout(widths, bits)
    blocks = [RNG.standard_normal((4, width)) for width in widths]
    parts = [(b, None) if b.shape[1] <= NARROW else quantize(b, bits) for b in blocks]
    words, front = columns.pack(parts)
    assert words.shape == (4, -(-30 * bits // 64))
    assert front.shape == (4, 1 + 1 + NARROW + 1)
    found = columns.unpack(words.copy(), np.column_stack([front, np.ones(4)]))
    for block, got in zip(blocks, found, strict=True):
        narrow = block.shape[1] <= NARROW
        error = 0 if narrow else np.abs(block).max(axis=1, keepdims=True) / (2**bits - 3)
        assert (np.abs(got - block) <= error).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_repeated_mixing_keeps_the_mean_and_finds_it(threads):
    """Plain gossip of whole numbers of 64 bits and of 8 have the same limit: the mean, to rounding."""
    network = destiny.networks.ring(5)
    agents = agents_with(8, network) if threads == 1 else None
    if agents is None:
        team = destiny.engines.local(2).connect(small_problem("pca", 5), network, Quantized(8))
        for worker in team.workers:
            worker.mixer.begin({})
    X = RNG.standard_normal((5, 4, 3))
    mean = X.mean(axis=0)
    if agents is None:
        parts = team.each(lambda part, w: w.mix(part, rounds=120)[0], team.split(X))
        Y = np.concatenate(parts)
        team.close()
    else:
        (Y,) = agents.mix(X, rounds=120)
    np.testing.assert_allclose(Y.mean(axis=0), mean, atol=1e-14)
    np.testing.assert_allclose(Y, np.broadcast_to(mean, Y.shape), atol=1e-13)


def test_one_round_is_that_of_64_bits_up_to_a_unit_and_narrow_arrays_are_exact():
    network = destiny.networks.ring(5)
    agents = agents_with(8, network)
    X, y = RNG.standard_normal((5, 30)), RNG.standard_normal((5, 2))
    WX, Wy = agents.mix(X, y)
    np.testing.assert_allclose(WX, network.W @ X, atol=np.abs(X).max() / 127)
    np.testing.assert_array_equal(Wy, network.W @ y)
    assert agents.traffic.scalars == 10 * 32
    assert agents.traffic.bytes == 10 * 8 * (4 + 1 + 2)  # 30 integers in 4 words, a unit, two numbers


def test_copies_belong_to_a_call_and_calls_again_share_them():
    agents = agents_with(8, destiny.networks.ring(5))
    X = RNG.standard_normal((5, 30))
    agents.mix(X)
    for _ in range(2):
        agents.mixer.begin_step()
        agents.mix(X, X[:, :3], rounds=3)
        agents.mix(X)
        agents.mix(X, again=True)
    assert agents.mixer.pairs.keys() == {((0, 0), 30), ((1, 0), 30)}
    np.testing.assert_allclose(agents.mixer.pairs[(1, 0), 30][:, 0], X, atol=1e-8)  # sent four times
    arrays_kept = agents.mixer.arrays()
    loaded = Quantized(8).mixer(5, 5)
    loaded.begin(arrays_kept | {"X": X})
    assert loaded.pairs.keys() == agents.mixer.pairs.keys()
    for key, pair in loaded.pairs.items():
        np.testing.assert_array_equal(pair, agents.mixer.pairs[key])
    name = next(iter(arrays_kept))
    with pytest.raises(ValueError, match="has shape"):
        Quantized(8).mixer(5, 5).begin({name: arrays_kept[name][:, :1]})
    agents.mixer.end_steps()
    assert agents.mixer.pairs.keys() == {((OUTSIDE, 0), 30)}


def test_the_last_averaging_knows_the_iterates_of_the_steps():
    network = destiny.networks.ring(5)
    agents, X = agents_with(8, network), RNG.standard_normal((5, 30))
    for _ in range(6):
        agents.mixer.begin_step()
        agents.mix(X)
    agents.mixer.end_steps()
    np.testing.assert_allclose(agents.mix(X)[0], network.W @ X, atol=1e-12)
