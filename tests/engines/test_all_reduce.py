"""Sums over all agents along a spanning tree: their value, their bits, their tree and what they cost."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

import destiny
from destiny.engines import Local
from destiny.engines.mixers import PLAIN, Private
from destiny.engines.tree_sum import tree_sum
from destiny.errors import NetworkError, PrivacyError, SettingsError
from destiny.extensions.byzantine.attacks import Byzantine
from destiny.protocols.networks import spanning_tree
from tests.helpers.small_problems import agents_of, small_problem

nets = destiny.networks
NETWORKS = [
    nets.ring(5),
    nets.path(4),
    nets.path(7),
    nets.star(6),
    nets.grid(3, 4),
    nets.complete(3),
    nets.erdos_renyi(12, prob=0.3, seed=1),
]
by_name = pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)


def agents_on(network, private=False):
    return agents_of(small_problem("pca", network.agents), network, messages=Private() if private else PLAIN)


def numbers(agents, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal((agents, *shape))


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@by_name
def test_all_agents_have_the_sum_to_rounding(network, scale, private):
    agents = agents_on(network, private)
    X, f = scale * numbers(network.agents, 4, 3), numbers(network.agents) / scale
    for values, total in zip((X, f), agents.all_reduce(X, f), strict=True):
        assert total.shape == values.shape
        assert not total.flags.writeable
        assert (total == total[:1]).all(), "the same bits at every agent"
        columns = values.reshape(network.agents, -1).T
        error = np.abs(total[0].ravel() - [math.fsum(column) for column in columns])
        # A private sum is exact, and rounded once.
        most = 2.0**-52 * (np.abs([math.fsum(column) for column in columns]) if private else 0)
        assert (error <= most + (not private) * 2.0**-51 * np.abs(columns).sum(axis=1)).all()


@by_name
def test_private_sums_with_bounds_are_exact_to_their_last_bit(network):
    whole = np.random.default_rng(1).integers(-(2**40), 2**40, (network.agents, 9)).astype(float)
    bounds = np.abs(whole).sum(axis=0)
    (total,) = agents_on(network, private=True).all_reduce(whole, bounds=[bounds])
    assert (total[0] == whole.astype(int).sum(axis=0)).all()


def recursion(tree, rows, agent):
    """What an agent sends to its parent, written as a recursion."""
    total = rows[agent].copy()
    for child in sorted(np.flatnonzero(tree.parents == agent)):
        total += recursion(tree, rows, child)
    return total


@by_name
def test_children_are_added_in_the_order_of_their_index(network):
    rows, tree = numbers(network.agents, 200), network.tree
    (total,) = agents_on(network).all_reduce(rows)
    assert (total[0] == recursion(tree, rows, tree.root)).all()
    assert (tree_sum(tree, list(rows)) == total[0]).all()


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("width", [5, 3000])  # a worker adds up narrow rows alone, wide ones are shared out
def test_the_same_bits_on_any_number_of_threads(width, private):
    network = NETWORKS[-1]
    X, bounds = numbers(12, width), np.abs(numbers(12, width)).sum(axis=0)

    def sums(part, agents):
        first, second = agents.all_reduce(part, part**2, bounds=[bounds, None])
        return first + agents.all_reduce(second)[0]

    by_threads = set()
    for threads in (1, 2, 3):
        team = Local(threads).connect(small_problem("pca", 12), network, Private() if private else PLAIN)
        by_threads.add(np.concatenate(team.each(sums, team.split(X))).tobytes())
        team.close()
    assert len(by_threads) == 1


@by_name
def test_the_tree_has_the_shortest_ways_from_the_most_central_agent(network):
    graph, tree = nx.Graph(network.edges.tolist()), network.tree
    assert tree.depth == network.depth == nx.radius(graph)
    assert tree.root == min(nx.center(graph))
    distances = nx.single_source_shortest_path_length(graph, tree.root)
    for agent, parent in enumerate(tree.parents.tolist()):
        assert tree.levels[agent] == distances[agent]
        if agent != tree.root:
            nearer = [i for i in graph[agent] if distances[i] < distances[agent]]
            assert parent == min(nearer)
            assert agent in tree.children[parent]
    place = {agent: k for k, agent in enumerate(tree.upward)}
    assert sorted(place) == list(range(network.agents))
    assert all(place[c] < place[i] for i, children in enumerate(tree.children) for c in children)


def test_many_agents_have_a_root_among_the_first():
    tree = nets.path(601).tree
    assert (tree.root, tree.depth) == (255, 345)


@by_name
def test_messages_rounds_and_bytes_are_counted(network):
    d, agents = network.agents, agents_on(network)
    agents.all_reduce(numbers(d, 20), numbers(d))
    assert agents.traffic.rounds == 2 * network.depth
    assert agents.traffic.turns == 1
    assert agents.traffic.scalars == 2 * (d - 1) * 21
    assert agents.traffic.bytes == 8 * agents.traffic.scalars
    tree = network.tree
    assert sum(tree.messages([i]) for i in range(d)) == tree.messages() == 2 * (d - 1)
    private = agents_on(network, private=True)
    private.all_reduce(numbers(d, 20), numbers(d), bounds=[100.0, None])
    assert private.traffic.rounds == 2 * network.depth
    # 8 bytes a number with a bound, 48 without one, 8 of the word that shows whether masks cancel
    assert private.traffic.bytes == 2 * (d - 1) * (8 * 20 + 48 + 8)


@pytest.mark.parametrize("private", [False, True])
def test_a_rider_reaches_all_agents_and_may_ride_again(private):
    agents = agents_on(nets.path(4), private)
    for flood, known in (([0.0, 0.0, 1.0, 1.0], 1.0), ([0.0] * 4, 0.0)):
        agents.flood = np.array(flood)
        for _ in range(3):
            agents.all_reduce(numbers(4, 5))
            assert (agents.flood == known).all()
    assert agents.traffic.scalars == 6 * 2 * 3 * (5 * (6 if private else 1) + 1 + private)


@pytest.mark.parametrize("private", [False, True])
def test_one_agent_has_its_own_numbers(private):
    agents, X = agents_on(nets.complete(1), private), numbers(1, 3)
    (total,) = agents.all_reduce(X)
    assert (total == X).all()
    assert agents.traffic.bytes == agents.traffic.rounds == 0


def test_a_network_in_pieces_is_refused():
    W = csr_array(np.kron(np.eye(2), np.full((2, 2), 0.5)))
    with pytest.raises(NetworkError, match="agent 2 cannot be reached from agent 0: add a link"):
        spanning_tree(W)


def test_a_network_that_changes_has_no_tree():
    changing = nets.link_loss(nets.ring(6), 0.2, seed=0)
    assert changing.tree is None
    for kind in ("averaged-model", "averaged-krylov", "averaged-lbfgs"):
        with pytest.raises(SettingsError, match=f"{kind} needs a static network.*use destiny-accelerated"):
            destiny.solve(small_problem("pca"), changing, kind)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_plain_sums_pass_on_what_is_not_finite_and_private_ones_refuse_it(value):
    X = numbers(5, 10)
    X[2, 3] = value
    (total,) = agents_on(nets.ring(5)).all_reduce(X)
    assert np.flatnonzero(~np.isfinite(total[0])).tolist() == [3]
    with pytest.raises(destiny.DestinyError, match="must be a finite number"):
        agents_on(nets.ring(5), private=True).all_reduce(X)


def test_a_number_above_its_bound_is_refused_before_it_is_sent():
    agents, X = agents_on(nets.ring(5), private=True), numbers(5, 10)
    with pytest.raises(destiny.DestinyError, match=r"of at most 0\.01 in magnitude, its bound"):
        agents.all_reduce(X, bounds=[0.01])
    assert agents.traffic.turns == 0


def test_a_liar_changes_the_sum_by_what_it_adds():
    network, X = nets.ring(5), numbers(5, 10)
    (agents,) = Byzantine([2], "flip").connect(small_problem("pca", 5), network).workers
    (total,) = agents.all_reduce(X)
    np.testing.assert_allclose(total[0], X.sum(axis=0) - 2 * X[2], atol=1e-14)
    (agents,) = Byzantine([2], "flip").connect(small_problem("pca", 5), network, Private()).workers
    with pytest.raises(PrivacyError, match="masks of 5 agents must cancel"):
        agents.all_reduce(X)
