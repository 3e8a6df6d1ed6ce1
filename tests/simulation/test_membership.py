"""Agents that leave for good or come late: the answer is that of those who take part in the end."""

import numpy as np
import pytest

import destiny
from destiny.algorithms import DestinyAsync
from destiny.algorithms.destiny_async import AsyncState
from destiny.engines.local_agent import HostedAgent
from destiny.errors import SettingsError
from destiny.simulation.events import AsyncAgents
from destiny.simulation.membership import restricted

RNG = np.random.default_rng(0)
SILOS = [RNG.standard_normal((10, 25)) * 0.7 ** np.roll(np.arange(10), i)[:, None] for i in range(6)]
PROBLEM = destiny.problems.PCA(SILOS, p=2)
NETWORK = destiny.networks.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [0, 3], [1, 4]], 6)


def answer_of(members):
    """The principal subspace of the data of some agents, by an eigenvalue solver."""
    return destiny.problems.pca.solution(destiny.problems.PCA([SILOS[i] for i in members], p=2))


@pytest.mark.parametrize(
    ("world", "members"),
    [
        ({"leave": [[2, 150]]}, [0, 1, 3, 4, 5]),
        ({"join": [[5, 150]]}, [0, 1, 2, 3, 4, 5]),
        ({"leave": [[2, 100], [4, 250]], "join": [[5, 200]]}, [0, 1, 3, 5]),
        ({"leave": [[2, 150]], "join": [[5, 60]], "loss": 0.2, "delay": 1, "crash": 150}, [0, 1, 3, 4, 5]),
    ],
)
def test_the_answer_is_that_of_those_who_take_part_in_the_end(world, members):
    result = destiny.simulate(PROBLEM, NETWORK, destiny.World(seed=1, **world), tolerance=1e-6)
    assert result.converged
    assert destiny.stiefel.subspace_distance(result.X, answer_of(members)) < 1e-4
    assert destiny.stiefel.subspace_distance(result.X, answer_of(range(5))) > 1e-3
    assert len(result.agents) == len(members)
    assert f"agents {', '.join(map(str, members))}," in result.notes[0]


WOKEN: dict[int, AsyncState] = {}


class Woken(DestinyAsync):
    """The method, whose last states are kept as they are before the next gradient is computed."""

    def compute(self, state, agent):
        WOKEN[agent.index] = state
        return super().compute(state, agent)


def test_the_conservation_law_holds_over_the_new_set_once_all_of_it_has_woken():
    """The sums that everybody has collected stay: they add up to nothing over any set with such weights."""
    world = destiny.World(leave=[[2, 60]], join=[[5, 90]], loss=0.3, delay=0.5, seed=3)
    W = NETWORK.at(0)
    first = restricted(W, [0, 1, 2, 3, 4])
    hosts = [HostedAgent(i, PROBLEM.host([i]), first) for i in range(6)]
    X = np.repeat(destiny.stiefel.random_point(10, 2, seed=0)[None], 6, axis=0)
    agents = AsyncAgents(hosts, Woken(lambda_=0.9), X, world, W)
    used, checked = {}, 0
    for i in agents.run():
        if set(used) != set(agents.members) and not set(used) <= set(agents.members):
            used = {}  # somebody has left
        if any(j not in used for j in agents.members):
            checked = 0
        used[i] = WOKEN[i]
        if agents.time > 140:
            break
        if agents.time < 90 or any(j not in used for j in agents.members):
            continue
        now = restricted(W, agents.members).toarray()
        held = sum(s.D - (1 - now[j, j]) * s.flow for j, s in used.items())
        in_flight = sum(
            now[j, k] * (used[int(k)].total - used[j].inbox.total[at])
            for j in used
            for at, k in enumerate(hosts[j].neighbours)
        )
        checked += 1
        if checked > 40:  # every agent has woken with the new weights
            H = sum(s.H for s in used.values())
            size = max(np.abs(s.total).max() for s in used.values()) + np.abs(H).max()
            np.testing.assert_allclose(held + in_flight, H, rtol=0, atol=1e-12 * size)
    assert checked > 100


def test_weights_of_those_who_stay_are_symmetric_and_add_up_to_one():
    W = NETWORK.at(0).toarray()
    new = restricted(NETWORK.at(0), [0, 1, 3, 4, 5]).toarray()
    assert np.array_equal(new, new.T)
    np.testing.assert_allclose(new.sum(axis=0), 1, atol=1e-15)
    stay = np.ix_([0, 1, 3, 4, 5], [0, 1, 3, 4, 5])
    off = ~np.eye(5, dtype=bool)
    assert np.array_equal(new[stay][off], W[stay][off])  # nobody but its neighbours had to know
    assert new[2, 2] == 1


@pytest.mark.parametrize(
    ("world", "options", "sentence"),
    [
        ({"leave": [[2, 10]]}, {"algorithm": destiny.Destiny()}, "nobody can leave or join"),
        ({"leave": [[2, 10]]}, {"decentralised": True}, "agree on who takes part first"),
        ({"leave": [[6, 10]]}, {}, "must name agents from 0 to 5"),
        ({"leave": [[1, 10], [1, 20]]}, {}, "must name an agent once"),
        ({"leave": [[5, 10]], "join": [[5, 20]]}, {}, "must join before it leaves"),
        ({"leave": [[0, 10], [1, 20], [3, 30], [4, 40]]}, {}, "must be linked with each other"),
    ],
)
def test_what_cannot_be_is_refused(world, options, sentence):
    with pytest.raises(SettingsError, match=sentence):
        destiny.simulate(PROBLEM, NETWORK, destiny.World(**world), **options)


@pytest.mark.parametrize("entry", [[1], [1, 0], [0.5, 3], "ab", [1, "x"]])
def test_a_pair_of_agent_and_time_is_needed(entry):
    with pytest.raises(SettingsError, match="pairs of an agent and a time"):
        destiny.World(leave=[entry])
