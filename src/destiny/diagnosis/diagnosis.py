"""`diagnose`: look at a problem and a network before, or instead of, a run that does not converge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from destiny.algorithms import Destiny, DestinyMomentum
from destiny.diagnosis import findings as find
from destiny.diagnosis import text_report
from destiny.diagnosis.advice import Advice, about_data, advise
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.findings import Finding
from destiny.diagnosis.landscape import survey
from destiny.diagnosis.network_options import Mixing
from destiny.diagnosis.prediction import Case, Prediction
from destiny.diagnosis.theory import Theory, constants
from destiny.diagnosis.trial import Trials
from destiny.errors import MismatchError
from destiny.experiments.compare import labelled
from destiny.geometry.stiefel import polar
from destiny.problems import Centred
from destiny.problems.cached import Once
from destiny.protocols import Algorithm, Array, Objective, Problem, Topology
from destiny.run.centring import planned_rounds
from destiny.run.solve import prepare


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; ``print(diagnosis)`` is a page for people.

    Attributes
    ----------
    facts : dict
        Numbers, by area and name.
    findings : tuple of Finding
        Sentences with ``about``, ``level`` ("ok", "look" or "problem") and ``text``.
    predictions : dict of Prediction
        Rounds to tolerance, by the labels of the algorithms; both DESTINYs are always among them.
    advice : tuple of Advice
        What would help, most helpful first.
    theory : Theory or None
        Constants of the paper's Section 3, sampled; None unless asked for.
    """

    facts: dict[str, dict[str, Any]]
    findings: tuple[Finding, ...]
    predictions: dict[str, Prediction]
    advice: tuple[Advice, ...]
    theory: Theory | None = None

    def __str__(self) -> str:
        return text_report.plain(self)

    def as_dict(self) -> dict[str, Any]:
        """As plain values for JSON; numbers that are not finite are None."""
        whole: dict[str, Any] = _plain(asdict(self))
        return whole


