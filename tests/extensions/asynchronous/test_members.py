"""Who takes part: changes reach everybody in any order, and a set in which somebody is done stays."""

from dataclasses import replace

import numpy as np
import pytest

import destiny
from destiny.extensions import asynchronous
from destiny.extensions.asynchronous.local_agent import HostedAgent
from destiny.extensions.asynchronous.members import (
    LATE,
    LEAVING,
    LEFT,
    MEMBER,
    AmongMembers,
    Record,
    asked,
    carried_out,
    epoch,
    first_standing,
    member_ids,
    merged,
    mixing_of,
    restricted,
)
from destiny.extensions.asynchronous.simulation.simulated_membership import ChangingAgents, late_agents
from destiny.extensions.asynchronous.termination import ALL_QUIET, DONE, OUT, TerminationDetection
from tests.helpers.async_agents import AsyncAgents
from tests.helpers.restless import Restless
from tests.helpers.small_problems import small_problem

RING = destiny.networks.ring(4)


class Nothing:
    """An objective of which nothing is asked."""

    def gradient(self, X):
        return X


def restless(late=(), **settings):
    """Four agents on a ring that compute nothing."""
    agents = AsyncAgents(
        small_problem("pca", agents=4), RING, TerminationDetection(Restless(**settings), 0.5, late)
    )
    agents.records = [Record(first_standing(4, late)) for _ in range(4)]
    return agents


def talk(agents, i, to):
    """Agent i wakes and is heard by some; what it must not forget is recorded."""
    message = agents.wake(i)
    agents.records[i] = agents.algorithm.record(agents.records[i], agents.states[i], agents.agents[i])
    for j in to:
        agents.deliver(message, j)


def all_talk(agents, rounds, among=range(4)):
    for _ in range(rounds):
        for i in among:
            talk(agents, i, [j for j in agents.agents[i].neighbors if j in among])


def change(agents, i):
    """Agent i makes the changes that are asked for, if it may."""
    standing = agents.algorithm.carry_out(agents.states[i], agents.records[i], agents.agents[i])
    if standing is not None:
        agents.states[i] = agents.algorithm.know(agents.states[i], standing, agents.agents[i])
    return standing is not None


def ask(agents, i, j, joins=False):
    wish = asked(agents.states[i].standing, j, joins)
    agents.states[i] = agents.algorithm.know(agents.states[i], wish, agents.agents[i])


def test_wishes_become_facts_and_the_order_does_not_matter():
    first = first_standing(5, late=[4])
    assert member_ids(first) == [0, 1, 2, 3]
    leaves, comes = asked(first, 1, joins=False), asked(first, 4, joins=True)
    assert epoch(leaves) == epoch(comes) == epoch(first)  # nobody has left or come yet
    one, other = carried_out(leaves), carried_out(comes)
    assert epoch(one) == epoch(other) == epoch(first) + 1
    both = merged(one, other)
    assert np.array_equal(both, merged(other, one))
    assert member_ids(both) == [0, 2, 3, 4]
    assert epoch(both) == epoch(first) + 2
    assert np.array_equal(asked(first, 4, joins=False), first)  # who never came cannot leave
    assert np.array_equal(asked(both, 1, joins=True), both)  # who has left does not come back


def test_an_agent_among_members_has_its_row_of_the_restricted_weights():
    standing = first_standing(4)
    standing[1] = LEFT
    W = RING.at(0)
    near = AmongMembers(HostedAgent(0, Nothing(), W), standing)
    row = restricted(W, [0, 2, 3]).toarray()[0]
    assert near.neighbors.tolist() == [3]
    assert near.weights.tolist() == [row[3]]
    assert near.own_weight == pytest.approx(row[0], abs=1e-15)
    assert mixing_of(W, [0, 2]) is None
    eigenvalues = np.linalg.eigvalsh(restricted(W, [0, 3, 2]).toarray()[np.ix_([0, 2, 3], [0, 2, 3])])
    assert mixing_of(W, [0, 2, 3]) == pytest.approx(np.sort(np.abs(eigenvalues))[-2])


def test_levels_of_another_set_are_void():
    agents = restless(chance=1.0, least=0)
    all_talk(agents, 3)
    assert (agents.states[0].levels >= 1).any()
    ask(agents, 0, 2)
    assert change(agents, 0)
    s = agents.states[0]
    assert (s.levels == 0).all()
    assert not np.isfinite(s.busy)
    talk(agents, 1, [0])  # it does not know yet, and its levels are about four agents
    agents.wake(0)
    assert agents.states[0].levels[1] == 0
    assert agents.states[0].spoke[1] == epoch(s.standing) - 1


def test_who_was_at_level_2_changes_nothing_and_others_do():
    agents = restless(chance=1.0, least=0)
    while agents.states[0].levels[0] < ALL_QUIET:
        all_talk(agents, 1)
    for i in range(4):
        ask(agents, i, 2)
    bound = [i for i in range(4) if agents.records[i].bound]
    assert 0 in bound
    assert [change(agents, i) for i in range(4)] == [i not in bound for i in range(4)]


def test_it_does_not_forget_that_it_was_at_level_2():
    agents = restless(chance=1.0, least=0)
    early = agents.states[0]
    while agents.states[0].levels[0] < ALL_QUIET:
        all_talk(agents, 1)
    agents.restart(0, early)
    agents.states[0] = agents.algorithm.recall(agents.states[0], agents.records[0], agents.agents[0])
    ask(agents, 0, 2)
    assert not change(agents, 0)
    agents.records[0] = replace(agents.records[0], bound=0.0)  # had it forgotten, it would
    assert change(agents, 0)


