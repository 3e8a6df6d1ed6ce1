"""What a coalition sees is a function of its own data and of totals: the proof, for all coalitions.

Two runs of the real code have different honest data and equal totals. The pair masks between honest agents
are uniform; those of the second run differ along a path of honest agents by what makes up for the other data.
Every message that a coalition can read is then the same to the bit: it cannot tell the two data apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations

import numpy as np
import pytest

import destiny
from destiny.engines import Local
from destiny.engines.mixers import PLAIN, Private
from destiny.engines.threads import Channel
from destiny.engines.tree_sum import tree_sum
from destiny.engines.words import add_into, subtract_from
from destiny.errors import PrivacyError
from destiny.estimators.averager import Averager, NoObjective

nets = destiny.networks
NETWORKS = {
    "ring": nets.ring(4),
    "star": nets.star(4),
    "path": nets.path(4),
    "tree": nets.from_edges([(0, 1), (1, 2), (1, 3), (3, 4)], 5),
    "complete": nets.complete(4),
    "two triangles": nets.from_edges([(0, 1), (0, 2), (1, 2), (0, 3), (0, 4), (3, 4)], 5),
}
N, P = 4, 2
PRIVATE = Private()


@dataclass
class Transcript:
    """Of each turn: the words of every agent, before and after masks; and what traveled in any other way."""

    words: dict[int, dict[int, list]] = field(default_factory=dict)
    masked: dict[int, dict[int, list]] = field(default_factory=dict)
    otherwise: list = field(default_factory=list)

    def view(self, network, coalition):
        """All that its members receive, send or can read: messages up and down on their links of the tree."""
        tree, seen = network.tree, [*self.otherwise]
        for turn, rows in sorted(self.masked.items()):
            for place in range(len(rows[0])):
                up, total = self._partial_sums(tree, rows, place)
                for child, parent in enumerate(tree.parents.tolist()):
                    if parent >= 0 and {child, parent} & set(coalition):
                        seen.append((turn, place, child, up[child].shape, up[child].tobytes()))
                seen.append((turn, place, total.tobytes()))
        return seen

    def _partial_sums(self, tree, rows, place):
        up = {}
        for agent in tree.upward:
            up[agent] = rows[agent][place].copy()
            for child in tree.children[agent]:
                add_into(up[agent], up[child])
        total = tree_sum(tree, [rows[i][place] for i in range(len(rows))])
        assert np.array_equal(up[tree.root], total)
        return up, total


def pair_mask(i, j, turn, place, shape):
    rng = np.random.default_rng([min(i, j), max(i, j), turn, place])
    return rng.integers(0, 2**64, shape, dtype=np.uint64)


class TableHiding:
    """Masks from a table (`destiny.engines.mixers.private.Hiding`): those of `pair_mask`, and some more."""

    def __init__(self, own, count, transcript, more):
        self.own, self.count, self.transcript, self.more = own, count, transcript, more

    def hide(self, turn, parts, units):
        self.transcript.words.setdefault(turn, {})[self.own] = [words.copy() for words in parts]
        for place, words in enumerate(parts):
            for other in range(self.count):
                if other != self.own:
                    apply = add_into if self.own < other else subtract_from
                    apply(words, pair_mask(self.own, other, turn, place, words.shape))
                    pair = (min(self.own, other), max(self.own, other), turn, place)
                    if pair in self.more:
                        apply(words, self.more[pair])
        self.transcript.masked.setdefault(turn, {})[self.own] = [words.copy() for words in parts]

    def learn(self, totals):
        pass

    def arrays(self):
        return {}

    def restore(self, arrays):
        pass


class LeavesOneWord(TableHiding):
    """The last number of the model is sent as it is; a rider comes after it."""

    place, word = 0, -2

    def hide(self, turn, parts, units):
        bare = parts[self.place][self.word].copy() if self.place < len(parts) else None
        super().hide(turn, parts, units)
        if bare is not None:
            parts[self.place][self.word] = bare
            self.transcript.masked[turn][self.own][self.place][self.word] = bare


class LeavesOneScale(LeavesOneWord):
    """The first of the wide words, a size of the agent's own numbers, is sent as it is."""

    place, word = 1, 0


@dataclass(frozen=True)
class Spy(Channel):
    """Notes what travels beside sums."""

    transcript: Transcript

    def swap(self, round, blocks):
        self.transcript.otherwise.append((round, [np.array(block) for block in blocks]))
        return super().swap(round, blocks)


@dataclass(frozen=True)
class Recorded(Local):
    """Engine with one worker for each agent, which hides its words with masks from a table."""

    transcript: Transcript = field(default_factory=Transcript)
    more: Mapping = field(default_factory=dict)
    hiding: type = TableHiding
    objectives: tuple | None = None

    def connect(self, problem, network, messages=PLAIN):
        team = super().connect(problem, network, messages)
        assert len(team.workers) == network.agents
        for i, worker in enumerate(team.workers):
            worker.mixer.hiding = self.hiding(i, network.agents, self.transcript, self.more)
            channel = worker.exchange
            worker.exchange = Spy(channel.worker, channel.rows, channel.memory, self.transcript)
            if self.objectives is not None:
                worker.evaluate(self.objectives[i])
        return team


@dataclass(frozen=True)
class Exact:
    """-<X, A X> / 2 at X rounded to multiples of 2^-16: linear in A, without rounding if A has integers."""

    A: np.ndarray

    def _rounded(self, X):
        return np.rint(np.ldexp(X, 16)) * 2.0**-16

    def gradient(self, X):
        return -(self.A @ self._rounded(X))

    def value(self, X):
        return np.einsum("knp,knp->k", self._rounded(X), self.gradient(X)) / 2

    def hessian(self):
        return -self.A[None]

    def scales(self):
        return np.diag(self.A)[None].copy()


