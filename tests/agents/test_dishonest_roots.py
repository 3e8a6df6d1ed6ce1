"""A root of the tree that does not follow the protocol: it answers what it likes instead of the averages.

With `destiny-lbfgs` it so chooses the points at which all others compute their gradients next. Were it to
choose another point for one agent, that one's gradients would follow from the differences of totals.
"""

from __future__ import annotations

import numpy as np
import pytest

import destiny
from destiny.agents.agent import Agent
from destiny.agents.transport.event_loop import RunEnded
from destiny.agents.transport.messages import HEADER
from destiny.engines import fixed_point, totals
from destiny.errors import NetworkError
from destiny.run import message_memory
from tests.helpers.agent_party import PATIENCE, Party

N, AGENTS, VICTIM = 5, 4, 1
OTHERS = range(1, AGENTS)
NUMBERS = 5  # that lbfgs averages besides a gradient; the last is the vote to average the points again
PROBLEM = f'kind = "pca"\nsynthetic = {{ n = {N}, m = 80, xi = 0.7, seed = 0 }}\np = 1'


class DishonestRoot:
    """Agent 0, which contributes zeros and answers each agent what it likes."""

    def __init__(self, settings):
        self.agent = Agent(settings, False)
        team = self.agent.engine.connect(settings.problem, settings.network)
        message_memory.begin_sums(team, settings.network, settings.messages, None)
        self.hosted = team.agents
        self.exchange = self.hosted.exchange
        self.special: dict[tuple[int, int], np.ndarray] = {}
        self.digests = dict.fromkeys(OTHERS, self.hosted.last_mean[0])
        self.honest_send, self.exchange.send_pending = self.exchange.send_pending, self.send_pending
        self.hosted.spanning_tree()

    def send_pending(self, peer):
        """Send what is meant for this neighbour instead of what is meant for all."""
        connection = peer.connection
        if connection is not None and (connection.next_out, peer.index) in self.special:
            k = connection.next_out
            if k not in self.exchange.outbox.messages:
                return
            numbers = self.special.pop((k, peer.index))
            connection.write(bytes(self.exchange.outbox.messages[k][: HEADER.size]) + numbers.tobytes())
            connection.next_out = k + 1
        self.honest_send(peer)

    def tell(self, *blocks, last):
        """One round, in which each neighbour gets its own version of the last block."""
        for j, block in last.items():
            self.special[self.hosted.traffic.rounds, j] = np.concatenate([*map(np.ravel, blocks), block[0]])
        (heard, *_), _ = self.hosted.tell(*blocks, last[VICTIM])
        return heard

    def total(self, widths, answers):
        """The sum over all others; agent j gets ``answers[j]`` for the average."""
        layout = fixed_point.layout(widths)
        own = layout.exponents(np.ones((1, layout.width)))
        state = np.append(-own[0], 0.0)[None]
        heard = self.tell(state, last={j: self.digests[j][None] for j in OTHERS})
        self.sizes = -np.asarray(heard)[VICTIM, :-1]
        exponents = -np.asarray(heard)[:, :-1].min(axis=0).astype(np.int64)
        unit = layout.unit(exponents + 2)
        words = np.zeros((1, layout.width), dtype=np.uint64)
        self.hosted.mask_links(words[0], exponents)
        count = np.ones((1, 1), dtype=np.uint64)
        ((total,), _) = totals._up(self.hosted, [words, count], np.array([-1]), 1)
        sent = {j: np.rint(AGENTS * answers[j] * unit).astype(np.int64) for j in OTHERS}
        everybody = totals._split(AGENTS * count)
        rows = {j: np.append(totals._split(sent[j].view(np.uint64)[None]), everybody)[None] for j in OTHERS}
        self.tell(last=rows)
        self.digests = {j: totals._digest(fixed_point.decode(sent[j], unit) / AGENTS) for j in OTHERS}
        return fixed_point.decode(total.view(np.int64), unit)

    def close(self):
        """End the run of all."""
        self.agent.connections.send_bye("is over")
        self.agent.close()

    def gradients_at(self, points):
        """The sum of the others' gradients, that of agent j at ``points[j]``."""
        # A mean of points that is no point: all begin anew at the nearest one.
        begin_there = {j: np.append(0.5 * points[j], np.zeros(N + NUMBERS)) for j in OTHERS}
        self.total((N, N, NUMBERS), begin_there)
        average_points_again = np.append(np.zeros(N + NUMBERS - 1), 1.0)
        return self.total((N, NUMBERS), dict.fromkeys(OTHERS, average_points_again))[:N]


