"""Advice: changes to a run, each with the rounds it saves, as measured by a trial."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from destiny.algorithms import (
    FAPS,
    VRSGT,
    AveragedModel,
    DeEPCA,
    Destiny,
    DestinyAccelerated,
    DestinyProx,
)
from destiny.algorithms.blocks.step_sizes import Constant, PlainBB
from destiny.diagnosis.findings import STIFF
from destiny.diagnosis.network_options import format_lambda, with_more_links, with_other_weights
from destiny.diagnosis.prediction import PENALIZED, THRESHOLD, Case, Prediction
from destiny.diagnosis.trial import Trials
from destiny.engines.mixers import Messages
from destiny.errors import MismatchError
from destiny.networks import Network
from destiny.problems.own_problem import as_problem
from destiny.protocols import AlgorithmBase, ProblemBase, TopologyBase
from destiny.run.choice import KRYLOV, LBFGS, NEWTON, numbers_in
from destiny.run.solve import prepare

WORTH = 1 / 3  # fraction of the rounds a method or a penalty must save to be offered
WORTH_OF_NETWORK = 0.1  # the same for weights and links
NOTABLE = 0.1  # of the gap 1 - lambda: a gain that may pay
STANDARDIZE = "center the features and divide each by its standard deviation: standardize = true in [problem]"
LINKS = 2  # links tried at a time


@dataclass(frozen=True)
class Advice:
    """One change that would help.

    Attributes
    ----------
    label : str
        The algorithm it is for; empty if it is for all.
    saves : float
        Approximate fraction of the rounds it saves; 1 if a run would not converge without it.
    text : str
        The change and the expected rounds, in words.
    """

    label: str
    saves: float
    text: str


def advise(
    label: str, method: AlgorithmBase, here: Prediction, trials: Trials, kind: str, rounds: int
) -> Iterator[Advice]:
    """Yield the advice for one algorithm; ``here`` is its prediction as it stands."""
    for advice in (
        penalty(method, here, trials),
        steps(method, here),
        other_method(method, here, trials, kind),
        *better_network(method, here, trials),
        more_rounds(method, here, trials, rounds),
    ):
        if advice is not None:
            yield replace(advice, label=label)


def offer(
    words: str,
    method: AlgorithmBase,
    here: Prediction,
    there: Prediction,
    trials: Trials,
    worth: float = WORTH,
) -> Advice | None:
    """Return the advice for a change whose prediction is ``there``.

    None unless even its largest number of rounds saves the fraction ``worth`` of the smallest one before.
    """
    if there.rounds is None or there.high is None:
        return None
    if here.outlook == "hopeless":
        return Advice("", 1.0, f"{words}: about {there.rounds} rounds")
    least = here.low or trials.least(method)
    if there.high > (1 - worth) * least:
        return None
    before = f"{here.rounds}" if here.rounds else f"more than {least}"
    saves = 1 - there.rounds / (here.rounds or least)
    text = f"{words}: about {there.rounds} rounds instead of {before}, {saves:.0%} fewer"
    return Advice("", saves, text)


def penalty(method: AlgorithmBase, here: Prediction, trials: Trials) -> Advice | None:
    """Return advice on a beta given as a number, if it is below its threshold or far above the curvature."""
    if not isinstance(method, PENALIZED) or method.direction not in THRESHOLD:
        return None
    beta, landscape = method.beta, trials.case.landscape
    if isinstance(beta, str):
        return None
    if beta <= landscape.threshold:
        text = f'beta = "auto", or more than {1.2 * landscape.threshold:.3g}, keeps X on the manifold'
        return Advice("", 1.0, text)
    if beta > STIFF * landscape.largest:
        there = trials.predict(replace(method, beta="auto"))
        return offer('beta = "auto", which is of the size of the curvature', method, here, there, trials)
    return None


def steps(method: AlgorithmBase, here: Prediction) -> Advice | None:
    """Return advice on steps without safeguards, if the run is not expected to converge with them."""
    rule = method.step_rule
    if here.outlook != "hopeless" or not isinstance(rule, PlainBB | Constant):
        return None
    return Advice("", 1.0, 'step = { kind = "bb" } bounds every step by the curvature and the network')


def other_method(method: AlgorithmBase, here: Prediction, trials: Trials, kind: str) -> Advice | None:
    """Return advice to take the fastest of a few methods, as measured by their trials."""
    if as_problem(trials.problem).generalized:
        return None  # there is no other method
    if trials.case.regularized:
        return exact_prox(method, trials)
    problem, messages = as_problem(trials.problem), trials.messages
    others = candidates(problem, trials.network, messages)
    if messages.private:  # sums of other methods can be solved for the data
        others = [m for m in others if totals(m)]
    elif others and kind == "pca" and problem.agents > 1 and fits(DeEPCA(), problem, trials.network):
        others.append(DeEPCA())
    predictions = {m.kind: trials.predict(m) for m in others if m.kind != method.kind}
    finite = {name: there for name, there in predictions.items() if there.rounds is not None}
    if not finite:
        return None
    best = min(finite, key=lambda name: finite[name].rounds or 0)
    words = f'kind = "{best}"'
    if best == AveragedModel.kind and method.about is not None:
        lengths = [numbers_in(about, trials.problem.shape) for about in (AveragedModel.about, method.about)]
        words += f" (messages of {lengths[0] / lengths[1]:.2g} times the size)"
    return offer(words, method, here, finite[best], trials)


def exact_prox(method: AlgorithmBase, trials: Trials) -> Advice | None:
    """Return advice to take the exact method for f + r instead of one that smooths r."""
    if method.exact:
        return None
    rounds = trials.predict(DestinyProx()).rounds
    return Advice("", 1.0, 'kind = "destiny-prox" is exact' + (f": about {rounds} rounds" if rounds else ""))


def candidates(problem: ProblemBase, network: TopologyBase, messages: Messages) -> list[AlgorithmBase]:
    """Return the usual methods for a smooth f that take this problem, this network and such messages."""
    if not messages.exact:
        return []  # no method is exact there
    methods: list[AlgorithmBase] = [DestinyAccelerated(), Destiny(), VRSGT(), FAPS()]
    totals = [t for t in (NEWTON, KRYLOV, LBFGS) if t.obstacle(problem, network, messages=messages) is None]
    methods += [t.method() for t in totals[:1]]
    batches = bool(problem.batches)
    return [m for m in methods if isinstance(m, VRSGT) == batches and fits(m, problem, network)]


def fits(method: AlgorithmBase, problem: ProblemBase, network: TopologyBase) -> bool:
    """Whether a method takes this problem and this network."""
    try:
        prepare(problem, network, method)
    except MismatchError:
        return False
    return True


def better_network(method: AlgorithmBase, here: Prediction, trials: Trials) -> list[Advice]:
    """Return advice on weights and on additional links, each tried if it mixes notably faster.

    Of the weights the simplest rule is tried whose gap 1 - lambda is about as large as the best one's.
    """
    network = trials.network
    if not isinstance(network, Network) or here.rounds is None or network.agents < 3 or totals(method):
        return []
    candidates: list[tuple[str, Network]] = []
    most = 1.0
    for rule, other in with_other_weights(network).items():  # from the simplest on
        if (gain := (1 - other.lambda_) / (1 - network.lambda_)) > most + NOTABLE:
            most, candidates = gain, [(f'weights = "{rule}"', other)]
    if (more := with_more_links(network, LINKS)) is not None:
        candidates.append(("links " + " and ".join(f"{i}-{j}" for i, j in more[0]), more[1]))
    offers = []
    for words, other in candidates:
        if (1 - other.lambda_) / (1 - network.lambda_) > 1 + NOTABLE:
            words += f": lambda {format_lambda(other.lambda_)} instead of {format_lambda(network.lambda_)}"
            there = trials.predict(method, other)
            offers.append(offer(words, method, here, there, trials, WORTH_OF_NETWORK))
    return [advice for advice in offers if advice is not None]


def totals(method: AlgorithmBase) -> bool:
    """Whether a method sums over all agents, whatever the weights are."""
    return method.about is not None and "totals" in method.about


def more_rounds(method: AlgorithmBase, here: Prediction, trials: Trials, rounds: int) -> Advice | None:
    """Return advice to allow more rounds, or a tolerance that the rounds suffice for."""
    if here.rounds is None or here.rounds <= rounds:
        return None
    text = f"[stop] rounds = {here.high or 10 * here.rounds} leaves room"
    for tolerance in (1e-6, 1e-4, 1e-2):
        there = trials.predict(method, tolerance=tolerance).rounds
        if tolerance > trials.case.tolerance and there is not None and there <= rounds:
            text += f"; tolerance = {tolerance:.0e} would be reached after about {there}"
            break
    return Advice("", 0.0, text)  # it saves nothing


def about_data(case: Case) -> Iterator[Advice]:
    """Yield advice on the scale of the features and on the condition number."""
    kappa, used = case.landscape.condition, case.differences.feature_scales
    if not used.size or case.landscape.smallest == 0 or (kappa <= 100 and not case.landscape.hidden):
        return
    # Rounds of the accelerated method grow like the root of the condition.
    share = 1.0 if case.landscape.hidden else 1 - (100 / kappa) ** 0.5
    if used.max() > 1000 * used.min():
        yield Advice("", share, STANDARDIZE)
    if kappa > 1000:
        text = (
            f"with condition {kappa:.1g} every method that looks at gradients only needs thousands of steps: "
            "another p (in PCA: where the eigenvalues leave a gap), other features, or a larger tolerance"
        )
        yield Advice("", share / 2, text)
