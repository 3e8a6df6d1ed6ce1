"""The method of a run that names none, from what all its agents know: the same choice everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from destiny.algorithms import (
    CDADT,
    DGD,
    VRSGT,
    DestinyKrylov,
    DestinyLBFGS,
    DestinyMomentum,
    DestinyNewton,
    DestinyProx,
)
from destiny.algorithms.blocks.gossip import centre_spectrum, rounds_for
from destiny.protocols import About, AlgorithmBase, ProblemBase, TopologyBase
from destiny.run.messages import PLAIN, Messages
from destiny.run.result import format_bytes
from destiny.validation import is_number

DELAY = 31_250  # numbers that a link carries during the delay of a round: 20 ms at 100 Mbit/s
FULL = 2 / 3  # of the rounds of newton that carry a model: the first third finds the tree
# Rounds of momentum to 1e-8, times those in which one number is averaged, and the least: the favourable end
# of the table in docs/newton.md. Data whose spectrum is spread take ten to a thousand times as many.
TIMES, LEAST = 12, 150
REACHED = 1e-11  # tolerance that newton reaches everywhere; rounding in its local solutions ends at 1e-12
EVALUATIONS = 30  # of quasi-Newton steps to 1e-8: 14 to 60 on most data of docs/lbfgs.md, hundreds on others
STEPS = 12  # of Krylov spaces to 1e-8: 8 to 11 on the data of docs/krylov.md, 30 on noise without structure
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
    """What a run sends over a link, as predicted."""

    rounds: int
    numbers: int
    """Of a message, in the mean."""

    @property
    def time(self) -> int:
        """In the time that one number takes."""
        return self.rounds * (self.numbers + DELAY)

    def __str__(self) -> str:
        return f"{self.rounds} rounds of {format_bytes(8 * self.numbers)} a link"


def choose(
    problem: ProblemBase,
    network: TopologyBase,
    tolerance: float = 0.0,
    messages: Messages = PLAIN,
    *,
    disclose: bool = True,
) -> Choice:
    """The method for a problem and a network.

    It is averaged models or Krylov spaces where they apply, otherwise quasi-Newton steps by totals, if they
    are predicted to take less time than momentum: a round costs its delay and the time to send its message.
    Where sums are private they need not be faster, as the sums of gradient methods can be solved for the data
    (docs/privacy.md). ``tolerance`` is 0 where a run has none. ``disclose`` is whether neighbours may be sent
    second moments, or gradients at points that all know.
    """
    if problem.generalised:
        return Choice(CDADT(), "the constraint is X^T M X = I")
    if problem.regulariser is not None:
        return Choice(DestinyProx(), "the objective has a regulariser")
    if messages.clip and not problem.batches:
        return Choice(
            DGD(direction="landing"), "messages are clipped, and trackers would keep what liars add"
        )
    if problem.batches:
        return Choice(VRSGT(), "the problem draws mini-batches")
    why = obstacle(problem, network, tolerance, messages, disclose=disclose)
    averaging: list[tuple[AlgorithmBase, Cost]] = []
    if why is None:
        averaging.append((DestinyNewton(), newton_cost(problem.shape, network, messages)))
    if krylov_obstacle(problem, network, messages, disclose=disclose) is None:
        averaging.append((DestinyKrylov(), krylov_cost(problem.shape, network, messages)))
    if not averaging and lbfgs_obstacle(network, messages, disclose=disclose) is None:
        averaging.append((DestinyLBFGS(), lbfgs_cost(problem.shape, network, messages)))
    if not averaging:
        assert why is not None
        return Choice(DestinyMomentum(), why)
    momentum = momentum_cost(problem.shape, network)
    algorithm, cost = min(averaging, key=lambda pair: pair[1].time)
    others = [f"{other} of {a.kind}" for a, other in averaging if a is not algorithm]
    if cost.time <= momentum.time:
        first = "" if why is None else f"{why}; "
        against = f"{momentum} or more of destiny-momentum"
        return Choice(algorithm, f"{first}about {cost} are predicted, against {against}")
    if messages.private:
        return Choice(
            algorithm,
            f"it tells agents averages alone. About {cost} are predicted, against {momentum} of "
            "destiny-momentum, whose private sums tell more",
        )
    against = " and ".join([f"{cost} of {algorithm.kind}", *others])
    return Choice(DestinyMomentum(), f"about {momentum} are predicted, against {against}")


def obstacle(
    problem: ProblemBase,
    network: TopologyBase,
    tolerance: float = 0.0,
    messages: Messages = PLAIN,
    *,
    disclose: bool = True,
) -> str | None:
    """Why averaged models are not for this problem and network, or None."""
    if problem.generalised or not problem.quadratic:
        return "the objective does not tell a constant Hessian, which destiny-newton averages"
    if network.changes or network.diameter is None:
        return "the network changes from round to round, and destiny-newton needs one that stays"
    if messages.few_bits:
        return f"destiny-newton averages by exact totals, which {messages} cannot carry"
    if problem.shape[0] > MOST:
        return f"destiny-newton averages n x n matrices, which n = {problem.shape[0]} makes large"
    if is_number(tolerance) and 0 < tolerance < REACHED:  # what is not a number is refused elsewhere
        return f"destiny-newton does not reach a tolerance of {tolerance:g}"
    if not disclose:
        return "messages are not private, and destiny-newton sends matrices of second moments"
    return None


def krylov_obstacle(
    problem: ProblemBase, network: TopologyBase, messages: Messages = PLAIN, *, disclose: bool = True
) -> str | None:
    """Why Krylov spaces are not for this problem and network, or None."""
    if problem.kind != DestinyKrylov.about.problem or not problem.quadratic or problem.generalised:
        return "the objective is not that of PCA, which destiny-krylov is for"
    if network.changes or network.diameter is None:
        return "the network changes from round to round, and destiny-krylov needs one that stays"
    if messages.few_bits:
        return f"destiny-krylov averages by exact totals, which {messages} cannot carry"
    if not disclose:
        return "messages are not private, and destiny-krylov sends products with second moments"
    return None


def lbfgs_obstacle(network: TopologyBase, messages: Messages = PLAIN, *, disclose: bool = True) -> str | None:
    """Why quasi-Newton steps by totals are not for this network, or None."""
    if network.changes or network.diameter is None:
        return "the network changes from round to round, and destiny-lbfgs needs one that stays"
    if messages.few_bits:
        return f"destiny-lbfgs averages by exact totals, which {messages} cannot carry"
    if not disclose:
        return "messages are not private, and destiny-lbfgs sends gradients at points that all agents know"
    return None


def newton_cost(shape: tuple[int, int], network: TopologyBase, messages: Messages = PLAIN) -> Cost:
    """Of newton, which takes one step; totals that are private have two words for each number."""
    newton = DestinyNewton().on(network)
    return Cost(newton.rounds, round(FULL * _words(messages) * numbers_in(newton.about, shape)))


def krylov_cost(shape: tuple[int, int], network: TopologyBase, messages: Messages = PLAIN) -> Cost:
    """Of Krylov spaces to 1e-8, with a tree as deep as the network is wide."""
    krylov = DestinyKrylov().on(network)
    step = krylov.rounds if messages.private else 2 * (krylov.diameter or 0)
    return Cost(krylov.opening + STEPS * step, _words(messages) * numbers_in(krylov.about, shape))


def lbfgs_cost(shape: tuple[int, int], network: TopologyBase, messages: Messages = PLAIN) -> Cost:
    """Of quasi-Newton steps to 1e-8, with a tree as deep as the network is wide; one matrix in a message."""
    lbfgs, (n, p) = DestinyLBFGS().on(network), shape
    step = lbfgs.rounds if messages.private else 2 * (lbfgs.diameter or 0)
    return Cost(lbfgs.opening + EVALUATIONS * step, _words(messages) * (n * p + lbfgs.about.numbers))


def momentum_cost(shape: tuple[int, int], network: TopologyBase) -> Cost:
    """Of momentum to 1e-8, on a network that stays."""
    average = DestinyNewton().on(network).rounds
    if network.spectrum is not None:
        average = rounds_for(1e-8, centre_spectrum(*network.spectrum)[1])
    return Cost(max(LEAST, TIMES * average), numbers_in(DestinyMomentum.about, shape))


def _words(messages: Messages) -> int:
    return 2 if messages.private else 1


def numbers_in(about: About, shape: tuple[int, int]) -> int:
    """Numbers in a message of a method."""
    n, p = shape
    return about.sends * n * p + about.triangles * (n * (n + 1) // 2) + about.numbers