def matrices(agents):
    """Symmetric positive definite matrices of small integers, whose diagonals bound their entries."""
    rng = np.random.default_rng(1)
    A = rng.integers(-3, 4, (agents, N, N)).astype(float)
    return A + A.swapaxes(1, 2) + 64 * np.eye(N) + np.diag(np.arange(N)) * 8


def exchanged(A, one, other):
    """The same sum: one matrix more at one agent, and less at another."""
    S = np.random.default_rng(2).integers(-2, 3, (N, N)).astype(float)
    B = A.copy()
    B[one] += S + S.T
    B[other] -= S + S.T
    return B


def swapped(A, one, other):
    """The same data at other agents: all totals are the same, also of numbers that are not linear in them."""
    B = A.copy()
    B[[one, other]] = A[[other, one]]
    return B


def solved(network, engine, A, algorithm):
    objectives = tuple(Exact(a) for a in A)
    engine = Recorded(network.agents, engine.transcript, engine.more, engine.hiding, objectives)
    problem = destiny.problems.pca.synthetic(n=N, m=40, p=P, xi=0.7, agents=network.agents, seed=0)
    destiny.solve(
        problem, network, algorithm, local_stopping=True, tolerance=1e-3, rounds=24, engine=engine, every=0,
        progress=False, messages=PRIVATE,
    )  # fmt: skip


def averaged(network, engine, A, symmetric):
    repeated = (1, 1) if symmetric else (3, 3)  # bounds are sent for large matrices only
    Averager(network, engine, PRIVATE)(lambda i: np.tile(A[i], repeated), symmetric=symmetric)


RUNS = {
    "newton": (partial(solved, algorithm="averaged-model"), exchanged),
    "krylov": (partial(solved, algorithm="averaged-krylov"), exchanged),
    "lbfgs": (partial(solved, algorithm="averaged-lbfgs"), swapped),
    "averages of symmetric matrices": (partial(averaged, symmetric=True), exchanged),
    "averages": (partial(averaged, symmetric=False), swapped),
}


def recorded(name, run, A, more=None, hiding=TableHiding):
    network = NETWORKS[name]
    engine = Recorded(network.agents, more=more or {}, hiding=hiding)
    RUNS[run][0](network, engine, A)
    return engine.transcript


@cache
def words_of(name, run, pair=None):
    """The transcript with some data, and those after an exchange between two agents."""
    A = matrices(NETWORKS[name].agents)
    return recorded(name, run, A if pair is None else RUNS[run][1](A, *pair))


def masks_that_make_up(before, after, honest):
    """What to add to masks along a path of honest agents, so that their words stay as they were."""
    more = {}
    for turn, rows in before.words.items():
        for place, words in enumerate(rows[0]):
            carried = np.zeros_like(words)
            for i, following in zip(honest, [*honest[1:], None], strict=True):
                add_into(carried, rows[i][place])
                subtract_from(carried, after.words[turn][i][place])
                if following is None:
                    assert not carried.any(), "the totals differ"
                else:
                    more[i, following, turn, place] = carried.copy()
    return more


def coalitions(agents):
    """All that leave two agents or more."""
    return [c for size in range(agents - 1) for c in combinations(range(agents), size)]


def views(name, run, coalition, hiding=TableHiding):
    """What a coalition sees before and after two of the others have exchanged data."""
    network = NETWORKS[name]
    honest = [i for i in range(network.agents) if i not in coalition]
    pair = (honest[0], honest[-1])
    before, after = words_of(name, run), words_of(name, run, pair)
    more = masks_that_make_up(before, after, honest)
    A = matrices(network.agents)
    first = before if hiding is TableHiding else recorded(name, run, A, hiding=hiding)
    second = recorded(name, run, RUNS[run][1](A, *pair), more, hiding)
    assert any(
        (words != other).any()
        for turn, rows in before.words.items()
        for words, other in zip(rows[pair[0]], after.words[turn][pair[0]], strict=True)
    ), "the data differ"
    assert not first.otherwise
    return first.view(network, coalition), second.view(network, coalition)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_coalition_can_tell_data_of_equal_totals_apart(name, run):
    for coalition in coalitions(NETWORKS[name].agents):
        first, second = views(name, run, coalition)
        assert len(first) > 2
        assert first == second, coalition


@pytest.mark.parametrize("leaky", [LeavesOneWord, LeavesOneScale])
@pytest.mark.parametrize("name", ["star", "two triangles"])
def test_one_word_without_masks_would_be_noticed(name, leaky):
    """A control: the same comparison fails if one word of a sum travels as it is."""
    first, second = views(name, "newton", (0,), leaky)
    assert first != second


def test_masks_that_do_not_make_up_for_the_data_would_be_noticed():
    """A control: words depend on the data."""
    first, second = words_of("path", "newton"), words_of("path", "newton", (0, 3))
    assert first.view(NETWORKS["path"], (1,)) != second.view(NETWORKS["path"], (1,))


def test_averaging_over_neighbors_is_refused_before_anything_is_sent():
    network = NETWORKS["ring"]
    engine = Recorded(network.agents)
    team = engine.connect(NoObjective(4), network, PRIVATE)
    try:
        with pytest.raises(PrivacyError, match="averages over neighbors"):
            team.each(lambda x, agents: agents.mix(x), team.split(np.ones((4, 3))))
    finally:
        team.close()
    assert not engine.transcript.otherwise
