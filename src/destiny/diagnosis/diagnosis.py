"""`diagnose`: examine a problem and a network before a run, or after one that did not converge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from destiny.algorithms import CDADT, DestinyProx, Thanos
from destiny.algorithms.accelerated import STIFFNESS
from destiny.diagnosis import findings, text_report
from destiny.diagnosis.advice import Advice, about_data, advise, candidates
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.findings import Finding
from destiny.diagnosis.landscape import descend_and_probe
from destiny.diagnosis.network_options import Mixing
from destiny.diagnosis.pooled_problem import SmoothPart, WhitenedProblem, pooled_mass
from destiny.diagnosis.prediction import Case, Prediction
from destiny.diagnosis.trial import Trials
from destiny.engines.mixers import PLAIN, Messages, as_messages
from destiny.errors import MismatchError
from destiny.experiments.compare import labeled
from destiny.geometry.stiefel import polar
from destiny.problems import Centered
from destiny.problems.cached import CachedProblem
from destiny.problems.own_problem import unwrap
from destiny.protocols import (
    Algorithm,
    AlgorithmBase,
    Array,
    Method,
    Objective,
    Problem,
    ProblemBase,
    Topology,
    TopologyBase,
)
from destiny.run.choice import Choice, choose
from destiny.run.parts.centering import Centering
from destiny.run.solve import SolveOptions, prepare

AnyMethod = Algorithm[Any] | Method
Methods = Mapping[str, AnyMethod | None] | Sequence[AnyMethod] | AnyMethod | None


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`; ``print(diagnosis)`` shows it as a page of text.

    Attributes
    ----------
    facts : dict
        Numbers, by area and name.
    findings : tuple of Finding
        Observations, each with ``about``, ``level`` ("ok", "look" or "problem") and ``text``.
    predictions : dict of Prediction
        Rounds to the tolerance, by label of the algorithm; the usual methods for such a problem and network
        are always included, as plain and accelerated DESTINY for smooth f.
    advice : tuple of Advice
        Changes that would help, the most helpful first.
    """

    facts: dict[str, dict[str, Any]]
    findings: tuple[Finding, ...]
    predictions: dict[str, Prediction]
    advice: tuple[Advice, ...]

    def __str__(self) -> str:
        return text_report.to_text(self)

    def _repr_html_(self) -> str:
        return text_report.to_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the content as plain values for JSON; numbers that are not finite are None."""
        content: dict[str, Any] = _json_value(asdict(self))
        return content


def diagnose(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithms: Methods = None,
    *,
    start: Array | None = None,
    seed: int = 0,
    tolerance: float = SolveOptions.tolerance,
    rounds: int = SolveOptions.rounds,
    messages: Messages | str = PLAIN,
    tell: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Examine data, curvature and network, predict the rounds a run will take, and say what would help.

    The gradients of all agents are pooled in this process, which no agent could do, and a few methods take
    their first 500 steps: at most about 3000 gradients of all agents, whatever the number of rounds.

    Parameters
    ----------
    problem, network, start, seed, tolerance, rounds
        As in `destiny.solve`.
    algorithms : algorithm, sequence or mapping by label, optional
        The algorithms to examine; by default, and for None in a mapping, the one that `solve` chooses.
    messages : Messages
        As in `destiny.solve`: with private messages, whether this network allows them.
    tell : callable
        Called with a few words before each part of the work.

    Returns
    -------
    Diagnosis

    Raises
    ------
    ProblemError, NetworkError, SettingsError
        As `destiny.solve` would. A method that does not fit the problem is a finding, not an error.

    Examples
    --------
    >>> import destiny
    >>> problem = destiny.problems.pca.synthetic(n=20, m=160, p=2, xi=0.8, agents=8, seed=0)
    >>> diagnosis = destiny.diagnose(problem, destiny.networks.ring(8))
    >>> round(diagnosis.facts["curvature"]["condition"], 1)
    6.2
    """
    sent = as_messages(messages)
    ready = prepare(
        problem, network, options=SolveOptions(start=start, seed=seed, tolerance=tolerance, rounds=rounds)
    )
    topology, regularizer = ready.plan.network, ready.plan.problem.regularizer
    centering = ready.plan.preparations.get(Centering.task, 0)
    centered = unwrap(ready.plan.problem, Centered)
    pooled = ready.plan.problem if centered is None else centered.pooled()
    if regularizer is not None:
        pooled = SmoothPart(pooled)  # data and curvature are those of f
    mass = pooled_mass(ready.plan.problem)
    start = ready.plan.X.mean(axis=0)
    if mass is not None:
        # Curvatures are those of Z = L^T X with M = L L^T, for which Z^T Z = I.
        pooled, start = WhitenedProblem(pooled, mass), mass.whiten(start)
    whole, X = CachedProblem(pooled), polar(start)
    choice = choose(ready.plan.problem, topology, tolerance, sent)
    methods, without_rounds = label_algorithms(algorithms, choice)
    tell("hosting the agents")
    differences = Differences(whole.host(range(whole.agents)), whole.agents, X, X)
    differences.require_finite()
    tell("descending on the pooled objective")
    landscape = descend_and_probe(whole, X)
    differences = Differences(differences.hosted, whole.agents, X, landscape.X)
    tell("looking at the network")
    case = Case(landscape, differences, Mixing.of(topology), tolerance, regularizer is not None)
    tell("trying the methods")
    # Centering takes rounds too.
    as_given = ready.plan.problem.centering or ready.plan.problem.generalized or case.regularized
    trial_problem = ready.plan.problem if as_given else whole
    trials = Trials(trial_problem, topology, ready.plan.X, case, sent)
    mismatches, predictions = predict_all(methods, ready.plan.problem, topology, trials)
    sentences = [
        *findings.mean_findings(ready.plan.problem, differences, landscape.X, centering),
        *(findings.data_findings(landscape, differences, case.regularized) if mass is None else ()),
        *findings.constraint_findings(mass),
        *findings.regularizer_findings(regularizer, whole, landscape.X),
        *findings.unit_findings(ready.plan.problem),
        *findings.agent_findings(differences),
        *findings.curvature_findings(landscape),
        *findings.network_findings(topology, case.mixing.lambda_),
        *findings.message_findings(sent, topology),
        *without_rounds,
        *mismatches,
        *([Finding("method", "ok", str(choice))] if choice.algorithm in methods.values() else []),
    ]
    for label, prediction in predictions.items():
        sentences += findings.method_findings(label, methods[label], prediction, case, rounds)
    tell("trying other weights and links")
    advice: list[Advice] = []
    for label, prediction in predictions.items():
        advice += advise(label, methods[label], prediction, trials, whole.kind, rounds)
    advice += about_data(case) if mass is None and not case.regularized else ()
    defaults = {m.kind: trials.predict(m) for m in usual_methods(ready.plan.problem, topology, sent)}
    return Diagnosis(
        facts=collect_facts(whole, topology, case)
        | ({} if mass is None else {"constraint": {"condition of M": mass.condition}}),
        findings=tuple(sentences),
        predictions=predictions | {kind: p for kind, p in defaults.items() if kind not in predictions},
        advice=tuple(sorted(advice, key=lambda a: -a.saves)),
    )


