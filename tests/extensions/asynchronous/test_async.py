"""The asynchronous method as pure functions of one agent: its recursion, its law, its fixed points."""

import numpy as np
import pytest

import destiny
from destiny.errors import ProblemError, SettingsError
from destiny.extensions.asynchronous.async_protocol import LIFE
from destiny.extensions.asynchronous.destiny_async import DestinyAsync
from destiny.protocols import TopologyBase
from destiny.storage.checkpoint import Saved, flatten, unflatten
from tests.helpers.async_agents import AsyncAgents, measures
from tests.helpers.small_problems import KINDS, problem_of, silos_of, small_problem

NETWORK = destiny.networks.erdos_renyi(6, 0.6, seed=3)


def equal_bits(a, b):
    return all(np.array_equal(x, y) for x, y in zip(flatten(a).values(), flatten(b).values(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_in_lockstep_it_is_the_accelerated_recursion(kind):
    """X+ = M (X + mu (X - X_before) - eta D - (H - H_before) / 2 L), D+ = D - (I - W) F + H(X+) - H(X).

    These are whole matrices; F+ = 1.2 D + theta F, and M is W, but for 10 % of the agent's own. A move is at
    most 1/2 long.
    """
    agents = AsyncAgents(small_problem(kind), NETWORK)
    W, I = agents.W, np.eye(6)
    theta = (1 - np.sqrt(1 - NETWORK.lambda_)) ** 2
    times = lambda matrix, stack: np.einsum("ij,jnp->inp", matrix, stack)  # noqa: E731
    stack = lambda name: np.stack([getattr(s, name) for s in agents.states])  # noqa: E731
    before = X = stack("X")
    agents.lockstep()
    D = H = H_before = stack("H")
    F = np.zeros_like(D)
    for _ in range(60):
        eta, mu = stack("eta")[:, None, None], stack("mu")[:, None, None]
        L = stack("curvature")[:, None, None]
        move = mu * (X - before) - eta * D - (H - H_before) / (2 * L)
        move *= np.minimum(1, 0.5 / np.linalg.norm(move, axis=(1, 2), keepdims=True))
        before, X = X, times(0.9 * W + 0.1 * I, X + move)
        F = 1.2 * D + theta * F
        agents.lockstep()
        D, H_before, H = D - times(I - W, F) + stack("H") - H, H, stack("H")
        np.testing.assert_allclose(stack("X"), X, rtol=0, atol=1e-10)
        np.testing.assert_allclose(stack("D"), D, rtol=0, atol=1e-9 * np.abs(H).max())
        assert (stack("delay") == 1).all()


def test_in_lockstep_it_takes_about_as_many_steps_as_the_synchronous_method():
    problem = small_problem("pca")
    agents = AsyncAgents(problem, NETWORK)
    first = measures(problem, agents.X)[0]
    synchronous = destiny.solve(problem, NETWORK, destiny.DestinyAccelerated(), tolerance=1e-8)
    for _ in range(2 * synchronous.rounds):
        agents.lockstep()
    slope, apart, infeasible = measures(problem, agents.X)
    assert max(slope / first, apart, infeasible) < 1e-8


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_conservation_law_holds_at_every_event(kind, ahead):
    """sum_i D_i - (1 - w_ii) F_i + sum_ij w_ij (T_j - T_j as i knows it) = sum_i H_i."""
    agents = AsyncAgents(small_problem(kind), NETWORK, ahead=ahead)
    W, used = agents.W, agents.woken
    for i in range(6):
        agents.wake(i)
    for _ in agents.chaos(np.random.default_rng(0), 400, loss=0.3, rollback=0.02):
        held = sum(s.D - (1 - W[j, j]) * s.flow for j, s in enumerate(used))
        in_flight = sum(
            W[j, k] * (used[int(k)].total - used[j].inbox.total[at])
            for j in range(6)
            for at, k in enumerate(agents.agents[j].neighbors)
        )
        H = sum(s.H for s in used)
        size = max(np.abs(s.total).max() for s in used) + np.abs(H).max()
        np.testing.assert_allclose(held + in_flight, H, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize(
    "trouble",
    [
        {"loss": 0.3, "double": 0.0, "late": 0.0},
        {"loss": 0.0, "double": 0.5, "late": 0.0},
        {"loss": 0.0, "double": 0.0, "late": 0.8},
        {"speeds": [20, 20, 20, 20, 20, 1]},
    ],
    ids=["lost", "doubled", "late and out of order", "one is slow"],
)
@pytest.mark.parametrize("ahead", [False, True])
def test_trouble_with_messages_does_not_move_the_limit(trouble, ahead):
    silos = [0.7 ** np.arange(12)[:, None] * silo for silo in silos_of("pca", 6)]
    problem = problem_of("pca", silos)
    agents = AsyncAgents(problem, NETWORK, ahead=ahead)
    run_to_tolerance(problem, agents, agents.chaos(np.random.default_rng(1), 9000, **trouble))
    pooled = np.linalg.svd(np.hstack(silos))[0][:, :3]
    assert destiny.stiefel.subspace_distance(agents.X.mean(axis=0), pooled) < 1e-7


def run_to_tolerance(problem, agents, events):
    """Let events happen until the three measures of the paper are below 1e-8."""
    first = measures(problem, agents.X)[0]
    for count, _ in enumerate(events):
        if count % 300 == 0:
            slope, apart, infeasible = measures(problem, agents.X)
            if max(slope / first, apart, infeasible) < 1e-8:
                return
    raise AssertionError(f"{slope / first:.1e} {apart:.1e} {infeasible:.1e} after {count + 1} events")


def test_rollbacks_do_not_move_the_limit():
    problem = small_problem("pca")
    agents = AsyncAgents(problem, NETWORK, ahead=True)
    beginning, rng = agents.states[0], np.random.default_rng(2)
    for _ in agents.chaos(rng, 1000, rollback=0.01):  # to checkpoints 50 wakes old, on average
        pass
    assert max(agents.lives) > 1
    agents.restart(0, beginning)  # and one has lost even its checkpoint
    run_to_tolerance(problem, agents, agents.chaos(rng, 9000))


def test_at_the_answer_nothing_moves_whatever_arrives():
    problem = small_problem("pca")
    agents = AsyncAgents(problem, NETWORK)
    for _ in range(400):
        agents.lockstep()
    kept = list(agents.states)
    X = agents.X
    agents.restart(0, kept[0])
    for _ in agents.chaos(np.random.default_rng(3), 300, rollback=0.02):
        np.testing.assert_allclose(agents.X, X, rtol=0, atol=1e-10)


def test_a_message_is_used_once_and_an_older_one_never():
    problem = small_problem("pca")
    agents = AsyncAgents(problem, NETWORK)
    agents.lockstep()
    i = int(agents.agents[0].neighbors[0])
    old, new = agents.wake(i), agents.wake(i)
    state, agent, wake = agents.states[0], agents.agents[0], agents.algorithm.wake
    expected, _ = wake(state, [new], agent)
    for inbox in ([old, new], [new, old], [new, new, old, new]):
        assert equal_bits(wake(state, inbox, agent)[0], expected)
    later, _ = wake(expected, [old, new], agent)
    assert equal_bits(later, wake(expected, [], agent)[0])


def test_a_life_after_a_restart_counts_as_newer():
    agents = AsyncAgents(small_problem("pca"), NETWORK)
    agents.lockstep()
    kept = agents.states[1]
    for _ in range(5):
        last = agents.wake(1)
    agents.restart(1, kept)
    first = agents.wake(1)
    assert last.stamp == 6
    assert first.stamp == LIFE + 1
    assert np.array_equal(first.total, kept.total + agents.states[1].flow)


def pair(periods, late=0, ticks=600):
    """Two agents that wake every so many ticks; messages arrive so many ticks after the wake, plus one."""
    agents = AsyncAgents(small_problem("pca", agents=2), destiny.networks.complete(2))
    arrivals = [[] for _ in range(ticks + late + 1)]
    for tick in range(ticks):
        for to, message in arrivals[tick]:
            agents.deliver(message, to)
        for i in (0, 1):
            if tick % periods[i] == 0:
                arrivals[tick + late + 1].append((1 - i, agents.wake(i)))
    return agents


def test_agents_learn_how_fast_their_neighbors_are():
    agents = pair((3, 1))
    rates = [float(s.inbox.rate[0]) for s in agents.states]
    assert rates[0] == pytest.approx(3, rel=0.05)
    assert rates[1] == pytest.approx(
        1 / 3, rel=0.3
    )  # heard of once in three wakes: the mean goes up and down
    agents.restart(1, agents.states[1])
    agents.deliver(agents.wake(1), 0)
    agents.wake(0)
    assert agents.states[0].inbox.rate[0] == pytest.approx(3, rel=0.1)  # a new life is no leap
    assert pair((1, 1)).states[0].inbox.rate[0] == 1


def test_a_slow_neighbor_is_not_taken_for_a_slow_line():
    """Beside one that wakes a tenth of the time moves are as long as ever, and longer with late messages."""
    assert pair((1, 10)).states[0].delay < 1.2
    assert pair((1, 1), late=5).states[0].delay > 2.5


def test_what_is_computed_ahead_is_used_in_the_next_wake_and_half_of_the_move_is_sent():
    agents = AsyncAgents(small_problem("pca"), NETWORK)
    agents.lockstep()
    agents.lockstep()
    method, agent, state = agents.algorithm, agents.agents[0], agents.states[0]
    before = agent.gradients
    ahead = method.compute(state, agent)
    assert method.compute(ahead, agent) is ahead
    assert agent.gradients == before + 1
    woken, message = method.wake(ahead, agents.inboxes[0], agent)
    assert agent.gradients == before + 1
    assert np.array_equal(woken.H, ahead.H)
    np.testing.assert_allclose(message.point, (woken.X + woken.point) / 2, rtol=0, atol=1e-15)
    np.testing.assert_allclose(message.total, woken.total - woken.flow / 2, rtol=0, atol=1e-12)
    late, full = method.wake(state, agents.inboxes[0], agent)  # without: the gradient is part of the wake
    assert agent.gradients == before + 2
    assert np.array_equal(full.point, late.point)
    assert np.array_equal(full.total, late.total)
    assert np.array_equal(late.X, woken.X)


def test_momentum_of_the_tracking_makes_up_for_rounds_on_a_ring():
    """One exchange a step on a ring of 12, and no more of them than the synchronous method has rounds."""
    problem, ring = small_problem("pca", agents=12), destiny.networks.ring(12)
    synchronous = destiny.solve(problem, ring, destiny.DestinyAccelerated(), tolerance=1e-6)
    agents = AsyncAgents(problem, ring)
    first = measures(problem, agents.X)[0]
    for _ in range(int(1.5 * synchronous.rounds)):
        agents.lockstep()
    slope, apart, infeasible = measures(problem, agents.X)
    assert max(slope / first, apart, infeasible) < 1e-6


def test_replay_of_a_log_gives_the_same_bits():
    """From what each wake had heard (stamps alone: no times, no common order) the run is made again."""
    problem = small_problem("olsr")
    agents, again = (AsyncAgents(problem, NETWORK, ahead=True) for _ in range(2))
    logs = [[] for _ in agents.agents]
    for i in agents.chaos(np.random.default_rng(4), 500, loss=0.2):
        logs[i].append(agents.states[i].inbox.stamp)
    neighbors = [agent.neighbors for agent in agents.agents]
    sent, done = {}, [0] * 6
    while any(done[i] < len(log) for i, log in enumerate(logs)):
        before = list(done)
        for i, log in enumerate(logs):
            while done[i] < len(log):
                names = [(int(j), float(s)) for j, s in zip(neighbors[i], log[done[i]], strict=True) if s]
                if not all(name in sent for name in names):
                    break
                again.inboxes[i] = [sent[name] for name in names]
                message = again.wake(i)
                sent[i, float(message.stamp)] = message
                done[i] += 1
        assert done != before
    for state, other in zip(agents.states, again.states, strict=True):
        assert equal_bits(state, other)


def test_states_and_messages_are_plain_arrays_of_fixed_shapes():
    agents = AsyncAgents(small_problem("sdl"), NETWORK)
    first = [flatten(s) for s in agents.states]
    for _ in range(35):  # beyond a new look at the curvature and the wakes of the reference
        agents.lockstep()
    messages = [flatten(agents.wake(i)) for i in range(6)]
    shapes = {name: array.shape for name, array in messages[0].items()}
    for message in messages:
        assert {name: array.shape for name, array in message.items()} == shapes
    for start, state in zip(first, agents.states, strict=True):
        arrays = flatten(state)
        assert {k: v.shape for k, v in start.items()} == {k: v.shape for k, v in arrays.items()}
        assert all(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in arrays.values())
        assert all(np.isfinite(a).all() for a in arrays.values())
        restored = unflatten(state, Saved(arrays, {}, {}))
        assert equal_bits(restored, state)


def test_wake_changes_neither_state_nor_messages():
    agents = AsyncAgents(small_problem("pca"), NETWORK)
    for _ in range(3):
        agents.lockstep()
    state, inbox = agents.states[0], list(agents.inboxes[0])
    copies = [{k: v.copy() for k, v in flatten(x).items()} for x in (state, *inbox)]
    agents.wake(0)
    for x, kept in zip((state, *inbox), copies, strict=True):
        assert all(np.array_equal(v, kept[k]) for k, v in flatten(x).items())


def test_data_in_other_units_give_the_same_iterates():
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((8, 12)) for _ in range(6)]
    runs = [
        AsyncAgents(destiny.problems.PCA([(scale * a).T for a in parts], 2), NETWORK)
        for scale in (1.0, 1024.0)
    ]
    for _ in range(40):
        for agents in runs:
            agents.lockstep()
    np.testing.assert_allclose(runs[0].X, runs[1].X, rtol=0, atol=1e-9)


def test_one_agent_alone():
    data = np.random.default_rng(0).standard_normal((6, 40))
    problem = destiny.problems.PCA([data.T], 2)
    agents = AsyncAgents(problem, destiny.networks.complete(1), DestinyAsync(lambda_=0))
    for _ in range(600):
        agents.wake(0)
    assert agents.algorithm.residual(agents.states[0]) < 1e-8
    best = np.linalg.svd(data)[0][:, :2]
    assert destiny.stiefel.subspace_distance(agents.X[0], best) < 1e-7


def test_the_residual_waits_until_every_neighbor_was_heard_and_then_goes_to_zero():
    agents = AsyncAgents(small_problem("pca"), NETWORK)
    for _ in range(50):
        agents.wake(0)
    assert agents.algorithm.residual(agents.states[0]) == np.inf
    for _ in range(600):
        agents.lockstep()
    assert max(map(agents.algorithm.residual, agents.states)) < 1e-8


def test_settings_are_checked():
    for settings in ({"beta": -1}, {"beta": "big"}, {"direction": "oja"}, {"lambda_": 1.0}, {"lambda_": "x"}):
        with pytest.raises(SettingsError):
            DestinyAsync(**settings)
    with pytest.raises(SettingsError, match="how well the network mixes"):
        DestinyAsync().on(Silent())
    assert DestinyAsync(lambda_=0.3).on(Silent()).lambda_ == 0.3
    assert DestinyAsync().on(NETWORK).lambda_ == NETWORK.lambda_


class Silent(TopologyBase):
    agents = 2

    def at(self, round):
        raise NotImplementedError


def test_an_infinite_gradient_is_refused():
    agent = replace_gradient(AsyncAgents(small_problem("pca"), NETWORK).agents[0], lambda X: X / 0)
    with np.errstate(all="ignore"), pytest.raises(ProblemError, match="agent 0"):
        DestinyAsync(lambda_=0).start(np.eye(12, 3), agent)


def replace_gradient(agent, gradient):
    agent.gradient = gradient
    return agent


def test_moves_are_short_and_shorter_where_messages_are_late():
    agents = AsyncAgents(small_problem("sdl", 6), destiny.networks.ring(6), ahead=True)
    late, cut = 1.0, 0
    for i in agents.chaos(np.random.default_rng(0), 1200, loss=0.9, late=0.9):
        s = agents.woken[i]
        length, most = np.linalg.norm(s.point - s.X), min(0.5, 1 / float(s.delay))
        assert length <= most * (1 + 1e-12)
        late, cut = max(late, float(s.delay)), cut + (length > 0.999 * most and most < 0.5)
    assert late > 3
    assert cut > 0, "otherwise this shows nothing"
