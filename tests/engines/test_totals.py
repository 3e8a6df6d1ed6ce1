"""Averages along a spanning tree: exact, the same bits at every agent and on any number of threads."""

import re
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

import destiny
from destiny.engines import Local, totals
from destiny.engines.fixed_point import DIGEST, RENEW
from destiny.engines.hosted import HostedAgents
from destiny.engines.totals import message_size
from destiny.errors import NetworkError
from tests.helpers.small_problems import agents_of, small_problem

nets = destiny.networks
NETWORKS = [
    nets.ring(5),
    nets.path(4),
    nets.star(6),
    nets.complete(3),
    nets.erdos_renyi(12, prob=0.3, seed=1),
]


def agents_on(network, private=True, depth=None):
    agents = agents_of(small_problem("pca", network.agents), network)
    if private:
        agents.sum_privately(network.diameter if depth is None else depth)
    return agents


def numbers(agents, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal((agents, *shape))


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_everybody_has_the_average_to_rounding(network, scale, private):
    agents = agents_on(network, private)
    X, f = scale * numbers(network.agents, 4, 3), scale**-1 * numbers(network.agents)
    means = agents.exact_mean(X, f)
    for values, mean in zip((X, f), means, strict=True):
        assert mean.shape == values.shape
        assert (mean == mean[:1]).all(), "the same bits at every agent"
        exact = [sum(map(Fraction, column)) / len(values) for column in values.reshape(len(values), -1).T]
        errors = [abs(Fraction(m) - e) for m, e in zip(mean[0].ravel(), exact, strict=True)]
        assert max(errors) < 2.0**-50 * np.abs(values).max()


@pytest.mark.parametrize("private", [True, False])
def test_the_same_bits_on_any_number_of_threads(private):
    network, X = NETWORKS[-1], numbers(12, 30)
    by_threads = []
    for threads in (1, 2, 5):
        team = Local(threads).connect(small_problem("pca", 12), network)
        means = team.each(lambda part, agents: mean_of(agents, network, part, private), team.split(X))
        by_threads.append(np.concatenate(means).tobytes())
        team.close()
    assert len(set(by_threads)) == 1


def mean_of(agents, network, part, private):
    if private:
        agents.sum_privately(network.diameter)
    return agents.exact_mean(part)[0]


@pytest.mark.parametrize("private", [True, False])
def test_it_takes_three_diameters_and_every_number_is_counted(private):
    network = nets.path(4)
    agents = agents_on(network, private)
    agents.exact_mean(numbers(4, 20))
    assert agents.traffic.rounds == 3 * 3
    up = message_size(20, private)  # with the parent, which nobody needs on the way down
    flood = 1 + private * (1 + DIGEST)
    assert agents.traffic.scalars == 2 * 3 * 3 * (flood + up + (up - 1))  # six directed links, three phases


def exponents_told(monkeypatch, agents, sizes):
    """The exponents that agents tell first in totals of numbers of these sizes, and the means."""
    told, means, tell = [], [], HostedAgents.tell

    def spy(self, *blocks):
        told.append(-np.asarray(blocks[0])[:, 0])
        return tell(self, *blocks)

    monkeypatch.setattr(HostedAgents, "tell", spy)
    for size in sizes:
        agents.begin_step()
        means.append(agents.exact_mean(size * numbers(5, 20))[0])
    return np.array(told[:: len(told) // len(sizes)]), means


def test_in_steps_nobody_tells_that_its_numbers_became_smaller(monkeypatch):
    """Otherwise who chooses the points finds an agent's numbers by bisection: where its exponents change."""
    sizes = [1.0, 1e-6, 2.0**40, *[1.0] * (RENEW - 3), 1e-6]
    told, means = exponents_told(monkeypatch, agents_on(nets.ring(5)), sizes)
    assert (told[1] == told[0].max()).all()
    assert (told[3:RENEW] == told[2].max()).all()
    assert (told[RENEW] < told[0]).all(), "chosen anew"
    exact = numbers(5, 20).mean(axis=0)
    assert np.abs(means[1][0] - 1e-6 * exact).max() < 1e-14
    assert np.abs(means[RENEW][0] - 1e-6 * exact).max() < 1e-20


def test_a_total_that_is_made_once_is_as_exact_as_its_own_numbers():
    agents = agents_on(nets.ring(5))
    for size in (1e20, 1e-20):
        (mean,) = agents.exact_mean(size * numbers(5, 20))
        np.testing.assert_allclose(mean[0], size * numbers(5, 20).mean(axis=0), rtol=1e-10)


def test_agents_that_were_told_different_averages_send_nothing_more():
    agents = agents_on(nets.ring(4))
    agents.exact_mean(numbers(4, 20))
    assert agents.last_mean.any()
    agents.exact_mean(numbers(4, 20))
    agents.last_mean[2, 0] += 1
    rounds = agents.traffic.rounds
    with pytest.raises(NetworkError, match="the same averages"):
        agents.exact_mean(numbers(4, 20))
    assert agents.traffic.rounds == rounds + 1, "before numbers are told"


@pytest.mark.parametrize("private", [True, False])
def test_a_rider_reaches_everybody(private):
    network = nets.path(4)
    agents = agents_on(network, private)
    agents.flood = np.array([3.0, 0.0, 1.0, 2.0])
    agents.exact_mean(numbers(4, 5))
    assert (agents.flood == 3.0).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_makes_its_own_array_nan(value):
    X, Y = numbers(5, 10), numbers(5, 11, seed=1)
    X[2, 3] = value
    broken, whole = agents_on(nets.ring(5)).exact_mean(X, Y)
    assert np.isnan(broken).all()
    assert np.allclose(whole, Y.mean(axis=0))


@pytest.mark.parametrize("lie", [5000.0, 1e300, -0.5, 6.0, 1028.0, -964.0, np.nan])
def test_exponents_that_no_numbers_have_are_refused_by_the_name_of_the_agent(monkeypatch, lie):
    """A liar would choose the unit in which all others round their numbers, or make them overflow."""
    tell = HostedAgents.tell

    def lying(agents, first, *blocks):
        first = np.array(first)
        if first.shape[1] == 3:  # exponents of two arrays, and the distance
            first[2, 1] = -lie
        return tell(agents, first, *blocks)

    agents = agents_on(nets.ring(5))
    monkeypatch.setattr(HostedAgents, "tell", lying)
    with pytest.raises(NetworkError, match=re.escape(f"found {lie:g} from agent 2, who has sent")):
        agents.exact_mean(numbers(5, 10), numbers(5, 11, seed=1))


def test_where_a_number_is_not_finite_no_words_of_it_travel(monkeypatch):
    """There is no unit in which all numbers fit: in another one some overflow, which tells their sizes."""
    X = 1e6 * numbers(5, 10)
    X[2, 3] = np.nan
    words, split = [], totals._split
    monkeypatch.setattr(totals, "_split", lambda rows: words.append(np.array(rows)) or split(rows))
    assert np.isnan(agents_on(nets.ring(5)).exact_mean(X)[0]).all()
    assert words[0].dtype == np.uint64
    assert not words[0].any()


def test_too_small_a_depth_is_refused():
    with pytest.raises(NetworkError, match=r"over 6 agents; found [0-5]: .* the 2 rounds given as diameter"):
        agents_on(nets.path(6), depth=2).exact_mean(numbers(6, 3))


def test_one_agent_has_its_own_numbers():
    agents = agents_on(nets.complete(1), depth=0)
    X = numbers(1, 3)
    assert (agents.exact_mean(X)[0] == X).all()
    assert agents.traffic.rounds == 0


@pytest.mark.parametrize("network", [*NETWORKS, nets.path(7), nets.grid(3, 4)], ids=lambda n: n.name)
def test_a_tree_from_the_most_central_agent_and_averages_along_it(network):
    distances = shortest_path(network.W, unweighted=True)
    radius = int(distances.max(axis=1).min())
    for private in (False, True):
        agents = agents_on(network, private)
        tree = agents.spanning_tree()
        assert agents.traffic.rounds == 2 * network.diameter
        assert (tree[:, 1] == radius).all()
        (root,) = np.flatnonzero(tree[:, 0] == -1)
        for agent, parent in enumerate(tree[:, 0].astype(int)):
            assert agent == root or distances[agent, parent] == 1
            assert agent == root or distances[agent, root] == distances[parent, root] + 1
        X = numbers(network.agents, 5)
        (mean,) = agents.exact_mean(X, tree=tree)
        assert (mean == mean[:1]).all()
        assert private or not mean.flags.writeable, "neighbours on other threads may still read it"
        np.testing.assert_allclose(mean[0], X.mean(axis=0), atol=1e-14)
        assert agents.traffic.rounds == (2 + private) * network.diameter + 2 * radius


def test_nobody_can_make_a_tree_of_a_million_levels(monkeypatch):
    """Up and down take the depth in rounds: others would pass on a total until the liar lets go."""
    agents, tell = agents_on(nets.ring(5)), HostedAgents.tell

    def lying_tell(self, distances):
        false = distances.copy()
        false[3] = 1e6
        return tell(self, false if self.traffic.rounds >= self.depth else distances)

    monkeypatch.setattr(HostedAgents, "tell", lying_tell)
    with pytest.raises(NetworkError, match=r"more than 2 rounds from another; found 1e\+06"):
        agents.spanning_tree()


def test_a_tree_needs_the_diameter_and_one_agent_needs_none():
    with pytest.raises(NetworkError, match="more than the 2 rounds given as diameter"):
        agents_on(nets.path(6), depth=2).spanning_tree()
    alone = agents_on(nets.complete(1), private=False)
    assert alone.spanning_tree().tolist() == [[-1, 0]]
    assert alone.traffic.rounds == 0
