"""Agents that leave for good or come late: the answer is that of those who take part in the end."""

import contextlib

import numpy as np
import pytest

import destiny
from destiny.errors import SettingsError
from destiny.extensions import asynchronous
from destiny.extensions.asynchronous.async_state import AsyncState
from destiny.extensions.asynchronous.destiny_async import DestinyAsync
from destiny.extensions.asynchronous.local_agent import HostedAgent
from destiny.extensions.asynchronous.members import restricted
from destiny.extensions.asynchronous.simulation.simulated_membership import (
    ChangingAgents,
    check_world,
    slowest_of_all,
)
from destiny.extensions.asynchronous.termination import TerminationDetection

RNG = np.random.default_rng(0)
SILOS = [RNG.standard_normal((10, 25)) * 0.7 ** np.roll(np.arange(10), i)[:, None] for i in range(6)]
PROBLEM = destiny.problems.PCA([a.T for a in SILOS], p=2)
NETWORK = destiny.networks.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [0, 3], [1, 4]], 6)
EASY = [RNG.standard_normal((8, 25)) * 0.6 ** np.arange(8)[:, None] for i in range(6)]


def answer_of(members, silos=SILOS):
    """The principal subspace of the data of some agents, by NumPy's eigenvalue solver."""
    values, vectors = np.linalg.eigh(sum(silos[i] @ silos[i].T for i in members))
    assert values[-2] > 1.1 * values[-3]
    return vectors[:, -2:]


@pytest.mark.parametrize("local_stopping", [False, True])
@pytest.mark.parametrize(
    ("world", "members"),
    [
        ({"leave": [[2, 150]]}, [0, 1, 3, 4, 5]),
        ({"join": [[5, 150]]}, [0, 1, 2, 3, 4, 5]),
        ({"leave": [[2, 100], [4, 250]], "join": [[5, 200]]}, [0, 1, 3, 5]),
        ({"leave": [[2, 150]], "join": [[5, 60]], "loss": 0.2, "delay": 1, "crash": 150}, [0, 1, 3, 4, 5]),
    ],
)
def test_the_answer_is_that_of_those_who_take_part_in_the_end(world, members, local_stopping):
    result = asynchronous.simulate(
        PROBLEM,
        NETWORK,
        asynchronous.World(seed=1, **world),
        tolerance=1e-6,
        local_stopping=local_stopping,
        seconds=10_000,
    )
    assert result.converged
    assert destiny.stiefel.subspace_distance(result.X, answer_of(members)) < 1e-4
    assert destiny.stiefel.subspace_distance(result.X, answer_of(range(5))) > 1e-3
    assert len(result.agents) == len(members)
    assert f"agents {', '.join(map(str, members))}," in result.notes[0]


def random_world(rng):
    """Some agents leave, some come late, and everything else goes wrong, too."""
    trouble = {"loss": 0.1, "double": 0.1, "crash": 600, "older": 0.3, "forget": 0.1, "checkpoint": 20}
    while True:
        changes = {
            name: [[int(i), rng.uniform(1, 120)] for i in rng.permutation(6)[: rng.integers(3)]]
            for name in ("leave", "join")
        }
        world = asynchronous.World(
            **changes, **trouble, delay=rng.choice([0.0, 1.0]), seed=rng.integers(10**6)
        )
        with contextlib.suppress(SettingsError):  # one leaves before it comes, or a set is not linked
            check_world(world, NETWORK)
            slowest_of_all(NETWORK, world)
            if world.leave or world.join:
                return world