@pytest.mark.parametrize("record", [{"met": False}, {"bound": np.inf}])
def test_who_may_have_lost_its_record_changes_nothing(record):
    agents = restless()
    agents.records[0] = replace(agents.records[0], **record)
    ask(agents, 0, 2)
    assert not change(agents, 0)
    assert agents.states[0].standing[2] == LEAVING  # but it passes the wish on
    talk(agents, 0, [1])
    agents.wake(1)
    assert change(agents, 1)


def test_an_agent_that_does_not_know_that_it_was_taken_out_is_not_listened_to():
    """It may take out others, or let them in, while those who took it out are done."""
    agents = restless(chance=1.0, least=0)
    ask(agents, 0, 2)
    assert change(agents, 0)
    all_talk(agents, 12, among=[0, 1, 3])  # nobody tells agent 2
    assert all(agents.algorithm.done(agents.states[i], agents.agents[i]) for i in (0, 1, 3))
    ask(agents, 2, 3)
    assert change(agents, 2)
    talk(agents, 2, [1])
    agents.wake(1)
    assert member_ids(agents.states[1].standing) == [0, 1, 3]
    assert agents.states[1].levels[1] == DONE
    talk(agents, 1, [2])  # whoever hears from a member that it is out, knows
    agents.wake(2)
    assert not agents.algorithm.takes_part(agents.states[2], agents.agents[2])


def test_who_leaves_goes_when_all_its_neighbors_know():
    agents = restless()
    ask(agents, 2, 2)
    assert change(agents, 2)
    method = agents.algorithm
    talk(agents, 2, [1])
    talk(agents, 1, [2, 0])
    agents.wake(2)
    assert not method.may_go(agents.states[2], agents.agents[2])  # agent 3 has not heard
    all_talk(agents, 2)
    assert method.may_go(agents.states[2], agents.agents[2])
    assert all(member_ids(s.standing) == [0, 1, 3] for s in agents.states)


def test_who_leaves_need_not_wait_for_a_neighbor_that_others_have_heard_from():
    agents = restless(chance=1.0, least=0)
    ask(agents, 2, 2)
    assert change(agents, 2)
    talk(agents, 2, [1])
    all_talk(agents, 12, among=[0, 1, 3])  # agent 3 never speaks to agent 2, and all are done
    assert not agents.algorithm.may_go(agents.states[2], agents.agents[2])
    talk(agents, 1, [2])
    agents.wake(2)
    assert agents.algorithm.may_go(agents.states[2], agents.agents[2])


def test_who_gives_up_does_so_for_one_set():
    agents = restless()
    agents.states[0] = agents.algorithm.give_up(agents.states[0], agents.agents[0])
    assert agents.algorithm.record(agents.records[0], agents.states[0], agents.agents[0]).bound == 4
    ask(agents, 1, 3)
    assert change(agents, 1)
    talk(agents, 1, [0])
    agents.states[0], _ = agents.algorithm.answer(agents.states[0], agents.inboxes[0], agents.agents[0])
    assert agents.states[0].levels[0] < OUT
    assert not agents.algorithm.all_ended(agents.states[0])


def random_run(seed):
    """Agents that leave, come, are taken out, crash and fall back at random: after each wake, who woke."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 7))
    network = destiny.networks.erdos_renyi(d, prob=0.6, seed=seed)
    W, first = network.at(0), None
    while first is None or mixing_of(W, first) is None:
        late = rng.permutation(d)[: rng.integers(d - 1)]
        first = sorted(set(range(d)) - set(late.tolist()))
    world = asynchronous.World(
        join=[[i, rng.uniform(1, 60)] for i in late],
        leave=[[i, rng.uniform(1, 90)] for i in rng.permutation(d)[: rng.integers(2)]],
        loss=rng.choice([0, 0.3]),
        double=0.1,
        delay=rng.choice([0, 0.5, 3]),
        crash=rng.choice([60, 300]),
        down=rng.choice([2, 10]),
        checkpoint=int(rng.choice([1, 5, 30])),
        older=0.4,
        forget=0.2,
        seed=seed,
    )
    method = TerminationDetection(
        Restless(rng.choice([0.7, 0.95]), int(rng.choice([1, 30]))), 0.5, late_agents(world)
    )
    hosts = [HostedAgent(i, Nothing(), W) for i in range(d)]
    agents = ChangingAgents(hosts, method, rng.standard_normal((d, 1, 1)), world)
    removals = rng.random() < 0.3
    for i in agents.run():
        if agents.time > 400:
            return
        if removals and rng.random() < 0.002:
            agents.ask(i, int(rng.choice(hosts[i].neighbors)), joins=False)
        yield agents, i


@pytest.mark.parametrize("seeds", [range(0, 12), range(12, 24), range(24, 36)])
def test_a_set_in_which_somebody_is_done_is_never_changed(seeds):
    ended = 0
    for seed in seeds:
        final = None
        for agents, i in random_run(seed):
            state = agents.states[i]
            if final is None and state.levels[i] == DONE:
                final = state.standing // 2
            if final is None:
                continue
            members = np.flatnonzero(final == MEMBER // 2)
            assert all(np.array_equal(agents.records[j].standing // 2, final) for j in members), seed
            if all(agents.states[j].levels[j] == DONE for j in members):
                ended += 1
                break
    assert ended >= len(seeds) // 3  # otherwise little was tried


def test_a_place_that_nobody_takes_is_waited_for_by_nobody():
    agents = restless(late=(3,), chance=1.0, least=0)
    all_talk(agents, 12, among=[0, 1, 2])
    assert all(agents.algorithm.done(agents.states[i], agents.agents[i]) for i in range(3))
    assert agents.states[0].standing[3] == LATE
