import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

from destiny import networks
from destiny.errors import NetworkError
from destiny.networks.time_varying import greedy_matching

BASES = {
    "one": networks.ring(1),
    "two": networks.ring(2),
    "ring": networks.ring(9),
    "grid": networks.grid(3, 4),
    "erdos-renyi": networks.erdos_renyi(20, 0.3, seed=1),
}


def piece(edges, agents, name="piece"):
    return networks.from_edges(edges, agents, connected=False, name=name)


def changing(base):
    halves = base.edges[::2], base.edges[1::2]
    return [
        networks.link_loss(base, 0.4, seed=3),
        networks.matchings(base, seed=3),
        networks.periodic([piece(half, base.agents) for half in halves]),
        networks.sequence([piece(halves[0], base.agents), base]),
    ]


def metropolis_by_loops(links, agents):
    graph = nx.empty_graph(agents)
    graph.add_edges_from(links.tolist())
    W = np.zeros((agents, agents))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1 / (max(graph.degree[i], graph.degree[j]) + 1)
    return W + np.diag(1 - W.sum(axis=1))


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_every_round_obeys_the_laws(base):
    for network in changing(base):
        possible = set(map(tuple, network.edges.tolist()))
        for k in range(12):
            W = network.at(k)
            dense = W.toarray()
            assert (dense == dense.T).all()
            assert (dense >= 0).all()
            np.testing.assert_allclose(dense.sum(axis=1), 1, atol=1e-15)
            assert np.count_nonzero(W.tocoo().row == W.tocoo().col) == base.agents, "diagonal stored"
            assert W.has_sorted_indices
            assert set(zip(*np.nonzero(np.triu(dense, 1)), strict=True)) <= possible
        assert network.agents == base.agents
        assert (network.edges == base.edges).all()


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_rounds_together_reach_the_average(base):
    for network in changing(base):
        total = np.eye(base.agents)
        for k in range(400):
            total = network.at(k) @ total
        np.testing.assert_allclose(total, 1 / base.agents, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_round_is_a_function_of_seed_and_round_alone(seed):
    base = BASES["erdos-renyi"]
    for make in (lambda s: networks.link_loss(base, 0.5, s), lambda s: networks.matchings(base, s)):
        forwards, backwards = make(seed), make(seed)
        first = [forwards.at(k).toarray() for k in range(20)]
        second = [backwards.at(k).toarray() for k in reversed(range(20))][::-1]
        assert all((a == b).all() for a, b in zip(first, second, strict=True))
        assert len({W.tobytes() for W in first}) == 20, "rounds differ"
        assert (make(seed + 1).at(0).toarray() != first[0]).any(), "seeds differ"
        assert forwards.at(19) is forwards.at(19), "the last rounds are kept"


def test_another_process_draws_the_same_links():
    script = (
        "from destiny import networks as n\n"
        "base = n.erdos_renyi(20, 0.3, seed=1)\n"
        "for changing in (n.link_loss(base, 0.4, 7), n.matchings(base, 7)):\n"
        "    print(changing.at(5).data.tobytes().hex())\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    base = BASES["erdos-renyi"]
    here = [networks.link_loss(base, 0.4, 7), networks.matchings(base, 7)]
    assert out.split() == [network.at(5).data.tobytes().hex() for network in here]


def test_weights_of_a_round_are_metropolis_on_its_links():
    for network in (networks.link_loss(BASES["grid"], 0.3, 2), networks.matchings(BASES["grid"], 2)):
        for k in range(5):
            expected = metropolis_by_loops(network.links(k), network.agents)
            np.testing.assert_allclose(network.at(k).toarray(), expected, atol=1e-15)


@pytest.mark.parametrize("prob", [0.0, 0.2, 0.9])
def test_links_are_lost_at_the_rate_asked_for(prob):
    base = networks.erdos_renyi(60, 0.3)
    network = networks.link_loss(base, prob, seed=1)
    up = np.mean([len(network.links(k)) for k in range(50)]) / len(base.edges)
    deviation = np.sqrt(prob * (1 - prob) / (50 * len(base.edges)))
    assert abs(up - (1 - prob)) <= 6 * deviation


@pytest.mark.parametrize("seed", range(4))
def test_matchings_are_maximal_and_halve_the_difference(seed):
    base = networks.random_geometric(60, 0.3, seed=seed)
    network = networks.matchings(base, seed)
    for k in range(5):
        matched = {tuple(link) for link in network.links(k).tolist()}
        assert nx.is_maximal_matching(base.graph, matched)
        W = network.at(k)
        assert all(W[i, j] == W[i, i] == W[j, j] == 0.5 for i, j in matched)


@pytest.mark.parametrize("seed", range(4))
def test_sweeps_match_like_one_pass_over_the_links(seed):
    links = networks.erdos_renyi(50, 0.15, seed).edges
    priority = np.random.default_rng(seed).permutation(len(links))
    busy, expected = set(), []
    for link in np.argsort(priority):
        if not busy & set(links[link].tolist()):
            busy |= set(links[link].tolist())
            expected.append(link)
    assert greedy_matching(links, priority, 50).tolist() == sorted(expected)


def test_turns_in_order():
    first, second = networks.ring(5, weights="lazy"), networks.star(5)
    periodic, sequence = networks.periodic([first, second]), networks.sequence([first, second])
    assert [periodic.at(k) is first.W for k in range(4)] == [True, False, True, False]
    assert [sequence.at(k) is first.W for k in range(4)] == [True, False, False, False]
    assert sequence.at(10**9) is second.W


def test_a_piece_stays_a_piece():
    network = piece([(0, 1), (2, 3)], 4)
    assert network.lambda_ == 1
    assert "diameter" not in network.facts()
    for ask in (lambda: network.diameter, lambda: networks.link_loss(network, 0.1)):
        with pytest.raises(NetworkError, match="connected; found 2 components"):
            ask()
    with pytest.raises(NetworkError, match="in pieces"):
        network.rounds_to_average()
    with pytest.raises(NetworkError, match=r"positive diagonal; found W\[0, 0\] = 0"):
        networks.from_weights([[0, 1, 0], [1, 0, 0], [0, 0, 1]], connected=False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: networks.periodic([]), "at least 1 network"),
        (
            lambda: networks.periodic([networks.ring(3), networks.ring(4)]),
            "found 3 in network 0 and 4 in network 1",
        ),
        (
            lambda: networks.periodic([piece([(0, 1)], 3)]),
            "taken together, must be connected; found 2 components",
        ),
        (
            lambda: networks.sequence([networks.ring(3), piece([(0, 1)], 3)]),
            "last network of a sequence must be",
        ),
        (lambda: networks.link_loss(networks.ring(3), 1), r"prob must be a probability in \[0, 1\); found 1"),
        (lambda: networks.link_loss(networks.ring(3), 0.1, seed=-2), "seed must be an integer of at least 0"),
        (lambda: networks.matchings(networks.ring(3), seed=0.5), "seed must be an integer"),  # type: ignore[arg-type]
    ],
)
def test_refused_with_a_sentence(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


def test_what_they_tell():
    base = BASES["ring"]
    lossy, paired, turns, steps = changing(base)
    assert lossy.facts() == {"name": lossy.name, "agents": 9, "links": 9, "seed": 3, "loss": 0.4}
    assert paired.facts()["links"] == turns.facts()["links"] == steps.facts()["links"] == 9
    assert steps.facts()["networks"] == ["piece", "ring"]
    names = [
        "ring losing links with probability 0.4",
        "random matchings of ring",
        "periodic of",
        "sequence of",
    ]
    for network, name in zip((lossy, paired, turns, steps), names, strict=True):
        assert str(network).startswith(name)
        assert "9 agents, 9 links" in str(network)


def test_draw_shows_the_network_with_all_links(tmp_path):
    pytest.importorskip("matplotlib")
    path = networks.link_loss(BASES["ring"], 0.4).draw(tmp_path / "network.png")
    assert path.read_bytes().startswith(b"\x89PNG")