@pytest.mark.parametrize("seed", range(6))
def test_agents_agree_on_the_set_and_stop_with_its_answer_whatever_happens(seed):
    world, problem = random_world(np.random.default_rng(seed)), destiny.problems.PCA([a.T for a in EASY], p=2)
    result = asynchronous.simulate(problem, NETWORK, world, tolerance=1e-4, local_stopping=True, every=100)
    members = [int(i) for i in result.notes[0].split("agents ")[1].split(", who")[0].split(",")]
    assert result.converged, result
    assert destiny.stiefel.subspace_distance(result.X, answer_of(members, EASY)) < 1e-2
    for i in members:
        assert np.array_equal(np.flatnonzero(result.state[i].standing // 2 == 1), members)


def test_who_comes_or_wants_to_leave_when_all_have_agreed_is_too_late():
    world = asynchronous.World(join=[[5, 3000]], leave=[[2, 4000]], seed=1)
    result = asynchronous.simulate(PROBLEM, NETWORK, world, tolerance=1e-5, local_stopping=True)
    assert result.converged
    assert result.seconds < 3000
    assert destiny.stiefel.subspace_distance(result.X, answer_of(range(5))) < 1e-3
    assert result.notes[1:] == [
        "agent 5 came too late, at 3000 s",
        "agent 2 wanted to leave too late, at 4000 s",
    ]


WOKEN: dict[int, AsyncState] = {}


class Woken(DestinyAsync):
    """The method, whose last states are kept as they are before the next gradient is computed."""

    def compute(self, state, agent):
        WOKEN[agent.index] = state
        return super().compute(state, agent)


def test_the_conservation_law_holds_over_the_new_set_once_all_of_it_has_woken():
    """The sums that everybody has collected stay: they add up to nothing over any set with such weights."""
    world = asynchronous.World(leave=[[2, 60]], join=[[5, 90]], loss=0.3, delay=0.5, seed=3)
    W = NETWORK.at(0)
    hosts = [HostedAgent(i, PROBLEM.host([i]), W) for i in range(6)]
    X = np.repeat(destiny.stiefel.random_point(10, 2, seed=0)[None], 6, axis=0)
    agents = ChangingAgents(hosts, TerminationDetection(Woken(lambda_=0.9), -1.0, late=(5,)), X, world)
    used, checked = {}, 0
    for i in agents.run():
        if agents.time > 180:
            break
        if agents.outstanding() or any(agents.records[j].standing[2] < 4 for j in agents.members):
            continue
        used[i] = WOKEN[i]  # it has woken with the weights of the new set
        if set(used) != {0, 1, 3, 4, 5}:
            continue
        now = restricted(W, agents.members).toarray()
        near = {j: [k for k in hosts[j].neighbors if k in agents.members] for j in used}
        held = sum(s.D - (1 - now[j, j]) * s.flow for j, s in used.items())
        in_flight = sum(
            now[j, k] * (used[int(k)].total - used[j].inbox.total[at])
            for j in used
            for at, k in enumerate(near[j])
        )
        checked += 1
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
    assert np.array_equal(new[stay][off], W[stay][off])  # nobody but its neighbors had to know
    assert new[2, 2] == 1


@pytest.mark.parametrize(
    ("world", "options", "sentence"),
    [
        ({"leave": [[2, 10]]}, {"algorithm": destiny.Destiny()}, "nobody can leave or join"),
        ({"leave": [[6, 10]]}, {}, "must name agents from 0 to 5"),
        ({"leave": [[1, 10], [1, 20]]}, {}, "must name an agent once"),
        ({"leave": [[5, 10]], "join": [[5, 20]]}, {}, "must join before it leaves"),
        ({"leave": [[0, 10], [1, 20], [3, 30], [4, 40]]}, {}, "must be linked with each other"),
        ({"join": [[i, 10] for i in range(6)]}, {}, "somebody must take part after 0 s"),
    ],
)
def test_what_cannot_be_is_refused(world, options, sentence):
    with pytest.raises(SettingsError, match=sentence):
        asynchronous.simulate(PROBLEM, NETWORK, asynchronous.World(**world), **options)


@pytest.mark.parametrize("entry", [[1], [1, 0], [0.5, 3], "ab", [1, "x"]])
def test_a_pair_of_agent_and_time_is_needed(entry):
    with pytest.raises(SettingsError, match="pairs of an agent and a time"):
        asynchronous.World(leave=[entry])
