"""Five ways to reconstruct an agent's data: each works on plain messages and fails on private ones.

The attacker is a neighbour that follows the protocol and keeps what it receives. Under masks it takes what
came for numbers, in the exponents that it has chosen itself, and goes on in the same way.
"""

from __future__ import annotations

import numpy as np
import pytest

import destiny
from destiny.agents.outbox import Outbox
from destiny.agents.privacy.exchange import PrivateExchange
from destiny.agents.privacy.masks import Masks, RunKey
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.transport.connections import Limits
from destiny.agents.transport.messages import HEADER, Header, Kind, Refusal
from destiny.agents.transport.neighbour import Message, Neighbour
from destiny.engines import fixed_point
from destiny.engines.fixed_point import GRAIN, HEAD, LEAST, MOST
from destiny.engines.hosted import HostedAgents
from destiny.run.averaging import average
from tests.helpers.masked_total import MaskedTotal
from tests.helpers.small_problems import agents_of

nets = destiny.networks
PRIVATE = destiny.Messages(private=True)
N, P = 20, 2


def sender_masks(receiver: int, senders: list[int]) -> dict[int, Masks]:
    keys = {j: RunKey.new() for j in senders}
    return {
        j: Masks(j, {k: keys[j].pair(keys[k].public, "run", receiver, j, k) for k in senders if k != j})
        for j in senders
    }


class View:
    """What one neighbour receives from an agent: its numbers, or what masks make of them."""

    def __init__(self, masks: Masks | None = None, weight: float = 1 / 3) -> None:
        self.masks, self.weight = masks, weight

    def __call__(self, round: int, numbers: np.ndarray) -> np.ndarray:
        if self.masks is None:
            return numbers
        columns = fixed_point.layout((numbers.size,))
        exponents = fixed_point.decide(np.array([LEAST]), columns.exponents(numbers[None])[0], fresh=True)
        unit = columns.unit(exponents)
        integers = fixed_point.encode(numbers[None], np.array([self.weight]), unit)[0]
        masked = self.masks.add(integers, round, 0, exponents)
        return np.asarray(fixed_point.decode(masked.view(np.int64), unit) / self.weight)


@pytest.fixture
def messages(monkeypatch):
    """All arrays that any agent sends, by round."""
    sent: list[list[np.ndarray]] = []
    plain, private = HostedAgents._round, HostedAgents._private_round

    def spy(self, blocks):
        sent.append([block.copy() for block in blocks])
        return plain(self, blocks)

    def spy_too(self, blocks, slot):
        sent.append([block.copy() for block in blocks])
        return private(self, blocks, slot)

    monkeypatch.setattr(HostedAgents, "_round", spy)
    monkeypatch.setattr(HostedAgents, "_private_round", spy_too)
    return sent


def guesses(count: int = 400) -> np.ndarray:
    """|cosines| of random vectors with a given one."""
    drawn = np.random.default_rng(1).standard_normal((count, N))
    return np.asarray(np.abs(drawn[:, 0]) / np.linalg.norm(drawn, axis=1))