@pytest.fixture
def party(tmp_path):
    return Party(
        tmp_path,
        destiny.networks.complete(AGENTS),
        problem=PROBLEM,
        algorithm='kind = "destiny-lbfgs"',
        stop="rounds = 1000\ntolerance = 0.0",
        messages="private = true",
        deadline=5,
    )


def moments(party, agents):
    """The sum of the agents' matrices: their gradients at the unit vectors, with the other sign."""
    hosted = party.settings(0).problem.host(agents)
    return -np.array(
        [hosted.gradient(np.tile(e[:, None], (len(agents), 1, 1))).sum(axis=0) for e in np.eye(N)]
    )[..., 0]


def test_it_chooses_the_points_and_learns_the_sum_over_all_others(party):
    running = [party.thread(i) for i in OTHERS]
    root = DishonestRoot(party.settings(0))
    try:
        found = -np.array([root.gradients_at(dict.fromkeys(OTHERS, e)) for e in np.eye(N)])
    finally:
        root.close()
    true = moments(party, list(OTHERS))
    assert np.linalg.norm(found - true) < 1e-13 * np.linalg.norm(true)
    for agent in running:
        agent.join()


def test_sizes_do_not_tell_where_an_agents_gradients_become_small(party):
    """Otherwise bisection between points finds an agent's data: covariances to 4e-7, in 1166 rounds."""
    running = [party.thread(i) for i in OTHERS]
    root = DishonestRoot(party.settings(0))
    own = party.settings(0).problem.host([VICTIM])
    sizes, true = [], []
    try:
        for e in [*np.eye(N), *np.eye(N)]:
            root.gradients_at(dict.fromkeys(OTHERS, e))
            sizes.append(root.sizes)
            true.append(fixed_point.layout((N,)).exponents(own.gradient(e[None, :, None])[:, :, 0])[0])
    finally:
        root.close()
    assert len(np.unique(true, axis=0)) > 1
    assert len(np.unique(sizes[N:], axis=0)) == 1
    for agent in running:
        agent.join()


def test_agents_at_different_points_send_nothing(party):
    """Otherwise the difference of two totals is that of one agent's gradients: it told all its data."""
    running = [party.thread(i) for i in OTHERS]
    root = DishonestRoot(party.settings(0))
    e = np.eye(N)
    try:
        root.gradients_at(dict.fromkeys(OTHERS, e[0]))
        with pytest.raises(destiny.DestinyError):
            root.gradients_at({VICTIM: e[1], 2: e[0], 3: e[0]})
    finally:
        root.close()
    ends = []
    for agent in running:
        agent.join()
        ends.append(agent.error)
    assert any(isinstance(error, NetworkError) and "same averages" in str(error) for error in ends)


@pytest.mark.parametrize("kind", ["destiny-newton", "destiny-lbfgs"])
@pytest.mark.parametrize(
    ("lie", "error", "words"),
    [
        (fixed_point.NOT_FINITE, RunEnded, "an agent has said that its numbers are not finite any more"),
        (5000, NetworkError, "found 5000 from agent 0, who has sent a false number"),
    ],
)
def test_false_sizes_end_the_run_in_a_sentence_before_numbers_are_sent(
    tmp_path, monkeypatch, kind, lie, error, words
):
    flood = totals._flood

    def lying(agents, exponents, *rest):
        if agents.ids[0] == 0 and exponents.size:
            exponents = np.full_like(exponents, lie)
        return flood(agents, exponents, *rest)

    monkeypatch.setattr(totals, "_flood", lying)
    options = {"problem": PROBLEM, "algorithm": f'kind = "{kind}"', "messages": "private = true"}
    party = Party(tmp_path, destiny.networks.ring(3), deadline=5, **options)
    running = [party.thread(i) for i in range(3)]
    for one in running:
        one.join(PATIENCE)
    honest = [one.error for one in running[1:]]
    assert any(isinstance(each, error) and words in str(each) for each in honest), honest
    assert all(isinstance(each, NetworkError | RunEnded) for each in honest), honest