def diagnose(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithms: Mapping[str, Algorithm[Any]] | Sequence[Algorithm[Any]] | Algorithm[Any] | None = None,
    *,
    start: Array | None = None,
    seed: int = 0,
    tolerance: float = 1e-8,
    rounds: int = 10_000,
    theory: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Look at data, curvature and network, predict the rounds a run will take, and say what would help.

    It pools gradients in this process, as an observer may and an agent may not, and takes the first 500 steps
    of a few methods: at most some 3000 gradients of all agents, whatever the number of rounds.

    Parameters
    ----------
    problem, network, start, seed, tolerance, rounds
        As in `destiny.solve`.
    algorithms : algorithm, sequence or mapping by label, optional
        Those to be judged; by default accelerated DESTINY, as in `solve`.
    theory : bool
        Sample the constants of the paper's convergence theorem too. Nothing should be set by them.
    tell : callable
        Called with a few words before each part of the work.

    Examples
    --------
    >>> import destiny
    >>> problem = destiny.problems.pca.synthetic(n=20, m=160, p=2, xi=0.8, agents=8, seed=0)
    >>> found = destiny.diagnose(problem, destiny.networks.ring(8))
    >>> round(found.facts["curvature"]["condition"], 1)
    6.2
    """
    ready = prepare(problem, network, start=start, seed=seed, tolerance=tolerance, rounds=rounds)
    centring = planned_rounds(ready.problem, network)
    seen_as = ready.problem.pooled() if isinstance(ready.problem, Centred) else ready.problem
    whole, X = Once(seen_as), polar(ready.drive.X.mean(axis=0))
    methods = named(algorithms)
    tell("hosting the agents")
    seen = Differences(whole.host(range(whole.agents)), whole.agents, X, X)
    seen.slopes  # noqa: B018  - refuses gradients that are not finite before anything else is made of them
    tell("descending on the pooled objective")
    ground = survey(whole, X)
    seen = Differences(seen.hosted, whole.agents, X, ground.X)
    tell("looking at the network")
    case = Case(ground, seen, Mixing.of(network), tolerance)
    tell("trying the methods")
    tried = ready.problem if isinstance(ready.problem, Centred) else whole  # centring takes rounds too
    trials = Trials(tried, network, ready.drive.X, case)
    misfits, told = judged(methods, ready.problem, network, trials)
    fit = {label: methods[label] for label in told}
    findings = [
        *find.of_mean(ready.problem, seen, ground.X, centring),
        *find.of_data(ground, seen), *find.of_units(ready.problem), *find.of_agents(seen),
        *find.of_curvature(ground), *find.of_network(network, case.mixing.lambda_), *misfits,
        *(f for label, m in fit.items() for f in find.of_method(label, m, told[label], case, rounds)),
    ]  # fmt: skip
    tell("trying other weights and links")
    advice = [
        *(a for label, m in fit.items() for a in advise(label, m, told[label], trials, whole.kind, rounds)),
        *about_data(case),
    ]
    both = {m.kind: trials.predict(m) for m in (DestinyMomentum(), Destiny())}
    if theory:
        tell("sampling the constants of the theory")
    return Diagnosis(
        facts=gathered(whole, network, case),
        findings=tuple(findings),
        predictions=told | {kind: p for kind, p in both.items() if kind not in told},
        advice=tuple(sorted(advice, key=lambda a: -a.saves)),
        theory=constants(seen, case.mixing.lambda_) if theory else None,
    )


def named(
    algorithms: Mapping[str, Algorithm[Any]] | Sequence[Algorithm[Any]] | Algorithm[Any] | None,
) -> dict[str, Algorithm[Any]]:
    """Algorithms by label."""
    if algorithms is None:
        return labelled([DestinyMomentum()])
    return labelled(algorithms if isinstance(algorithms, Mapping | Sequence) else [algorithms])


def judged(
    methods: Mapping[str, Algorithm[Any]], problem: Problem, network: Topology, trials: Trials
) -> tuple[list[Finding], dict[str, Prediction]]:
    """Methods made for other problems, and predictions for all others."""
    misfits: list[Finding] = []
    told: dict[str, Prediction] = {}
    for label, method in methods.items():
        try:
            prepare(problem, network, method)
        except MismatchError as error:
            misfits.append(Finding(label, "problem", str(error)))
        else:
            told[label] = trials.predict(method)
    return misfits, told


def gathered(problem: Any, network: Topology, case: Case) -> dict[str, dict[str, Any]]:
    """The numbers behind the sentences."""
    ground, seen = case.landscape, case.differences
    n, p = problem.shape
    L = seen.steep("landing")
    facts: dict[str, dict[str, Any]] = {
        "problem": {
            "kind": problem.kind,
            "n": n,
            "p": p,
            "agents": problem.agents,
            "tolerance": case.tolerance,
        },
        "data": {
            "gradient at the start": ground.slope,
            "beta auto": max(ground.slope, float(L.max()) / 4),
            "beta threshold": ground.threshold,
            "rows without gradient": int((seen.rows == 0).sum()),
        },
        "agents": {
            "gradient, least": float(seen.gradients.min()),
            "gradient, most": float(seen.gradients.max()),
            "curvature, least": float(L.min()),
            "curvature, most": float(L.max()),
            "distance from the mean": seen.apart,
        },
        "curvature": {
            "largest": ground.largest,
            "smallest": ground.smallest,
            "condition": ground.condition,
            "slope left": ground.reached,
        },
        "network": {"agents": network.agents},
    }
    if hasattr(network, "facts"):
        facts["network"] |= network.facts()
    facts["network"]["lambda"] = case.mixing.lambda_
    if case.mixing.spectrum is not None:
        low, high = case.mixing.spectrum
        facts["network"] |= {"lowest eigenvalue": low, "highest eigenvalue": high}
    return facts


def _plain(value: Any) -> Any:
    """Without tuples and without numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
