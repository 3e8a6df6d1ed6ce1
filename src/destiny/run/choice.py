"""The method of a run that names none, from what all its agents know: the same choice everywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from destiny.algorithms import (
    CDADT,
    DGD,
    VRSGT,
    AveragedKrylov,
    AveragedLBFGS,
    AveragedModel,
    DestinyAccelerated,
    DestinyProx,
)
from destiny.algorithms.averaged.totals import TotalsMethod
from destiny.algorithms.blocks.gossip import center_spectrum, rounds_for
from destiny.engines.mixers import PLAIN, Messages
from destiny.engines.mixers.private import WIDE
from destiny.problems import Centered
from destiny.problems.own_problem import unwrap
from destiny.protocols import About, AlgorithmBase, ProblemBase, TopologyBase
from destiny.protocols.link import INTERNET, Link
from destiny.run.result import format_bytes
from destiny.validation import is_number

# Rounds of momentum to 1e-8, times those in which one number is averaged, and the least: the favorable end
# of the table in docs/averaged-model.md. Data whose spectrum is spread take ten to a thousand times as many.
TIMES, LEAST = 12, 150
REACHED = 1e-11  # tolerance that newton reaches everywhere; rounding in its local solutions ends at 1e-12
ABOUT_EQUAL = 1.1  # of predicted times: no prediction is better, and bytes decide
MOST = 1000  # rows of X: beyond it many agents in one process need gigabytes for the models


@dataclass(frozen=True)
class Choice:
    """A method, and why it is that one: a sentence for the notes of the result."""

    algorithm: AlgorithmBase
    reason: str

    def __str__(self) -> str:
        return f"{self.algorithm.kind} was chosen: {self.reason}"


@dataclass(frozen=True)
class Cost:
    """What a run takes, as predicted."""

    rounds: int
    numbers: int
    """One after the other over a link: long messages of a sum travel up and down in pieces at once."""
    messages: int
    """Numbers sent in all, over all links."""

    def time(self, link: Link) -> float:
        """In seconds."""
        return link.seconds(self.rounds, self.numbers)

    def over(self, link: Link) -> str:
        """The cost and the time that it takes."""
        return f"{self} ({self.time(link):.2g} s)"

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.rounds + other.rounds, self.numbers + other.numbers, self.messages + other.messages)

    def __str__(self) -> str:
        return f"{self.rounds} rounds and {format_bytes(8 * self.messages)}"


@dataclass(frozen=True)
class Totals:
    """A method of totals, as a candidate.

    Attributes
    ----------
    method : type
    steps : int
        To 1e-8, as a rule.
    sends : str
        What neighbors learn of an agent's data where messages are not private.
    """

    method: type[TotalsMethod]
    steps: int
    sends: str
    narrow: bool = False
    """Of Krylov spaces: p vectors in a message instead of 2 p."""

    def make(self) -> TotalsMethod:
        """The method with these settings."""
        return AveragedKrylov(width=1) if self.narrow else self.method()

    def obstacle(
        self,
        problem: ProblemBase,
        network: TopologyBase,
        tolerance: float = 0.0,
        messages: Messages = PLAIN,
        *,
        disclose: bool = True,
    ) -> str | None:
        """Why the method is not for this problem, network and messages, or None."""
        kind, (n, _) = self.method.kind, problem.shape
        by_models = self.method is AveragedModel
        constant = problem.quadratic and not problem.generalized
        if by_models and not constant:
            return f"the objective does not tell a constant Hessian, which {kind} averages"
        if self.method is AveragedKrylov and not (constant and problem.kind == "pca"):
            return f"the objective is not that of PCA, which {kind} is for"
        if network.depth is None:
            return f"the network changes from round to round, and {kind} needs a static one"
        if messages.few_bits:
            return f"{kind} averages by exact totals, which {messages} cannot carry"
        if by_models and n > MOST:
            return f"{kind} averages n x n matrices, which n = {n} makes large"
        if by_models and is_number(tolerance) and 0 < tolerance < REACHED:  # others are refused elsewhere
            return f"{kind} does not reach a tolerance of {tolerance:g}"
        if not disclose:
            return f"messages are not private, and {kind} sends {self.sends}"
        return None

    def cost(self, shape: tuple[int, int], network: TopologyBase, messages: Messages = PLAIN) -> Cost:
        """To 1e-8: so many steps, what the first of them sends beside, and with private messages scales."""
        settings = self.make().on(network)
        about, (n, p) = settings.about, shape
        assert about is not None
        if (
            self.method is AveragedLBFGS
        ):  # the first step alone sends two matrices; private ones tell of growth
            about = replace(about, sends=1, numbers=about.numbers + messages.private)
        if messages.private:  # numbers without a bound are wide, and one shows whether masks cancel
            about = replace(about, numbers=WIDE * about.numbers + 1)
        steps, scales, first = self.steps, n + p, 0
        if isinstance(
            settings, AveragedKrylov
        ):  # X and p vectors in the first step, then as many as are sent
            steps = min(steps, 1 + math.ceil((n - p) / (settings.width * p)))
            vectors = min(n, p + (steps - 1) * settings.width * p)
            about, scales, first = replace(about, sends=0), 1, n * (vectors + p)
        elif self.method is AveragedLBFGS:
            scales, first = n, n * p
        numbers = steps * numbers_in(about, shape) + first
        if messages.private:
            numbers += WIDE * scales + 1
        links = 2 * (network.agents - 1)
        return Cost((steps + messages.private) * settings.rounds, 2 * numbers, links * numbers)


NEWTON = Totals(AveragedModel, 1, "matrices of second moments")
# 8 to 10 steps on the data of docs/averaged-krylov.md, 30 on noise without structure
KRYLOV = Totals(AveragedKrylov, 9, "products with second moments")
# 1.1 to 1.4 times as many steps, with half the bytes in each
NARROW_KRYLOV = Totals(AveragedKrylov, 12, "products with second moments", narrow=True)
# 14 to 60 steps on most data of docs/averaged-lbfgs.md, hundreds on others
LBFGS = Totals(AveragedLBFGS, 30, "gradients at points that all agents know")


def choose(
    problem: ProblemBase,
    network: TopologyBase,
    tolerance: float = 0.0,
    messages: Messages = PLAIN,
    *,
    disclose: bool = True,
    link: Link = INTERNET,
) -> Choice:
    """The method for a problem and a network.

    It is averaged models or Krylov spaces where they apply, otherwise quasi-Newton steps by totals, if they
    are predicted to take less time than momentum over such a ``link``: a round costs its delay and the time
    to send its message.
    With private messages they need not be faster, as no other methods are available. ``tolerance`` is 0
    where a run has none. ``disclose`` is whether neighbors may be sent second moments, or gradients at
    points that all know.
    """
    if problem.generalized:
        return Choice(CDADT(), "the constraint is X^T M X = I")
    if problem.regularizer is not None:
        return Choice(DestinyProx(), "the objective has a regularizer")
    if not messages.exact and not problem.batches:
        return Choice(
            DGD(direction="landing"), "messages carry no exact averages, and trackers would keep the errors"
        )
    if problem.batches:
        return Choice(VRSGT(), "the problem draws mini-batches")

    def obstacle(method: Totals) -> str | None:
        return method.obstacle(problem, network, tolerance, messages, disclose=disclose)

    why = obstacle(NEWTON)
    candidates = [m for m in (NEWTON, KRYLOV, NARROW_KRYLOV) if obstacle(m) is None]
    if not candidates and obstacle(LBFGS) is None:
        candidates = [LBFGS]
    if not candidates:
        assert why is not None
        return Choice(DestinyAccelerated(), why)
    centering = centering_cost(problem, network, messages)
    costs = {c: c.cost(problem.shape, network, messages) + centering for c in candidates}
    momentum = momentum_cost(problem.shape, network) + centering
    quick = ABOUT_EQUAL * min(cost.time(link) for cost in costs.values())
    method = min((m for m in costs if costs[m].time(link) <= quick), key=lambda m: costs[m].messages)
    algorithm, cost = method.make(), costs.pop(method)
    others = [f"{other.over(link)} of {m.method.kind}" for m, other in costs.items() if not m.narrow]
    first = "" if why is None else f"{why}; "
    predicted, rival = f"about {cost.over(link)} are predicted for {link}", momentum.over(link)
    if messages.private:
        return Choice(algorithm, f"{first}it uses sums over all agents alone; {predicted}")
    if cost.time(link) <= momentum.time(link):
        return Choice(algorithm, f"{first}{predicted}, against {rival} or more of destiny-accelerated")
    against = " and ".join([f"{cost.over(link)} of {algorithm.kind}", *others])
    return Choice(DestinyAccelerated(), f"about {rival} are predicted for {link}, against {against}")


def centering_cost(problem: ProblemBase, network: TopologyBase, messages: Messages) -> Cost:
    """Of the sums before the first step, on a network that stays."""
    centered = unwrap(problem, Centered)
    if centered is None:
        return Cost(0, 0, 0)
    from destiny.run.parts.centering import centering_sums

    sums = centering_sums(centered, network, messages)
    numbers = sum(sums)
    return Cost(len(sums) * 2 * (network.depth or 0), 2 * numbers, 2 * (network.agents - 1) * numbers)


def momentum_cost(shape: tuple[int, int], network: TopologyBase) -> Cost:
    """Of momentum to 1e-8, on a network that stays."""
    average = 2 * (network.depth or 0)
    if network.spectrum is not None:
        average = rounds_for(1e-8, center_spectrum(*network.spectrum)[1])
    rounds, size = max(LEAST, TIMES * average), numbers_in(DestinyAccelerated.about, shape)
    links = len(network.all_edges()) if network.tree is not None else network.agents - 1  # at least
    return Cost(rounds, rounds * size, rounds * size * 2 * links)


def numbers_in(about: About, shape: tuple[int, int]) -> int:
    """Numbers in a message of a method."""
    n, p = shape
    return about.sends * n * p + about.triangles * (n * (n + 1) // 2) + about.numbers
