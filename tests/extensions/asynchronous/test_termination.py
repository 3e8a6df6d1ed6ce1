"""Asynchronous agents stop together, without a barrier, and never too early."""

import numpy as np
import pytest

import destiny
from destiny.extensions.asynchronous.destiny_async import DestinyAsync
from destiny.extensions.asynchronous.termination import DONE, SLACK, TerminationDetection
from tests.helpers.async_agents import AsyncAgents, measures
from tests.helpers.small_problems import small_problem

NETWORK = destiny.networks.ring(6)


def run_until_done(agents, events):
    """The event at which each agent was done first; fails if one never is."""
    done = {}
    for event, i in enumerate(events):
        if agents.algorithm.done(agents.states[i], agents.agents[i]):
            done.setdefault(i, event)
        if len(done) == len(agents.agents):
            return done
    raise AssertionError(f"only {sorted(done)} are done")


@pytest.mark.parametrize("seed", [0, 1])
def test_all_stop_and_the_answer_is_there(seed):
    problem = small_problem("pca")
    agents = AsyncAgents(problem, NETWORK, TerminationDetection(DestinyAsync(), 1e-6))
    first = measures(problem, agents.X)[0]
    run_until_done(agents, agents.chaos(np.random.default_rng(seed), 20_000, loss=0.2))
    slope, apart, infeasible = measures(problem, agents.X)
    assert max(slope / first, apart, infeasible) < 2e-6


def test_nobody_stops_while_one_is_not_heard():
    """Five agents of which one is away look at rest, and are not."""
    agents = AsyncAgents(small_problem("pca"), NETWORK, TerminationDetection(DestinyAsync(), 1e-3))
    for _ in agents.chaos(np.random.default_rng(0), 2500, speeds=[1, 1, 1, 1, 1, 0]):
        pass
    assert not any(agents.algorithm.done(s, a) for s, a in zip(agents.states, agents.agents, strict=True))


def test_an_answer_to_an_earlier_message_is_no_answer():
    agents = AsyncAgents(small_problem("pca"), NETWORK, TerminationDetection(DestinyAsync(), np.inf))
    first = agents.wake(0)  # before the first wake nobody is quiet
    for j in (1, 5):
        agents.deliver(first, j)
        agents.deliver(agents.wake(j), 0)
    agents.wake(0)
    assert agents.states[0].levels[0] == 0  # they have heard the message of the first wake, not a later one
    assert agents.states[0].busy == 1


def test_who_comes_back_stops_too_and_knows_it_from_the_others():
    problem = small_problem("pca")
    agents = AsyncAgents(problem, NETWORK, TerminationDetection(DestinyAsync(), 1e-6))
    early = None
    for event, _ in enumerate(agents.chaos(np.random.default_rng(2), 20_000)):
        early = agents.states[3] if event == 300 else early
        if all(s.levels[i] == DONE for i, s in enumerate(agents.states)):
            break
    agents.restart(3, early)
    agents.wake(3)
    assert not agents.algorithm.done(agents.states[3], agents.agents[3])
    run_until_done(agents, agents.chaos(np.random.default_rng(3), 5000))
    for s in agents.states:
        assert agents.algorithm.residual(s) <= SLACK * 1e-6
    assert agents.algorithm.kind == "destiny-async"


def test_one_agent_alone_stops():
    problem = destiny.problems.PCA([np.random.default_rng(0).standard_normal((6, 40)).T], 2)
    network = destiny.networks.complete(1)
    agents = AsyncAgents(problem, network, TerminationDetection(DestinyAsync(lambda_=0), 1e-6))
    while not agents.algorithm.done(agents.states[0], agents.agents[0]):
        agents.wake(0)
    assert agents.algorithm.all_done(agents.states[0])
    assert agents.algorithm.residual(agents.states[0]) <= 1e-6


def test_an_agent_that_is_done_answers_without_moving_and_brings_the_others_home():
    """It may have passed its iterate on already; somebody else falls back to the start at that moment."""
    problem = small_problem("pca")
    agents = AsyncAgents(problem, NETWORK, TerminationDetection(DestinyAsync(), 1e-6))
    method, start, done = agents.algorithm, agents.states[3], {}
    first = measures(problem, agents.X)[0]
    for _ in range(3000):
        for i, agent in enumerate(agents.agents):
            if i in done:
                agents.states[i], letter = method.answer(agents.states[i], agents.inboxes[i], agent)
                agents.inboxes[i] = []
                assert np.array_equal(agents.states[i].X, done[i])
            else:
                letter = agents.wake(i)
                if method.done(agents.states[i], agent):
                    if not done:
                        agents.restart(3, start)
                    done[i] = agents.states[i].X
            for j in agent.neighbors:
                agents.deliver(letter, j)
        if len(done) == NETWORK.agents:
            break
    slope, apart, infeasible = measures(problem, agents.X)
    assert len(done) == NETWORK.agents
    assert max(slope / first, apart, infeasible) < 2e-5


def test_who_gives_up_ends_everybody():
    agents = AsyncAgents(small_problem("pca"), NETWORK, TerminationDetection(DestinyAsync(), 1e-6))
    method = agents.algorithm
    agents.lockstep()
    agents.states[0] = method.give_up(agents.states[0], agents.agents[0])
    agents.states[0], letter = method.answer(agents.states[0], [], agents.agents[0])
    for j in agents.agents[0].neighbors:
        agents.deliver(letter, j)
        agents.wake(j)
        assert method.ended(agents.states[j])
        assert not method.done(agents.states[j], agents.agents[j])
