"""Mixing, counting, flooding, and the same bits whatever the number of threads."""

import threading

import numpy as np
import pytest

import destiny
from destiny.engines import Local
from destiny.errors import SettingsError
from destiny.storage.checkpoint import flatten
from tests.helpers.small_problems import KINDS, agents_of, small_problem


@pytest.fixture(params=["ring", "star", "erdos-renyi"])
def network(request):
    options = {"prob": 0.4, "seed": 1} if request.param == "erdos-renyi" else {}
    return destiny.networks.build(request.param, 6, **options)


def test_mix_is_the_weighted_average_keeps_the_mean_and_is_linear(network, rng):
    agents = agents_of(small_problem("pca"), network)
    X, Y = rng.standard_normal((2, 6, 12, 3))
    mixed, other = agents.mix(X, Y[:, :, :2])
    expected = np.einsum("ij,jnp->inp", network.W.toarray(), X)
    np.testing.assert_allclose(mixed, expected, atol=1e-14)
    np.testing.assert_allclose(other.mean(axis=0), Y[:, :, :2].mean(axis=0), atol=1e-14)
    (both,) = agents.mix(2 * X + Y)
    np.testing.assert_allclose(both, 2 * mixed + agents.mix(Y)[0], atol=1e-13)


@pytest.mark.parametrize("rounds", [1, 3])
def test_rounds_and_scalars_are_counted(network, rounds):
    agents = agents_of(small_problem("pca"), network)
    X = np.ones((6, 12, 3))
    agents.mix(X, X[:, :2, :], X[:, 0, 0], rounds=rounds)
    directions = 2 * len(network.edges)
    assert agents.traffic.rounds == rounds
    assert agents.traffic.scalars == rounds * directions * (36 + 6 + 1)


def test_only_links_alive_in_a_round_are_counted():
    changing = destiny.networks.link_loss(destiny.networks.complete(6), 0.5, seed=0)
    agents = agents_of(small_problem("pca"), changing)
    for k in range(5):
        before = agents.traffic.scalars
        agents.mix(np.ones((6, 4)))
        W = changing.at(k).toarray()
        assert agents.traffic.scalars - before == 4 * np.count_nonzero(W - np.diag(np.diag(W)))


def test_rounds_of_a_changing_network_are_mixed_with_their_own_weights(rng):
    changing = destiny.networks.matchings(destiny.networks.ring(6), seed=4)
    agents = agents_of(small_problem("pca"), changing)
    X = rng.standard_normal((6, 5))
    expected = X
    for k in range(7):
        expected = changing.at(k).toarray() @ expected
    np.testing.assert_allclose(agents.mix(X, rounds=7)[0], expected, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [2, 3, 6])
@pytest.mark.parametrize("changing", [False, True])
def test_same_bits_for_any_number_of_threads(kind, threads, changing):
    network = destiny.networks.erdos_renyi(6, prob=0.5, seed=0)
    if changing:
        network = destiny.networks.link_loss(network, 0.3, seed=0)
    # 7 agents' worth of samples on 6: uneven shares, hence several groups
    problem = small_problem(kind)
    states = []
    for engine in (Local(1), Local(threads)):
        for moment in destiny.iterate(problem, network, engine=engine):
            if moment.step == 40:
                states.append((moment.round, moment.scalars, flatten(moment.state)))
                break
    assert states[0][:2] == states[1][:2]
    for name, array in states[0][2].items():
        assert (array == states[1][2][name]).all(), name


def test_flooding_keeps_the_largest_value_heard_of(rng):
    network = destiny.networks.path(6)
    agents = agents_of(small_problem("pca"), network)
    agents.flood = rng.random(6)
    start = agents.flood.copy()
    for k in range(1, 6):
        agents.mix(np.zeros((6, 1)))
        reach = [start[max(0, i - k) : i + k + 1].max() for i in range(6)]
        assert (agents.flood == reach).all()
    assert agents.traffic.scalars == 5 * 10 * 2


def test_an_error_in_one_thread_ends_the_step_with_that_error():
    class Broken:
        def value(self, X):
            return 0.0

        def gradient(self, X):
            if threading.active_count() > 1 and self.armed:
                raise ZeroDivisionError("agent 3 is broken")
            return np.zeros_like(X)

        armed = False

    objectives = [Broken() for _ in range(4)]
    moments = destiny.iterate(objectives, destiny.networks.ring(4), start=np.eye(5)[:, :2], engine=Local(2))
    next(moments)
    objectives[3].armed = True
    with pytest.raises(ZeroDivisionError, match="agent 3"):
        next(moments)


@pytest.mark.parametrize("threads", [0, -2, 2.5, "2", True])
def test_threads_are_checked(threads):
    with pytest.raises(destiny.SettingsError, match="threads must be a whole number of at least 1"):
        Local(threads)


def test_lambda_felt_by_the_agents_is_near_the_true_one():
    from destiny.algorithms.blocks.gossip import average_and_estimate_lambda

    for network in (
        destiny.networks.star(16),
        destiny.networks.erdos_renyi(16, prob=0.5, seed=0),
        destiny.networks.grid(4, 4),
        destiny.networks.complete(16),
    ):
        problem = destiny.problems.pca.synthetic(n=4, m=64, p=1, xi=0.5, agents=16, seed=0)
        _, lambda_estimate = average_and_estimate_lambda(agents_of(problem, network))
        assert lambda_estimate.shape == (16, 1, 1)
        np.testing.assert_allclose(1 - lambda_estimate, 1 - network.lambda_, rtol=0.5, atol=0.05)


def test_processes_started_together_do_not_write_the_same_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    problem, network = small_problem("pca"), destiny.networks.ring(6)
    with pytest.raises(SettingsError, match=r"2 processes were started together.*engines\.mpi\(\)"):
        destiny.solve(problem, network, checkpoint=tmp_path / "same")
    alone = destiny.engines.local()
    assert destiny.solve(problem, network, rounds=40, checkpoint=tmp_path / "own", engine=alone).steps
    assert destiny.solve(problem, network, rounds=40).steps


@pytest.mark.parametrize("threads", [1, 3])
def test_what_all_agents_compute_alike_is_computed_once_and_shared(threads):
    team = Local(threads).connect(small_problem("pca", 6), destiny.networks.ring(6))
    calls = []

    def compute():
        calls.append(1)
        return np.zeros(3)

    results = team.each(lambda _, agents: [agents.once(compute) for _ in range(2)], team.hosts)
    assert len(calls) == 2
    assert all(result[k] is results[0][k] for result in results for k in range(2))
    assert results[0][0] is not results[0][1]
    with pytest.raises(ZeroDivisionError):
        team.each(lambda _, agents: agents.once(lambda: 1 // 0), team.hosts)
    team.close()
