"""Findings, one sentence each: ok, worth a look, or a problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from destiny.algorithms.blocks.gossip import SINGLE
from destiny.algorithms.blocks.step_sizes import FIRST, Constant, PlainBB
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.landscape import Landscape
from destiny.diagnosis.network_options import format_lambda, weak_points
from destiny.diagnosis.prediction import PENALIZED, THRESHOLD, Case, Prediction
from destiny.engines.mixers import Messages, Private
from destiny.geometry.generalized import MassMatrix
from destiny.networks import Network
from destiny.problems import OLSR, PCA, Centered
from destiny.problems.own_problem import unwrap
from destiny.problems.private_part import private_part
from destiny.protocols import AlgorithmBase, Array, Problem, ProblemBase, Regularizer, TopologyBase
from destiny.run.accuracy import share_of, totals_of, uncentered

Level: TypeAlias = Literal["ok", "look", "problem"]
LARGEST = 1e38  # curvatures beyond cannot be shared by the accelerated method: docs/acceleration.md
OTHER_UNITS = 300.0  # a feature's size at one agent over that at another
STIFF = 10.0  # beta over the largest curvature along the manifold: from here on it decides the condition


@dataclass(frozen=True)
class Finding:
    """One sentence, what it is about ("data", "network", a label, ...) and how serious it is."""

    about: str
    level: Level
    text: str


def data_findings(
    landscape: Landscape, differences: Differences, regularized: bool = False
) -> Iterator[Finding]:
    """Yield findings on the scale of the data, the penalty of smooth problems, and the features."""
    slope, L = landscape.slope, float(differences.largest_curvature("landing").max())
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
    if not regularized:
        yield Finding("penalty", "ok", text + f"would be {FIRST / slope:.3g}")
    rows = differences.row_norms
    unused = int(np.sum(rows == 0))
    if unused:
        text = f"{unused} of {len(rows)} features never occur: no agent's gradient has anything in their rows"
        yield Finding("data", "look", text)
    used = differences.feature_scales
    if len(used) and used.max() > 1000 * used.min():
        text = (
            f"features on very different scales: their parts of the gradients differ by a factor of "
            f"{used.max() / used.min():.0e}"
        )
        yield Finding("data", "look", text)


def constraint_findings(mass: MassMatrix | None) -> Iterator[Finding]:
    """Yield how well M of the constraint X^T M X = I is conditioned."""
    if mass is None:
        return
    raw = np.diagonal(mass.M)
    text = f"X^T M X = I: M has condition {mass.condition:.2g} after scaling its diagonal to 1"
    level: Level = "ok" if mass.condition <= 100 else "look" if mass.condition <= 1e6 else "problem"
    if level != "ok":
        text += ", and rounds grow with its square root: add a multiple of the identity to M"
    yield Finding("constraint", level, text)
    if raw.max() > 100 * raw.min():
        text = (
            f"the diagonal of M goes from {raw.min():.1e} to {raw.max():.1e}: divide each coordinate by the "
            "root of its entry"
        )
        yield Finding("constraint", "look", text)


def regularizer_findings(regularizer: Regularizer | None, smooth: ProblemBase, X: Array) -> Iterator[Finding]:
    """Yield how r compares with f at X ``(n, p)``, near the answer without r."""
    if regularizer is None:
        return
    hosted, d = smooth.host(range(smooth.agents)), smooth.agents
    f = float(np.mean(hosted.value(np.broadcast_to(X, (d, *X.shape)))))
    r = float(regularizer.value(X))
    compared = f"r is {r / abs(f):.2g} times |f|" if f != 0 and np.isfinite(r) else f"r is {r:.3g}, f {f:.3g}"
    text = f"{regularizer!r}: {compared} near the answer of f alone, whose data and curvature this page has"
    heavy = np.isfinite(r) and r > abs(f)
    if heavy:
        text += "; an answer that r decides says little about the data: a smaller weight?"
    yield Finding("regularizer", "look" if heavy else "ok", text)


def mean_findings(problem: Problem, differences: Differences, X: Array, rounds: int) -> Iterator[Finding]:
    """Yield how many rounds centering takes, or whether a mean not subtracted dominates at the answer X."""
    centered = unwrap(problem, Centered)
    if centered is not None:
        duration = (
            f"in {rounds} round{'s' * (rounds > 1)}" if rounds else "in rounds that are not known beforehand"
        )
        also = ", and each column's standard deviation" if centered.standardize else ""
        yield Finding("data", "ok", f"the agents first find the mean{also}, {duration}")
        return
    totals = totals_of(differences.hosted)
    if totals is None:
        return
    gradient = differences.hosted.gradient(differences.replicate(X)).mean(axis=0)
    if (text := uncentered(share_of(totals.mean(axis=0), X, gradient))) is not None:
        yield Finding("data", "look", text)


def unit_findings(problem: Problem) -> Iterator[Finding]:
    """Yield the feature of PCA or OLSR whose size differs most between agents, if units may differ."""
    if private_part(problem) is not None:  # nothing more may be told of the rows
        return
    plain = unwrap(problem, PCA) or unwrap(problem, OLSR)
    centered = unwrap(problem, Centered) or (None if plain is None else Centered(plain))
    if centered is None:
        return
    totals = np.stack([centered.totals(i).sizes for i in range(problem.agents)])
    sizes = totals[:, : centered.widths[0]] / np.maximum(totals[:, -1:], 1.0)
    small = np.where(sizes > 0, sizes, np.inf)
    ratios = sizes.max(axis=0) / small.min(axis=0)  # 0 for a feature that never occurs
    k = int(ratios.argmax())
    if ratios[k] < OTHER_UNITS:
        return
    i, j = int(sizes[:, k].argmax()), int(small[:, k].argmin())
    names = centered.column_names.get("data", ())
    feature = f"'{names[k]}'" if names else f"feature {k}"
    text = (
        f"{feature} is {ratios[k]:.1g} times as large at agent {i} as at agent {j} (absolute values of "
        f"{sizes[i, k]:.3g} and {sizes[j, k]:.3g} on average): are their units the same?"
    )
    yield Finding("agents", "look", text)


def agent_findings(differences: Differences) -> Iterator[Finding]:
    """Yield findings on differences between agents."""
    if differences.agents == 1 or differences.gradient_norms.max() == 0:
        return
    empty = differences.agents_without_data
    if len(empty):
        names = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        yield Finding(
            "agents", "look", f"{len(empty)} of {differences.agents} agents hold nothing (agent {names})"
        )
    if 10 < differences.curvature_ratio < np.inf:
        steepest = int(differences.largest_curvature("landing").argmax())
        text = (
            f"agent {steepest} has {differences.curvature_ratio:.0f} times the median curvature, and its "
            "curvature limits everybody's step"
        )
        yield Finding("agents", "look", text)
    spread = differences.gradient_spread
    level: Level = "look" if spread > 10 else "ok"
    text = f"an agent's gradient is {spread:.2g} times the mean gradient away from it (root mean square)"
    yield Finding("agents", level, text)


def curvature_findings(landscape: Landscape) -> Iterator[Finding]:
    """Yield findings on the conditioning near the answer."""
    kappa = landscape.condition
    if landscape.smallest == 0:
        yield Finding(
            "curvature", "problem", "f is flat where a short descent ended: no X there is better than another"
        )
        return
    level: Level = "ok" if kappa <= 100 else "look" if kappa <= 1000 else "problem"
    number = f"{kappa:.3g}" if kappa <= 1000 else f"{kappa:.2g} or more"
    text = (
        f"condition {number}: curvature {landscape.smallest:.3g} to {landscape.largest:.3g} along "
        "the manifold"
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


def network_findings(network: TopologyBase, lambda_: float) -> Iterator[Finding]:
    """Yield findings on how well the network mixes, and on its weak points."""
    if network.agents == 1:
        return
    level: Level = "ok" if lambda_ <= SINGLE else "look" if lambda_ <= 0.99 else "problem"
    if not isinstance(network, Network):
        factor = format_lambda(lambda_)
        text = f"it changes: a round leaves {factor} of a disagreement in the mean square (lambda)"
        yield Finding("network", level, text)
        return
    text = f"lambda {format_lambda(lambda_)}: {network.rounds_to_average()} rounds to average to 1e-6"
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


def message_findings(messages: Messages, network: TopologyBase) -> Iterator[Finding]:
    """Yield what messages that are not plain can do on this network, and what not."""
    if messages.few_bits and (why := messages.obstacle(network)) is not None:
        yield Finding("messages", "problem", why)
    if not messages.exact:
        text = f"{messages}: answers are approximate"
        yield Finding("messages", "look", text)
    if not messages.private or network.agents == 1:
        return
    if (why := Private().obstacle(network)) is not None:
        yield Finding("messages", "problem", why)
        return
    text = f"private messages: every agent learns sums over all {network.agents} agents, and nothing else"
    yield Finding("messages", "ok", text)


def method_findings(
    label: str, method: AlgorithmBase, prediction: Prediction, case: Case, rounds: int
) -> Iterator[Finding]:
    """Yield findings on penalty, steps and rounds of one algorithm."""
    beta = method.beta if isinstance(method, PENALIZED) else "auto"
    landscape = case.landscape
    if isinstance(method, PENALIZED) and not isinstance(beta, str) and method.direction in THRESHOLD:
        if beta <= landscape.threshold:
            text = (
                f"beta = {beta:g} is below 3/2 lambda_max(sym(X^T grad f)) = {landscape.threshold:.3g}: "
                "agents would agree on a point off the manifold, or run away"
            )
            yield Finding(label, "problem", text)
        elif beta > STIFF * landscape.largest > 0:
            text = (
                f"beta = {beta:g} is {beta / landscape.largest:.0f} times the largest curvature: it adds "
                "nothing but ill-conditioning"
            )
            yield Finding(label, "problem" if beta > STIFF**2 * landscape.largest else "look", text)
    if isinstance(method.step_rule, PlainBB) and prediction.outlook == "fine" and case.mixing.lambda_ > 0.85:
        text = f"steps without a bound easily lose consensus at lambda {format_lambda(case.mixing.lambda_)}"
        yield Finding(label, "look", text)
    if isinstance(method.step_rule, Constant):
        yield Finding(label, "look", "a constant step does not follow the scale of the data")
    if not method.exact:
        yield Finding(label, "look", "it is not exact: it stalls short of the answer, or its steps vanish")
    low = not isinstance(beta, str) and beta <= landscape.threshold  # reported above
    if prediction.outlook != "fine" and not low:
        yield Finding(label, "problem" if prediction.outlook == "hopeless" else "look", prediction.why)
    elif prediction.rounds is not None and prediction.rounds > rounds:
        text = f"{rounds} rounds are allowed, about {prediction.rounds} will be needed"
        yield Finding(label, "problem", text)