def usual_methods(problem: ProblemBase, network: TopologyBase, messages: Messages) -> list[AlgorithmBase]:
    """Return the methods whose rounds are always predicted."""
    if problem.generalized:
        return [CDADT()]
    if problem.regularizer is not None:
        return [DestinyProx(), Thanos()]
    return candidates(problem, network, messages)


def label_algorithms(algorithms: Methods, choice: Choice) -> tuple[dict[str, AlgorithmBase], list[Finding]]:
    """Return the algorithms by label, and a finding for each that has no rounds; None is the choice."""
    given = choice.algorithm if algorithms is None else algorithms
    if isinstance(given, Mapping):
        every = labeled({label: choice.algorithm if m is None else m for label, m in given.items()})
    else:
        every = labeled(given if isinstance(given, Sequence) else [given])
    methods: dict[str, AlgorithmBase] = {}
    findings: list[Finding] = []
    for label, method in every.items():
        if not isinstance(method, AlgorithmBase):
            text = "it has no rounds, so none are predicted: a file with [world] tries it"
            findings.append(Finding(label, "look", text))
        else:
            methods[label] = method
    return methods, findings


def predict_all(
    methods: Mapping[str, AlgorithmBase], problem: ProblemBase, network: TopologyBase, trials: Trials
) -> tuple[list[Finding], dict[str, Prediction]]:
    """Return a finding for each method that does not fit the problem, and predictions for all others."""
    mismatches: list[Finding] = []
    predictions: dict[str, Prediction] = {}
    for label, method in methods.items():
        try:
            prepare(problem, network, method)
        except MismatchError as error:
            mismatches.append(Finding(label, "problem", str(error)))
        else:
            predictions[label] = trials.predict(method)
    return mismatches, predictions


def collect_facts(problem: ProblemBase, network: TopologyBase, case: Case) -> dict[str, dict[str, Any]]:
    """Return the numbers behind the findings, by area and name."""
    landscape, differences = case.landscape, case.differences
    n, p = problem.shape
    L = differences.largest_curvature("landing")
    facts: dict[str, dict[str, Any]] = {
        "problem": {
            "kind": problem.kind,
            "n": n,
            "p": p,
            "agents": problem.agents,
            "tolerance": case.tolerance,
        },
        "data": {
            "gradient at the start": landscape.slope,
            "beta auto": max(landscape.slope, STIFFNESS * float(L.max())),
            "beta threshold": landscape.threshold,
            "rows without gradient": int((differences.row_norms == 0).sum()),
        },
        "agents": {
            "gradient, least": float(differences.gradient_norms.min()),
            "gradient, most": float(differences.gradient_norms.max()),
            "curvature, least": float(L.min()),
            "curvature, most": float(L.max()),
            "distance from the mean": differences.gradient_spread,
        },
        "curvature": {
            "largest": landscape.largest,
            "smallest": landscape.smallest,
            "condition": landscape.condition,
            "slope left": landscape.reached,
        },
        "network": {"agents": network.agents},
    }
    facts["network"] |= network.facts()
    facts["network"]["lambda"] = case.mixing.lambda_
    if case.mixing.spectrum is not None:
        low, high = case.mixing.spectrum
        facts["network"] |= {"lowest eigenvalue": low, "highest eigenvalue": high}
    return facts


def _json_value(value: Any) -> Any:
    """Return ``value`` with lists for tuples and None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