def relative_error(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


# 1. One sample, from the first message alone.


def sample_from(first: np.ndarray, X0: np.ndarray) -> np.ndarray:
    """The first message carries the gradient -a a^T X_0 at a known X_0."""
    message = first.reshape(N, P)
    v = np.linalg.svd(message)[0][:, 0]
    square = -(v @ message) @ (v @ X0) / ((v @ X0) @ (v @ X0))
    return np.asarray(v * np.sqrt(abs(square)))


def one_patient():
    """Agent 0 has one sample; the problem, its sample, and the gradients at the known start."""
    rng = np.random.default_rng(0)
    patient = rng.standard_normal(N)
    problem = destiny.problems.PCA([patient[:, None]] + [rng.standard_normal((N, 30)) for _ in range(3)], p=P)
    X0 = destiny.stiefel.random_point(N, P, 0)
    return problem, patient, X0, agents_of(problem, nets.ring(4)).gradient(np.broadcast_to(X0, (4, N, P)))


def test_one_sample_from_the_first_message(messages):
    problem, patient, X0, _ = one_patient()
    destiny.solve(problem, nets.ring(4), destiny.DestinyMomentum(), rounds=20)
    first = next(block[0] for block in messages[0] if block.shape[1] == N * P)
    found = sample_from(first, X0)
    assert min(relative_error(found, patient), relative_error(-found, patient)) < 1e-12


def test_one_sample_from_private_messages(monkeypatch):
    """What is averaged before the first step is the total of the gradients; the attacker is neighbour 1."""
    _, patient, X0, gradients = one_patient()
    cosines, errors = [], []
    for _ in range(60):
        total = MaskedTotal(monkeypatch, nets.ring(4), gradients.reshape(4, -1))
        found = sample_from(total.strip(0, [1]), X0)
        cosines.append(abs(found @ patient) / np.linalg.norm(found) / np.linalg.norm(patient))
        errors.append(min(relative_error(found, patient), relative_error(-found, patient)))
    by_chance = guesses()
    assert abs(np.mean(cosines) - by_chance.mean()) < 4 * by_chance.std() / np.sqrt(60)
    assert np.max(cosines) < 0.8
    assert np.median(errors) > 0.9, "no better than to guess zero"


# 2. The whole covariance of an agent with one neighbour, from some tens of rounds.


def covariance_from(received: list[np.ndarray], own: list[np.ndarray], w: np.ndarray, X0: np.ndarray):
    """DeEPCA sends S + C X - C X_before; S and X follow from what both have sent before."""
    S, B, X = np.zeros_like(X0), np.zeros_like(X0), X0
    points, products = [], []
    for theirs, ours in zip(received, own, strict=True):
        theirs, ours = theirs.reshape(X0.shape), ours.reshape(X0.shape)
        new = theirs - S + B
        points.append(X)
        products.append(new)
        S, B = w[0] * theirs + w[1] * ours, new
        Q = np.linalg.qr(S)[0]
        X = Q * np.where(np.sum(Q * X0, axis=0) < 0, -1.0, 1.0)
    return np.concatenate(products, axis=1) @ np.linalg.pinv(np.concatenate(points, axis=1), rcond=1e-9)


@pytest.mark.parametrize("private", [False, True])
def test_the_covariance_of_an_agent_with_one_neighbour(private, messages):
    """Private sums refuse such a network; here the agent's messages are masked for one neighbour of two."""
    n, p = 10, 3
    rng = np.random.default_rng(0)
    silos = [rng.standard_normal((n, 30)) for _ in range(3)]
    network = nets.path(3)
    destiny.solve(
        destiny.problems.PCA(silos, p), network, destiny.algorithms.DeEPCA(), rounds=40, tolerance=0
    )
    C, X0 = silos[0] @ silos[0].T, destiny.stiefel.random_point(n, p, 0)
    view = View(sender_masks(1, [0, 2])[0] if private else None)
    received = [view(k, blocks[0][0]) for k, blocks in enumerate(messages)]
    W = network.W.toarray()
    found = covariance_from(received, [blocks[0][1] for blocks in messages], W[0, :2], X0)
    scale = 3 if private else 1  # objectives are divided by nothing else
    if private:
        assert relative_error(found, C) > 0.9, "no better than to guess zero"
    else:
        assert relative_error(found * scale, C) < 1e-6


# 3. Objective, gradient and ||A_i||^2, from the last averaging.


def last_numbers():
    """Objectives, gradients and ||A_i||^2 of four agents at an answer."""
    rng = np.random.default_rng(0)
    problem = destiny.problems.PCA([rng.standard_normal((N, 30)) for _ in range(4)], P)
    agents = agents_of(problem, nets.ring(4))
    X = np.broadcast_to(destiny.stiefel.random_point(N, P, 3), (4, N, P))
    return agents, agents.value(X), agents.gradient(X), np.array([problem.variance(i) for i in range(4)])


def test_the_last_averaging(messages):
    agents, f, G, total = last_numbers()
    average(agents, nets.ring(4), f, G, total)
    numbers = np.concatenate([block[0] for block in messages[0]])
    assert relative_error(numbers, np.concatenate([[f[0]], G[0].ravel(), [total[0]]])) < 1e-12


def test_the_last_averaging_of_private_messages(monkeypatch):
    _, f, G, total = last_numbers()
    A = np.column_stack([f, G.reshape(4, -1), total])
    trials = np.array([MaskedTotal(monkeypatch, nets.ring(4), A).strip(0, [1]) for _ in range(40)])
    for k in (0, -1):  # the objective and ||A||^2: of the right sign in half of the cases
        assert 8 <= np.sum(np.sign(trials[:, k]) == np.sign(A[0, k])) <= 32
    cosines = np.abs(trials @ A[0]) / np.linalg.norm(trials, axis=1) / np.linalg.norm(A[0])
    assert np.max(cosines) < 0.7
    assert np.median([relative_error(t, A[0]) for t in trials]) > 0.9


# 4. Neighbours that put together what they know.


@pytest.mark.parametrize("honest", [1, 2, 3])
def test_a_coalition_learns_the_sum_of_the_honest_neighbours_and_no_more(honest):
    """The receiver 0 and its neighbour 1 together; with a single honest neighbour the sum is its number."""
    rng = np.random.default_rng(honest)
    senders = list(range(1, honest + 2))
    masks = sender_masks(0, senders)
    E = np.array([0])
    values = {j: rng.integers(-(2**50), 2**50, 200) for j in senders}
    sent = {j: masks[j].add(values[j], 3, 0, E) for j in senders}
    # What the receiver gets without the liar's part, whose masks the coalition can take off, too.
    known = sum(Masks(1, {j: masks[1].pairs[j]}).add(np.zeros(200, int), 3, 0, E) for j in senders[1:])
    learnt = (sum(sent[j] for j in senders[1:]) + known).view(np.int64)
    assert (learnt == sum(values[j] for j in senders[1:])).all()
    victim = 2
    pair = Masks(1, {victim: masks[1].pairs[victim]}).add(np.zeros(200, int), 3, 0, E)
    stripped = (sent[victim] + pair).view(np.int64)
    if honest == 1:
        assert (stripped == values[victim]).all(), "which is why two neighbours are few"
    else:
        close = np.abs(stripped.astype(float) - values[victim]) < 2.0**56  # 1 in 128 by chance
        assert close.sum() < 12
        assert abs(np.corrcoef(stripped.astype(float), values[victim].astype(float))[0, 1]) < 0.35


# 5. A neighbour that asks again, with other exponents or after a restart it has brought about.


class FakeConnection:
    """Keeps what is written, and why it was refused."""

    def __init__(self) -> None:
        self.written: list[tuple[Header, bytes]] = []
        self.refused: list[str] = []
        self.next_out = 0
        self.write_paused = self.has_ended = False

    def write(self, message):
        self.written.append((Header.unpack(message[: HEADER.size]), bytes(message[HEADER.size :])))

    def refuse(self, why):
        self.refused.append(why)

    def resume_reading(self):
        pass


class FakeConnections:
    """Two neighbours, 1 and 2, of agent 0; a wait ends at once."""

    limits, mark, rounds, wait_limit = Limits(4096, 4, 100), 0, 0, 1.0

    def __init__(self) -> None:
        self.neighbours = [Neighbour(f"agent-{j}", j, "", 0, "", True) for j in (1, 2)]
        for n in self.neighbours:
            n.allocate(self.limits.largest)
            n.connection = FakeConnection()  # type: ignore[assignment]

    def wake(self):
        pass

    def send_pending(self, peer):
        self.store.send_pending(peer)

    def wait(self, ready):
        raise Stop


class Stop(Exception):
    """The agent waits."""


class Keys:
    def masks(self, receiver):
        return sender_masks(receiver, [0, 3])[0]


WIDTHS = (12, 1)
SLOT = (0, WIDTHS)
GROUPS = 2


def begun(folder, rounds=1):
    """An agent that has begun some rounds and waits for its neighbours."""
    connections = FakeConnections()
    exchange = PrivateExchange(connections, nets.ring(4), 0, Outbox(), Keys(), SentLog(folder, "run"))
    connections.store = exchange
    exchange.adopt(nets.ring(4).W)
    exchange.senders = connections.neighbours
    exchange.weights = {1: 1 / 3, 2: 1 / 3}
    for n in connections.neighbours:
        exchange.channels[n.index].masks = sender_masks(n.index, [0, 3])[0]
    known = fixed_point.Agreed(1).at(SLOT)
    for k in range(rounds):
        known.uses = k
        with pytest.raises(Stop):
            exchange.sum(k, SLOT, known, np.linspace(1, 2, 13), None)
    return exchange, connections.neighbours[0]


def packed(*numbers):
    return memoryview(np.array(numbers, dtype="<i8").tobytes())


def choose(exchange, peer, exponents, round=0):
    """The neighbour sends PLAN."""
    content = packed(*exponents)
    header = Header(Kind.PLAN, round, 0, len(content))
    exchange.check_header(peer, header)
    exchange.on_private(peer, header, content)


def test_exponents_are_told_first_and_numbers_once_they_are_chosen(tmp_path):
    exchange, peer = begun(tmp_path)
    ((header, content),) = peer.connection.written
    assert (header.kind, header.round) == (Kind.EXPONENTS, 0)
    assert np.frombuffer(content, "<i8").tolist() == [4, 4]
    choose(exchange, peer, [8, 8])
    header, content = peer.connection.written[-1]
    assert header.kind is Kind.DATA
    words = np.frombuffer(content, "<i8")
    assert words[:3].tolist() == [1, 8, 8]
    assert len(words) == 1 + GROUPS + 13


def test_a_second_choice_is_refused(tmp_path):
    exchange, peer = begun(tmp_path)
    choose(exchange, peer, [8, 8])
    count = len(peer.connection.written)
    with pytest.raises(Refusal, match="not to be chosen for"):
        choose(exchange, peer, [8, 8])
    exchange.on_disconnected(peer)  # it calls again
    peer.connection.next_out = 0
    exchange.send_pending(peer)
    assert peer.connection.written[-1] == peer.connection.written[count - 1], "the same bits again"
    with pytest.raises(Refusal, match="other exponents for round 0 than before"):
        choose(exchange, peer, [12, 8])
    assert len({content for header, content in peer.connection.written if header.kind is Kind.DATA}) == 1


def test_a_restart_does_not_make_an_agent_answer_a_second_choice(tmp_path):
    exchange, peer = begun(tmp_path)
    choose(exchange, peer, [8, 8])
    exchange, peer = begun(tmp_path)
    assert [header.kind for header, _ in peer.connection.written] == [Kind.EXPONENTS]
    with pytest.raises(Refusal, match="other exponents for round 0 than before"):
        choose(exchange, peer, [12, 8])
    choose(exchange, peer, [8, 8])


def test_rounds_sent_before_a_restart_are_not_sent_in_exponents_of_later_ones(tmp_path):
    """So there are never more than two versions: that of the first attempt, and that of one choice."""
    exchange, peer = begun(tmp_path, rounds=2)
    choose(exchange, peer, [8, 8])
    kinds = [header.kind for header, _ in peer.connection.written]
    assert kinds == [Kind.EXPONENTS, Kind.DATA, Kind.DATA], "the second round needs no choice"
    exchange, peer = begun(tmp_path, rounds=2)
    choose(exchange, peer, [8, 8])
    kinds = [header.kind for header, _ in peer.connection.written]
    assert kinds == [Kind.EXPONENTS, Kind.DATA, Kind.EXPONENTS]


WRONG_CHOICES = {
    "too small": ([0, 4], 0, "too small for the numbers"),
    "beyond reason": ([MOST + HEAD + GRAIN, 8], 0, "no numbers have"),
    "below reason": ([LEAST - GRAIN, 8], 0, "no numbers have"),
    "in between": ([9, 8], 0, "no numbers have"),
    "too few": ([8], 0, "announced 8 bytes of PLAN"),
    "too many": ([8] * 99, 0, "announced 792 bytes of PLAN"),
    "a later round": ([8, 8], 1, "not to be chosen for"),
    "far ahead": ([8, 8], 2**62, "not to be chosen for"),
}


@pytest.mark.parametrize("case", WRONG_CHOICES)
def test_choices_that_cannot_be_are_refused(case, tmp_path):
    exponents, round, words = WRONG_CHOICES[case]
    exchange, peer = begun(tmp_path)
    with pytest.raises(Refusal, match=words):
        choose(exchange, peer, exponents, round)
    assert not any(header.kind is Kind.DATA for header, _ in peer.connection.written)


def deliver(exchange, peer, kind, round, content):
    """The neighbour sends DATA or EXPONENTS."""
    exchange.check_header(peer, Header(kind, round, 0, len(content)))
    if kind is Kind.EXPONENTS:
        exchange.on_private(peer, Header(kind, round, 0, len(content)), content)
    else:
        memory = peer.free_buffers.pop()
        memory[: len(content)] = content
        exchange.on_data(peer, Message(round, len(content), memory), memoryview(memory)[: len(content)])
    exchange.all_arrived()


DATA = [1, 8, 8, *range(13)]
WRONG_ANSWERS = {
    "round before": (Kind.DATA, -1, DATA, "where round 0 was due"),
    "round ahead": (Kind.DATA, 1, DATA, "where round 0 was due"),
    "far ahead": (Kind.EXPONENTS, 2**62, [4, 4], "where round 0 was due"),
    "too short": (Kind.DATA, 0, DATA[:-1], "announced 120 bytes for round 0, expected 128"),
    "too long": (Kind.DATA, 0, DATA + [0] * 999, "announced"),
    "nothing": (Kind.EXPONENTS, 0, [], "announced 0 bytes"),
    "more exponents": (Kind.EXPONENTS, 0, [4] * 3, "announced 24 bytes"),
}


@pytest.mark.parametrize("case", WRONG_ANSWERS)
def test_messages_that_are_not_due_are_refused(case, tmp_path):
    kind, round, numbers, words = WRONG_ANSWERS[case]
    exchange, peer = begun(tmp_path)
    with pytest.raises(Refusal, match=words):
        deliver(exchange, peer, kind, round % 2**64, packed(*numbers))


WRONG_CONTENTS = {
    "attempt": (Kind.DATA, [7, *DATA[1:]], "attempt 7"),
    "negative attempt": (Kind.DATA, [-1, *DATA[1:]], "attempt -1"),
    "exponents": (Kind.DATA, [1, 2**40, *DATA[2:]], "no numbers have"),
    "sizes": (Kind.EXPONENTS, [4, 5], "no numbers have"),
    "numbers where exponents are due": (Kind.DATA, [0, *DATA[1:]], "chosen anew"),
}


@pytest.mark.parametrize("case", WRONG_CONTENTS)
def test_contents_that_cannot_be_are_refused_and_memory_is_free_again(case, tmp_path):
    kind, numbers, words = WRONG_CONTENTS[case]
    exchange, peer = begun(tmp_path)
    other = exchange.connections.neighbours[1]
    deliver(exchange, other, Kind.EXPONENTS, 0, packed(4, 4))
    deliver(exchange, peer, kind, 0, packed(*numbers))
    assert words in peer.connection.refused[0]
    exchange.on_disconnected(peer)
    assert len(peer.free_buffers) == len(other.free_buffers)


def test_a_neighbour_cannot_send_its_numbers_twice_or_far_ahead(tmp_path):
    exchange, peer = begun(tmp_path)
    deliver(exchange, peer, Kind.DATA, 0, packed(*DATA))
    with pytest.raises(Refusal, match="where round 1 was due"):
        deliver(exchange, peer, Kind.DATA, 0, packed(*DATA))
    deliver(exchange, peer, Kind.DATA, 1, packed(*DATA))
    with pytest.raises(Refusal, match="where round 2 was due"):
        deliver(exchange, peer, Kind.DATA, 2, packed(*DATA))


def test_answers_in_two_different_exponents_are_refused(tmp_path):
    exchange, peer = begun(tmp_path)
    other = exchange.connections.neighbours[1]
    deliver(exchange, peer, Kind.DATA, 0, packed(*DATA))
    deliver(exchange, other, Kind.DATA, 0, packed(1, 12, 8, *range(13)))
    assert "other exponents than its neighbours" in other.connection.refused[0]


def test_the_chooser_asks_all_and_takes_the_answers(tmp_path):
    exchange, peer = begun(tmp_path)
    other = exchange.connections.neighbours[1]
    deliver(exchange, peer, Kind.EXPONENTS, 0, packed(4, 12))
    deliver(exchange, other, Kind.EXPONENTS, 0, packed(8, 4))
    for n in (peer, other):
        plans = [c for h, c in n.connection.written if h.kind is Kind.PLAN]
        assert [np.frombuffer(c, "<i8").tolist() for c in plans] == [[12, 16]]
    deliver(exchange, peer, Kind.DATA, 0, packed(1, 12, 16, *range(13)))
    assert not exchange.all_arrived()
    deliver(exchange, other, Kind.DATA, 0, packed(1, 12, 16, *range(13)))
    assert exchange.all_arrived()


def test_a_neighbour_lost_when_all_was_there_may_come_back_with_another_attempt(tmp_path):
    """It was started again, and sends no first attempt twice: so all send a second one."""
    exchange, peer = begun(tmp_path, rounds=2)
    other = exchange.connections.neighbours[1]
    first = packed(0, LEAST, LEAST, *range(13))
    for n in (peer, other):
        n.next_in = 1
        deliver(exchange, n, Kind.DATA, 1, first)
    assert exchange.all_arrived()
    exchange.on_disconnected(peer)
    deliver(exchange, peer, Kind.EXPONENTS, 1, packed(4, 4))
    for n in (peer, other):
        assert [h.round for h, _ in n.connection.written if h.kind is Kind.PLAN] == [1]
        deliver(exchange, n, Kind.DATA, 1, packed(1, 8, 8, *range(13)))
    assert exchange.all_arrived()


# Rounds in clear, of totals whose words are masked already.


def begun_in_clear(folder):
    exchange, peer = begun(folder, rounds=0)
    with pytest.raises(Stop):
        exchange.swap(0, [np.arange(3.0)])
    return exchange, peer


def test_words_of_totals_go_to_all_neighbours_as_they_are(tmp_path):
    exchange, _ = begun_in_clear(tmp_path)
    for n in exchange.connections.neighbours:
        ((header, content),) = n.connection.written
        assert (header.kind, header.round) == (Kind.DATA, 0)
        assert np.frombuffer(content).tolist() == [0.0, 1.0, 2.0]
    for n in exchange.connections.neighbours:
        deliver(exchange, n, Kind.DATA, 0, memoryview(np.full(3, float(n.index)).tobytes()))
    assert exchange.all_arrived()


def test_a_restart_does_not_make_an_agent_send_other_words(tmp_path):
    begun_in_clear(tmp_path)
    exchange, _ = begun(tmp_path, rounds=0)
    with pytest.raises(destiny.errors.CheckpointError, match="not those that this agent has sent before"):
        exchange.swap(0, [np.arange(1.0, 4.0)])


def test_there_is_nothing_to_choose_in_rounds_of_totals(tmp_path):
    exchange, peer = begun_in_clear(tmp_path)
    for exponents in ([], [8, 8]):
        with pytest.raises(Refusal, match="not to be chosen for"):
            choose(exchange, peer, exponents)
    with pytest.raises(Refusal, match="announced 16 bytes for round 0, expected 0"):
        deliver(exchange, peer, Kind.EXPONENTS, 0, packed(4, 4))


def test_words_of_totals_that_cannot_be_are_refused(tmp_path):
    exchange, peer = begun_in_clear(tmp_path)
    with pytest.raises(Refusal, match="announced 16 bytes for round 0, expected 24"):
        deliver(exchange, peer, Kind.DATA, 0, packed(4, 4))
    for n in exchange.connections.neighbours:
        deliver(exchange, n, Kind.DATA, 0, memoryview(np.full(3, np.nan).tobytes()))
    assert not exchange.all_arrived()
    assert "not finite in round 0" in peer.connection.refused[0]
