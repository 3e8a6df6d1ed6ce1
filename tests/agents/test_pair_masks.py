"""Masks between pairs cancel in the total over all agents of one past, and in no other sum."""

import hashlib
import hmac
import struct
from itertools import combinations
from math import comb, factorial, log2

import networkx as nx
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from destiny.agents.privacy.pair_masks import CYCLES, PIECE, PairMasks, Past, pair_secret, partners
from destiny.agents.transport.messages import Refusal
from destiny.engines.words import OutOfRangeError, add_into, from_narrow, to_narrow

PAST = Past(b"settings").digest
# Above a piece: masks are made in pieces, the last one being shorter.
SHAPES = [(7,), (PIECE // 8 + 5,), (3, 6), (PIECE // 48 + 3, 6)]


def secret(i, j):
    return hashlib.sha256(f"{min(i, j)} {max(i, j)}".encode()).digest()


def masks_of(own, others):
    return PairMasks(own, {j: secret(own, j) for j in others if j != own})


def integers(words):
    """Of narrow words, or of wide ones, as Python's integers; and their modulus."""
    raw = np.ascontiguousarray(words, dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little") for row in raw], 2 ** (8 * raw[0].nbytes)


def stream(i, j, past, shape):
    """The mask of a pair: AES-256-CTR from 0 under HMAC-SHA256(secret, past)."""
    key = hmac.new(secret(i, j), past, hashlib.sha256).digest()
    made = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * np.prod(shape)))
    return np.frombuffer(made, dtype="<u8").reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_subset_of_agents_keeps_the_masks_that_it_shares_with_the_others(shape):
    agents = range(4)
    own = np.random.default_rng(0).integers(0, 2**64, (4, *shape), dtype=np.uint64)
    masked = own.copy()
    for i in agents:
        masks_of(i, agents).add_to(masked[i], PAST)
    for size in range(1, 5):
        for subset in combinations(agents, size):
            kept = []
            for i in subset:
                found, modulus = integers(masked[i])
                kept.append([a - b for a, b in zip(found, integers(own[i])[0], strict=True)])
            left = [
                (1 if i < j else -1) * np.array(integers(stream(i, j, PAST, shape))[0], dtype=object)
                for i in subset
                for j in agents
                if j not in subset
            ]
            expected = sum(left, np.zeros(shape[0], dtype=object))
            difference = (np.array(kept, dtype=object).sum(axis=0) - expected) % modulus
            assert not difference.any()
            assert size == 4 or (expected % modulus).all(), "no word is bare"


def total_of(values, bounds, pasts):
    total = np.zeros(values.shape[1], dtype=np.uint64)
    for i, (value, past) in enumerate(zip(values, pasts, strict=True)):
        words = to_narrow(value, bounds)
        masks_of(i, range(len(values))).add_to(words, past)
        add_into(total, words)
    return total


def test_agents_with_different_pasts_get_no_total(rng):
    values = rng.standard_normal((5, 300))
    bounds = np.abs(values).sum(axis=0)
    found = from_narrow(total_of(values, bounds, [PAST] * 5), bounds)
    np.testing.assert_allclose(found, values.sum(axis=0), atol=1e-15 * bounds.max())
    one, other = Past(b"settings"), Past(b"settings")
    one.add(b"a total")
    other.add(b"another total")
    total = total_of(values, bounds, [one.digest] * 4 + [other.digest])
    with pytest.raises(OutOfRangeError, match="have not added up numbers of one sum"):
        from_narrow(total, bounds)
    ones = np.unpackbits(total.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(total.nbytes * 8), "each bit is a toss of a coin"


def test_an_agent_without_partners_adds_nothing():
    words = np.arange(5, dtype=np.uint64)
    PairMasks(0, {}).add_to(words, PAST)
    assert words.tolist() == [0, 1, 2, 3, 4]


def test_secrets_are_not_shown():
    assert "secrets" not in repr(masks_of(0, range(3)))


def test_both_agents_of_a_pair_find_the_secret_of_the_standards():
    """HKDF of RFC 5869 written out with the standard library."""
    one, two = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    publics = [key.public_key().public_bytes_raw() for key in (one, two)]
    found = pair_secret(one, publics[1], "run", 7, 2)
    assert found == pair_secret(two, publics[0], "run", 2, 7)
    info = b"destiny pair masks 1\0" + struct.pack("<QQ", 2, 7) + b"run"
    extracted = hmac.new(bytes(32), one.exchange(two.public_key()), hashlib.sha256).digest()
    assert found == hmac.new(extracted, info + b"\1", hashlib.sha256).digest()
    others = [("run 2", 7, 2), ("run", 7, 3), ("run", 6, 2)]
    assert len({found, *(pair_secret(one, publics[1], *other) for other in others)}) == 4


@pytest.mark.parametrize(
    "key", [bytes(32), b"\1" + bytes(31), bytes(31), b""], ids=["0", "1", "short", "empty"]
)
def test_what_is_no_key_is_refused(key):
    with pytest.raises(Refusal, match="a key of agent 2 that cannot be used"):
        pair_secret(X25519PrivateKey.generate(), key, "run", 1, 2)


@pytest.mark.parametrize("count", [1, 2, 5, 256])
def test_in_small_networks_all_agents_are_partners(count):
    for own in range(count):
        assert partners(count, b"seed", own) == [j for j in range(count) if j != own]


@pytest.mark.parametrize("count", [257, 300])
@pytest.mark.parametrize("seed", [b"", b"seed"])
def test_in_large_networks_partners_are_a_connected_symmetric_graph(count, seed):
    found = [partners(count, seed, own) for own in range(count)]
    for own, others in enumerate(found):
        assert others == sorted(set(others))
        assert own not in others
        assert all(own in found[other] for other in others)
    graph = nx.Graph([(own, other) for own, others in enumerate(found) for other in others])
    assert len(graph) == count
    assert nx.is_connected(graph)
    # Of 2 log2(count) + 20 draws at most some are the same.
    drawn = 2 * ((count - 1).bit_length() + CYCLES)
    expected = (count - 1) * (1 - (1 - 2 / (count - 1)) ** (drawn / 2))
    assert max(map(len, found)) <= drawn
    assert abs(np.mean([len(others) for others in found]) - expected) < 1
    assert found[0] != partners(count, seed + b"2", 0)


def test_the_graph_is_the_same_on_every_machine():
    """Drawn and ordered by Python alone."""
    count, near = 257, set()
    numbers = hashlib.shake_256(b"destiny mask graph 1\0" + struct.pack("<Q", count) + b"seed").digest(
        8 * 19 * count
    )
    for start in range(0, len(numbers), 8 * count):
        keys = struct.unpack(f"<{count}Q", numbers[start : start + 8 * count])
        order = sorted(range(count), key=keys.__getitem__)
        place = order.index(3)
        near |= {order[(place + 1) % count], order[(place - 1) % count]}
    assert partners(count, b"seed", 3) == sorted(near)


def test_honest_agents_stay_connected_where_half_collude(rng):
    count, seed = 80, rng.bytes(32)
    graph = nx.Graph([(own, other) for own in range(count) for other in partners(count, seed, own)])
    for _ in range(20):
        assert nx.is_connected(graph.subgraph(rng.permutation(count)[: count // 2].tolist()))


def apart(honest, colluding, one):
    """The probability that in a random cycle no honest agent of a set of size `one` is next to another one.

    The colluding agents leave gaps, each of which has agents of the set alone, or of the others.
    """
    rest = honest - one
    ways = sum(
        comb(colluding, gaps) * comb(one - 1, gaps - 1) * comb(colluding - gaps + rest - 1, rest)
        for gaps in range(1, min(colluding - 1, one) + 1)
    )
    ways *= factorial(colluding - 1) * factorial(one) * factorial(rest)
    return ways / factorial(honest + colluding - 1)


@pytest.mark.parametrize("count", [65, 128, 256])
@pytest.mark.parametrize(("part", "most"), [(2, -27), (3, -47)])
def test_the_probability_that_honest_agents_fall_apart_is_as_documented(count, part, most):
    """At most the sum over all sets of honest agents of the probability that it is apart in every cycle."""
    colluding = count // part
    honest, cycles = count - colluding, (count - 1).bit_length() + CYCLES
    sets = range(1, honest // 2 + 1)
    assert log2(sum(comb(honest, one) * apart(honest, colluding, one) ** cycles for one in sets)) < most


def test_the_past_is_a_chain_of_all_that_was_agreed():
    past = Past(b"settings", b"plan")
    expected = hashlib.sha256(b"destiny past 1").digest()
    for fact in (b"settings", b"plan"):
        expected = hashlib.sha256(expected + fact).digest()
    assert past.digest == expected
    seen = {past.digest, Past().digest, Past(b"settingsplan").digest, Past(b"plan", b"settings").digest}
    for _ in range(3):
        past.add(b"the same total")
        seen.add(past.digest)
    assert len(seen) == 7, "equal totals are counted"
    again = Past.resume(past.digest)
    again.add(b"x")
    past.add(b"x")
    assert again.digest == past.digest
