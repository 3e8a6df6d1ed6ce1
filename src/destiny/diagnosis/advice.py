"""What would help, in words, each with the rounds it saves as measured by a trial."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from destiny.algorithms import DeEPCA, Destiny, DestinyMomentum
from destiny.algorithms.blocks.step_sizes import Constant, PlainBB
from destiny.diagnosis.findings import STIFF
from destiny.diagnosis.network_options import Mixing, linked, reweighted, shown
from destiny.diagnosis.prediction import THRESHOLD, Case, Prediction, predict
from destiny.diagnosis.trial import Trials
from destiny.networks import Network

WORTH = 1 / 3  # of the rounds: a method or a penalty that saves less is not offered
WORTH_OF_NETWORK = 0.1  # the same for weights and links
NEGLIGIBLE = 0.05  # a difference between predicted savings that does not matter
STANDARDISE = "centre the features and divide each by its standard deviation: standardise = true in [problem]"
LINKS = 2  # links tried at a time


@dataclass(frozen=True)
class Advice:
    """One thing to change.

    Attributes
    ----------
    label : str
        The algorithm it is for; empty where it is for all.
    saves : float
        Share of the rounds it saves, roughly; 1 where a run would not converge without.
    text : str
    """

    label: str
    saves: float
    text: str


def advise(
    label: str, method: Any, here: Prediction, trials: Trials, kind: str, rounds: int
) -> Iterator[Advice]:
    """For one algorithm, for which ``here`` is predicted."""
    for found in (
        penalty(method, here, trials),
        steps(method, here),
        other_method(method, here, trials, kind),
        *better_network(method, here, trials),
        more_rounds(method, here, trials, rounds),
    ):
        if found is not None:
            yield replace(found, label=label)


def offer(
    words: str, method: Any, here: Prediction, there: Prediction, trials: Trials, worth: float = WORTH
) -> Advice | None:
    """A change after which ``there`` is predicted; None unless it saves what it is worth for certain."""
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


def penalty(method: Any, here: Prediction, trials: Trials) -> Advice | None:
    """A beta given as a number, against its threshold and against the curvature."""
    beta, ground = getattr(method, "beta", "auto"), trials.case.landscape
    if isinstance(beta, str) or getattr(method, "direction", "") not in THRESHOLD:
        return None
    if beta <= ground.threshold:
        text = f'beta = "auto", or more than {1.2 * ground.threshold:.3g}, keeps X on the manifold'
        return Advice("", 1.0, text)
    if beta > STIFF * ground.largest:
        there = trials.predict(replace(method, beta="auto"))
        return offer('beta = "auto", which is of the size of the curvature', method, here, there, trials)
    return None


def steps(method: Any, here: Prediction) -> Advice | None:
    """Steps without safeguards."""
    rule = getattr(method, "step_size", None)
    if here.outlook != "hopeless" or not isinstance(rule, PlainBB | Constant):
        return None
    return Advice("", 1.0, 'step = { kind = "bb" } bounds every step by the curvature and the network')


def other_method(method: Any, here: Prediction, trials: Trials, kind: str) -> Advice | None:
    """The quickest of a few methods, as tried."""
    others: list[Any] = [DestinyMomentum(), Destiny()]
    if kind == "pca" and trials.case.differences.agents > 1:
        others.append(DeEPCA())
    found = {m.kind: trials.predict(m) for m in others if m.kind != getattr(method, "kind", "")}
    known = {name: there for name, there in found.items() if there.rounds is not None}
    if not known:
        return None
    best = min(known, key=lambda name: known[name].rounds or 0)
    return offer(f'kind = "{best}"', method, here, known[best], trials)


def better_network(method: Any, here: Prediction, trials: Trials) -> list[Advice]:
    """Other weights on the same links, by the simplest rule about as good as any; and a few more links.

    Local theory says which to try.
    """
    network, case = trials.network, trials.case
    expected = predict(method, case).rounds
    if not isinstance(network, Network) or expected is None or here.rounds is None or network.agents < 3:
        return []

    def saved(other: Network) -> float:
        there = predict(method, replace(case, mixing=Mixing.of(other))).rounds
        return 0.0 if there is None else 1 - there / expected

    candidates: list[tuple[str, Network]] = []
    most = 0.0
    for rule, other in reweighted(network).items():  # from the simplest on
        if (share := saved(other)) > most + NEGLIGIBLE:
            most, candidates = share, [(f'weights = "{rule}"', other)]
    if (more := linked(network, LINKS)) is not None:
        candidates.append(("links " + " and ".join(f"{i}-{j}" for i, j in more[0]), more[1]))
    offers = []
    for words, other in candidates:
        if saved(other) > NEGLIGIBLE:
            words += f": lambda {shown(other.lambda_)} instead of {shown(network.lambda_)}"
            there = trials.predict(method, other)
            offers.append(offer(words, method, here, there, trials, WORTH_OF_NETWORK))
    return [found for found in offers if found is not None]


def more_rounds(method: Any, here: Prediction, trials: Trials, rounds: int) -> Advice | None:
    """More rounds, or a tolerance the rounds suffice for."""
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
    """Scaling, and what no method can help."""
    kappa, used = case.landscape.condition, case.differences.scales
    if not used.size or case.landscape.smallest == 0 or (kappa <= 100 and not case.landscape.hidden):
        return
    # Rounds of the accelerated method grow like the root of the condition.
    share = 1.0 if case.landscape.hidden else 1 - (100 / kappa) ** 0.5
    if used.max() > 1000 * used.min():
        yield Advice("", share, STANDARDISE)
    if kappa > 1000:
        yield Advice(
            "", share / 2,
            f"with condition {kappa:.1g} every method that looks at gradients only needs thousands of steps: "
            "another p (in PCA: where the eigenvalues leave a gap), other features, or a larger tolerance",
        )  # fmt: skip
