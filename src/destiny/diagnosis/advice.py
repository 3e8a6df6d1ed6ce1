"""What would help, in words, each with the number of rounds it would save; found by predicting again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from destiny.algorithms import DeEPCA, Destiny, DestinyMomentum
from destiny.diagnosis.findings import STIFF
from destiny.diagnosis.mixing import Mixing, linked, reweighted, shown
from destiny.diagnosis.prediction import THRESHOLD, Case, Prediction, predict
from destiny.networks import Network
from destiny.steps import Constant, PlainBB
from destiny.types import Topology

WORTH = 0.05  # a saving below is not worth a change
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
    label: str, method: Any, told: Prediction, case: Case, network: Topology, kind: str, rounds: int
) -> Iterator[Advice]:
    """For one algorithm."""
    for found in (
        penalty(method, case),
        steps(method, told),
        other_method(method, told, case, kind),
        different(method, case),
        *better_network(method, told, case, network),
        allowed(method, told, case, rounds),
    ):
        if found is not None:
            yield replace(found, label=label)


def penalty(method: Any, case: Case) -> Advice | None:
    """A beta given as a number, against its threshold and against the curvature."""
    beta, ground = getattr(method, "beta", "auto"), case.landscape
    if isinstance(beta, str) or getattr(method, "direction", "") not in THRESHOLD:
        return None
    if beta <= ground.threshold:
        text = f'beta = "auto", or more than {1.2 * ground.threshold:.3g}, keeps X on the manifold'
        return Advice("", 1.0, text)
    if beta > STIFF * ground.largest:
        less, more = (predict(replace(method, beta=b), case).rounds for b in ("auto", beta))
        numbers = f": about {less} rounds instead of {more}" if less and more and less < more else ""
        saves = 1 - less / more if less and more else 0.5
        return (
            Advice("", saves, f'beta = "auto" is of the size of the curvature{numbers}')
            if saves > WORTH
            else None
        )
    return None


def steps(method: Any, told: Prediction) -> Advice | None:
    """Steps without safeguards."""
    rule = getattr(method, "step_size", None)
    if told.outlook == "fine" or not isinstance(rule, PlainBB | Constant):
        return None
    return Advice("", 1.0, 'step = { kind = "bb" } bounds every step by the curvature and the network')


def other_method(method: Any, told: Prediction, case: Case, kind: str) -> Advice | None:
    """The quickest of the methods a prediction exists for."""
    others: list[Any] = [
        DestinyMomentum(),
        Destiny(),
        *([DeEPCA()] if kind == "pca" and case.differences.agents > 1 else []),
    ]
    found = {
        m.kind: p.rounds
        for m in others
        if (p := predict(m, case)).rounds and m.kind != getattr(method, "kind", "")
    }
    if not found:
        return None
    best = min(found, key=lambda name: found[name] or 0)
    there = found[best] or 0
    if told.rounds is None:
        return Advice(
            "", 1.0 if told.outlook == "hopeless" else 0.5, f'kind = "{best}" would take about {there} rounds'
        )
    saves = 1 - there / told.rounds
    if saves < 4 * WORTH:  # predictions are good to a factor, not to a few per cent
        return None
    return Advice("", saves, f'kind = "{best}" would take about {there} rounds, {saves:.0%} fewer')


def different(method: Any, case: Case) -> Advice | None:
    """Momentum on a network that changes, with agents that see different things."""
    if (
        not isinstance(method, DestinyMomentum)
        or case.mixing.spectrum is not None
        or case.differences.apart < 1
    ):
        return None
    text = (
        'kind = "destiny" can be several times faster where the network changes and agents see different '
        "things (measured: 330 to 380 rounds against 1240 to 2700)"
    )
    return Advice("", 0.5, text)


def better_network(method: Any, told: Prediction, case: Case, network: Topology) -> list[Advice]:
    """Other weights on the same links, by the simplest rule about as good as any; and a few more links."""
    if not isinstance(network, Network) or told.rounds is None or network.agents < 3:
        return []

    def offer(words: str, other: Network) -> Advice:
        there = predict(method, replace(case, mixing=Mixing.of(other))).rounds
        saves = 0.0 if there is None or told.rounds is None else 1 - there / told.rounds
        numbers = f"lambda {shown(other.lambda_)} instead of {shown(network.lambda_)}, about {there} rounds"
        return Advice("", saves, f"{words}: {numbers} instead of {told.rounds}, {saves:.0%} fewer")

    best = Advice("", 0.0, "")
    for rule, other in reweighted(network).items():  # from the simplest on
        if (found := offer(f'weights = "{rule}"', other)).saves > best.saves + WORTH:
            best = found
    offers = [best]
    if (more := linked(network, LINKS)) is not None:
        offers.append(offer("links " + " and ".join(f"{i}-{j}" for i, j in more[0]), more[1]))
    return [found for found in offers if found.saves > WORTH]


def allowed(method: Any, told: Prediction, case: Case, rounds: int) -> Advice | None:
    """More rounds, or a tolerance the rounds suffice for."""
    if told.rounds is None or told.rounds <= rounds:
        return None
    text = f"[stop] rounds = {told.high or 10 * told.rounds} leaves room"
    for tolerance in (1e-6, 1e-4, 1e-2):
        there = predict(method, replace(case, tolerance=tolerance)).rounds
        if tolerance > case.tolerance and there is not None and there <= rounds:
            text += f"; tolerance = {tolerance:.0e} would be reached after about {there}"
            break
    return Advice("", 0.0, text)  # it saves nothing


def about_data(case: Case) -> Iterator[Advice]:
    """Scaling, and what no method can help."""
    kappa, rows = case.landscape.condition, case.differences.rows
    used = rows[rows > 0]
    if not used.size or case.landscape.smallest == 0 or (kappa <= 100 and not case.landscape.hidden):
        return
    # Rounds of the accelerated method grow like the root of the condition.
    share = 1.0 if case.landscape.hidden else 1 - (100 / kappa) ** 0.5
    if used.max() > 1000 * used.min():
        yield Advice("", share, "centre the features and divide each by its standard deviation")
    if kappa > 1000:
        yield Advice(
            "", share / 2,
            f"with condition {kappa:.1g} every method that looks at gradients only needs thousands of steps: "
            "another p (in PCA: where the eigenvalues leave a gap), other features, or a larger tolerance",
        )  # fmt: skip
