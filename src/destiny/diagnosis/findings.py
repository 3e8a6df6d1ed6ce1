"""What stands out, one sentence each: fine, worth a look, or a problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from destiny.algorithms.blocks.gossip import SINGLE
from destiny.algorithms.blocks.step_sizes import FIRST, Constant, PlainBB
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.landscape import Landscape
from destiny.diagnosis.network_options import shown, weak_points
from destiny.diagnosis.prediction import THRESHOLD, Case, Prediction
from destiny.networks import Network
from destiny.problems import OLSR, PCA, Centred
from destiny.protocols import Array, Problem, Topology
from destiny.run.centring import share_of, totals_of, uncentred

Level: TypeAlias = Literal["ok", "look", "problem"]
LARGEST = 1e38  # curvatures beyond cannot be shared by the accelerated method: docs/acceleration.md
OTHER_UNITS = 300.0  # a feature's size at one agent over that at another
STIFF = 10.0  # beta over the largest curvature along the manifold: from here on it decides the condition


@dataclass(frozen=True)
class Finding:
    """One sentence and how serious it is."""

    about: str
    level: Level
    text: str


def of_data(landscape: Landscape, seen: Differences) -> Iterator[Finding]:
    """Scale and features."""
    slope, L = landscape.slope, float(seen.steep("landing").max())
    if slope == 0:
        yield Finding("data", "problem", "the gradient at the start is zero: start elsewhere ([start] seed)")
        return
    if not 1 / LARGEST < L < LARGEST:
        yield Finding(
            "data", "problem", f"curvatures of {L:.0e} are beyond what agents can share: scale the data"
        )
    elif L / slope > 100:
        text = (
            f"the curvature, {L:.2g}, is {L / slope:.0f} times the gradient at the start: a beta or a step "
            'chosen from the start is wrong near the answer; "auto" and Barzilai-Borwein steps follow'
        )
        yield Finding("data", "look", text)
    else:
        yield Finding(
            "data", "ok", f"gradient {slope:.3g} at the start, curvature of the agents up to {L:.3g}"
        )
    need = f"DESTINY needs more than {landscape.threshold:.3g}" if landscape.threshold > 0 else "any will do"
    text = f'beta = "auto" starts as {slope:.3g}, near the answer {need}; a first Barzilai-Borwein step '
    yield Finding("penalty", "ok", text + f"would be {FIRST / slope:.3g}")
    rows = seen.rows
    gone = int(np.sum(rows == 0))
    if gone:
        text = f"{gone} of {len(rows)} features never occur: no agent's gradient has anything in their rows"
        yield Finding("data", "look", text)
    used = seen.scales
    if len(used) and used.max() > 1000 * used.min():
        text = (
            f"features on very different scales: their parts of the gradients differ by a factor of "
            f"{used.max() / used.min():.0e}"
        )
        yield Finding("data", "look", text)


def of_mean(problem: Problem, seen: Differences, X: Array, rounds: int) -> Iterator[Finding]:
    """Whether the mean of the data hides their variance at the answer X, or what subtracting it takes."""
    if isinstance(problem, Centred):
        taken = (
            f"in {rounds} round{'s' * (rounds > 1)}" if rounds else "in rounds that are not known beforehand"
        )
        also = ", and each column's standard deviation" if problem.standardise else ""
        yield Finding("data", "ok", f"the agents first find the mean{also}, {taken}")
        return
    totals = totals_of(seen.hosted)
    if totals is None:
        return
    gradient = seen.hosted.gradient(seen.everywhere(X)).mean(axis=0)
    if (text := uncentred(share_of(totals.mean(axis=0), X, gradient))) is not None:
        yield Finding("data", "look", text)


def of_units(problem: Problem) -> Iterator[Finding]:
    """A feature of PCA or OLSR that is far larger at one agent than at another, as if in other units."""
    if isinstance(problem, PCA | OLSR):
        problem = Centred(problem)
    if not isinstance(problem, Centred):
        return
    totals = np.stack([problem.totals(i).sizes for i in range(problem.agents)])
    sizes = totals[:, : problem.widths[0]] / np.maximum(totals[:, -1:], 1.0)
    small = np.where(sizes > 0, sizes, np.inf)
    ratios = sizes.max(axis=0) / small.min(axis=0)  # 0 for a feature that never occurs
    k = int(ratios.argmax())
    if ratios[k] < OTHER_UNITS:
        return
    i, j = int(sizes[:, k].argmax()), int(small[:, k].argmin())
    names = problem.column_names.get("data", ())
    feature = f"'{names[k]}'" if names else f"feature {k}"
    text = (
        f"{feature} is {ratios[k]:.1g} times as large at agent {i} as at agent {j} (absolute values of "
        f"{sizes[i, k]:.3g} and {sizes[j, k]:.3g} on average): are their units the same?"
    )
    yield Finding("agents", "look", text)


def of_agents(seen: Differences) -> Iterator[Finding]:
    """How different the agents are."""
    if seen.agents == 1 or seen.gradients.max() == 0:
        return
    empty = seen.empty
    if len(empty):
        names = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        yield Finding("agents", "look", f"{len(empty)} of {seen.agents} agents hold nothing (agent {names})")
    if 10 < seen.spread < np.inf:
        steepest = int(seen.steep("landing").argmax())
        text = (
            f"agent {steepest} has {seen.spread:.0f} times the median curvature, and its curvature limits "
            "everybody's step"
        )
        yield Finding("agents", "look", text)
    level: Level = "look" if seen.apart > 10 else "ok"
    text = f"an agent's gradient is {seen.apart:.2g} times the mean gradient away from it (root mean square)"
    yield Finding("agents", level, text)


def of_curvature(landscape: Landscape) -> Iterator[Finding]:
    """Conditioning near the answer."""
    kappa = landscape.condition
    if landscape.smallest == 0:
        yield Finding(
            "curvature", "problem", "f is flat where a short descent ended: no X there is better than another"
        )
        return
    level: Level = "ok" if kappa <= 100 else "look" if kappa <= 1000 else "problem"
    seen = f"{kappa:.3g}" if kappa <= 1000 else f"{kappa:.2g} or more"
    text = (
        f"condition {seen}: curvature {landscape.smallest:.3g} to {landscape.largest:.3g} along the manifold"
    )
    yield Finding("curvature", level, text)
    if landscape.reached > 1e-3:
        text = (
            f"a pooled descent had {landscape.reached:.0e} of its slope left when it was stopped: the "
            "numbers on this page are rough"
        )
        yield Finding("curvature", "look", text)
    if landscape.saddle:
        yield Finding("curvature", "look", "f curves downwards there: a saddle, where runs may stay for long")
    top = np.sort(landscape.curvatures)[::-1]
    if landscape.hidden:
        text = (
            "one direction dwarfs all others: a run may stop, its gradient small against the start's, before "
            "it has found the rest"
        )
        yield Finding("curvature", "look", text)
    elif kappa > 100 and top[1] < 0.05 * top[0]:
        text = (
            "one direction dwarfs all others: a mean that was not subtracted, or one feature in other units?"
        )
        yield Finding("curvature", "look", text)


def of_network(network: Topology, lambda_: float) -> Iterator[Finding]:
    """How well it mixes, and what it hangs on."""
    if network.agents == 1:
        return
    level: Level = "ok" if lambda_ <= SINGLE else "look" if lambda_ <= 0.99 else "problem"
    if not isinstance(network, Network):
        text = f"it changes: a round leaves {shown(lambda_)} of a disagreement in the mean square (lambda)"
        yield Finding("network", level, text)
        return
    text = f"lambda {shown(lambda_)}: {network.rounds_to_average()} rounds to average to 1e-6"
    if "diameter" in (facts := network.facts()):
        text += f"; {facts['diameter']} links at most between two agents"
    yield Finding("network", level, text)
    if network.spectrum[0] < -0.5:
        text = (
            f"its lowest eigenvalue is {network.spectrum[0]:.2f}: two sides that mostly swap their values, "
            "which momentum cannot use as it is"
        )
        yield Finding("network", "look", text)
    weak = weak_points(network)
    if network.agents > 2 and weak["agents"]:
        names = ", ".join(map(str, weak["agents"][:5])) + (", ..." if len(weak["agents"]) > 5 else "")
        text = (
            f"it falls apart if one of {len(weak['agents'])} agents ({names}) "
            f"or {len(weak['links'])} links fails"
        )
        yield Finding("network", "look", text)


def of_method(label: str, method: Any, told: Prediction, case: Case, rounds: int) -> Iterator[Finding]:
    """Penalty and steps of one algorithm, and whether its rounds will do."""
    beta = getattr(method, "beta", "auto")
    ground = case.landscape
    if not isinstance(beta, str) and getattr(method, "direction", "") in THRESHOLD:
        if beta <= ground.threshold:
            text = (
                f"beta = {beta:g} is below 3/2 lambda_max(sym(X^T grad f)) = {ground.threshold:.3g}: agents "
                "would agree on a point off the manifold, or run away"
            )
            yield Finding(label, "problem", text)
        elif beta > STIFF * ground.largest > 0:
            text = (
                f"beta = {beta:g} is {beta / ground.largest:.0f} times the largest curvature: it adds "
                "nothing but ill-conditioning"
            )
            yield Finding(label, "problem" if beta > STIFF**2 * ground.largest else "look", text)
    if (
        isinstance(getattr(method, "step_size", None), PlainBB)
        and told.outlook == "fine"
        and case.mixing.lambda_ > 0.85
    ):
        text = f"steps without a bound easily lose consensus at lambda {shown(case.mixing.lambda_)}"
        yield Finding(label, "look", text)
    if isinstance(getattr(method, "step_size", None), Constant):
        yield Finding(label, "look", "a constant step does not follow the scale of the data")
    if not getattr(getattr(method, "about", None), "exact", True):
        yield Finding(label, "look", "it is not exact: it stalls short of the answer, or its steps vanish")
    low = not isinstance(beta, str) and beta <= ground.threshold  # told above
    if told.outlook != "fine" and not low:
        yield Finding(label, "problem" if told.outlook == "hopeless" else "look", told.why)
    elif told.rounds is not None and told.rounds > rounds:
        text = f"{rounds} rounds are allowed, about {told.rounds} will be needed"
        yield Finding(label, "problem", text)
