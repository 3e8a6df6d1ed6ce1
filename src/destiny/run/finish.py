"""What `solve` makes of the last moment of a run: the answer, its notes, the `Result`."""

from __future__ import annotations

import numpy as np

from destiny.geometry.stiefel import polar
from destiny.protocols import AlgorithmBase, Array, ProblemBase, Regulariser
from destiny.run import notes, privacy
from destiny.run.centring import mean_share, uncentred
from destiny.run.choice import Choice
from destiny.run.messages import Messages
from destiny.run.metrics import Composite
from destiny.run.moment import Moment
from destiny.run.observation import GlobalMeasures
from destiny.run.principal_axes import rayleigh_ritz
from destiny.run.resolution import contradicted, resolve
from destiny.run.result import Result
from destiny.run.settings import settings_of
from destiny.run.stopping import Stop

TESTED = ("pca", "olsr", "sdl", "masked-pca")  # problems whose gradients need no check


def answer(moment: Moment, regulariser: Regulariser | None = None) -> Array:
    """polar(mean of the agents' copies) ``(n, p)``, in the norm of M; NaN if one of them is not finite.

    With a regulariser it is the proximal step from there, which has exact zeros, once that is orthonormal.
    """
    spread = moment.spread
    if not spread.finite:
        return np.full_like(spread.mean, np.nan)
    X = polar(spread.mean) if moment.mass is None else moment.mass.polar(spread.mean)
    if regulariser is None:
        return X
    gradient = moment.team.gradient(X)
    return Composite.at(regulariser, gradient).step(X, gradient)[1]


def make_result(
    moment: Moment,
    stop: Stop,
    problem: ProblemBase,
    algorithm: AlgorithmBase,
    observed: GlobalMeasures,
    *,
    tolerance: float,
    decentralised: bool,
    remarks: list[str],
    choice: Choice | None,
    signal: str | None,
    messages: Messages,
) -> Result:
    """The result of a run that ended after ``moment``; ``remarks`` are notes from before its end."""
    assert observed.measures is not None
    team, X, finite = moment.team, answer(moment, problem.regulariser), moment.spread.finite
    axes, sentences = None, [*remarks, *problem.remarks()]
    if decentralised:
        stop = contradicted(stop, observed.measures, tolerance)
    if finite and stop.converged:
        seen = max(tolerance, observed.measures.worst)  # a rule of the user's own may ask for less
        found = resolve(
            team.gradient,
            X,
            quadratic=problem.quadratic,
            regulariser=problem.regulariser,
            mass=moment.mass,
        )
        if found is not None:
            stop = found.judge(stop, seen)
            sentences += found.remarks(seen)
    if finite and (problem.principal_axes or problem.regulariser is not None):
        gradient = team.gradient(X)
        solved = problem if moment.centring is None else moment.centring.problem
        sentences += privacy.remarks(solved, X, gradient)
    if finite and problem.principal_axes:
        principal = rayleigh_ritz(X, gradient)
        axes, stop = principal.vectors, principal.judge(stop)
        if moment.centring is None:
            sentences += _some(uncentred(mean_share(team, X, gradient)))
    report = None if moment.centring is None else moment.centring.report(team)
    if report is not None:
        sentences.insert(0, str(report))
    if moment.step == 0 and stop.converged:
        sentences.append(notes.stationary_start(team.gradient(X), problem.principal_axes))
    if stop.converged and not problem.batches:
        sentences += _some(notes.objective_rose(observed.history))
    if finite and problem.kind not in TESTED:
        sentences += _some(notes.gradient_mismatch(team, X))
    if stop.reason.startswith("out of") and not decentralised:
        sentences += _some(notes.rounds_missing(observed.history, tolerance))
    if finite:
        sentences += algorithm.remarks(moment.state, np.arange(problem.agents), stop.converged)
    return Result(
        reason=stop.reason,
        converged=stop.converged,
        X=X,
        agents=team.collect([part.X for part in moment.parts]),
        measures=observed.measures,
        history=observed.history,
        steps=moment.step,
        rounds=moment.round,
        scalars=moment.scalars,
        bytes=moment.traffic.bytes,
        seconds=moment.seconds,
        settings=settings_of(algorithm),
        regulariser=None if problem.regulariser is None else repr(problem.regulariser),
        axes=axes,
        notes=[sentence for sentence in sentences if sentence not in stop.reason],
        choice=None if choice is None else str(choice),
        interrupted=signal,
        private=messages.private,
        bits=messages.bits,
        clip=messages.clip,
        measuring=observed.seconds,
        state=team.own(moment.parts),
        mean=None if report is None else report.mean,
        scale=None if report is None else report.scale,
        target_mean=None if report is None else report.target_mean,
        **moment.traffic.evaluations(),
        passes=observed.passes(moment),
    )


def _some(note: str | None) -> list[str]:
    return [] if note is None else [note]
