"""What `solve` makes of the last moment of a run: the answer, notes that its user should know, the
`Result`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from destiny.geometry.stiefel import polar
from destiny.protocols import Array, Observer, Regularizer
from destiny.run.accuracy import Resolution, contradicted, mean_share, rayleigh_ritz, resolve, uncentered
from destiny.run.history import History
from destiny.run.loop import Moment
from destiny.run.metrics import Composite
from destiny.run.observation import GlobalMeasures
from destiny.run.own import settings_of
from destiny.run.parts.part import RunPart
from destiny.run.references import data_bytes, least_bytes
from destiny.run.result import Result
from destiny.run.stopping import Stop

TESTED = ("pca", "olsr", "sdl", "masked-pca")  # problems whose gradients need no check
MEASUREMENTS = 8  # with fewer of them the trend of a run cannot be judged
STEP = 1e-3  # of a difference, relative to the norm of X: float32 values then give three digits
MISMATCH = 1e-3  # between difference and gradient, relative: one wrong gradient of a hundred has more
RISE = 1e-7  # of the objective: above the rounding of values computed in float32


def answer(moment: Moment, regularizer: Regularizer | None = None) -> Array:
    """polar(mean of the agents' copies) ``(n, p)``, in the norm of M; NaN if one of them is not finite.

    With a regularizer it is the proximal step from there, which has exact zeros, once that is orthonormal.
    """
    spread = moment.spread
    if not spread.finite:
        return np.full_like(spread.mean, np.nan)
    X = polar(spread.mean) if moment.mass is None else moment.mass.polar(spread.mean)
    if regularizer is None:
        return X
    gradient = moment.team.gradient(X)
    return Composite.at(regularizer, gradient).step(X, gradient)[1]


def make_result(
    moment: Moment,
    stop: Stop,
    observed: GlobalMeasures,
    *,
    tolerance: float,
    local_stopping: bool,
    remarks: list[str],
    signal: str | None,
) -> Result:
    """The result of a run that ended after ``moment``; ``remarks`` are notes from before its end."""
    assert observed.measures is not None
    plan, team = moment.plan, moment.team
    problem, axes, sentences = plan.problem, None, [*remarks, *plan.problem.remarks()]
    X, finite = answer(moment, problem.regularizer), moment.spread.finite
    if local_stopping:
        stop = contradicted(stop, observed.measures, tolerance)
    if finite and stop.converged:
        seen = max(tolerance, observed.measures.worst)  # a rule of the user's own may ask for less
        stop, more = judged(stop, resolve(team.gradient, X, problem, moment.mass), seen)
        sentences += more
    if finite and (problem.principal_axes or plan.parts):
        gradient = team.gradient(X)
        axes, stop, more = described(stop, X, gradient, plan.parts, problem.principal_axes)
        sentences += more
        if problem.principal_axes and plan.solved is problem:
            sentences += _some(uncentered(mean_share(team, X, gradient)))
    sentences += _notes(moment, stop, observed, X, None if local_stopping else tolerance)
    result = Result(
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
        settings=settings_of(plan.algorithm),
        regularizer=None if problem.regularizer is None else repr(problem.regularizer),
        axes=axes,
        notes=[sentence for sentence in sentences if sentence not in stop.reason],
        choice=None if plan.choice is None else str(plan.choice),
        interrupted=signal,
        message_kind=plan.messages,
        measuring=observed.seconds,
        state=team.own(moment.parts),
        passes=observed.passes(moment),
        gradients=moment.traffic.gradients,
        minibatches=moment.traffic.minibatches,
        values=moment.traffic.values,
        data_bytes=data_bytes(problem, plan.network, team),
        least_bytes=least_bytes(problem.shape, plan.network.agents),
    )
    for part in plan.parts:
        result = part.add_to(result, moment)
    return result


def judged(stop: Stop, found: Resolution | None, tolerance: float) -> tuple[Stop, list[str]]:
    """The end of a run and notes on it, by how well its answer is resolved."""
    if found is None or not stop.converged:
        return stop, []
    return found.judge(stop, tolerance), found.remarks(tolerance)


def described(
    stop: Stop, X: Array, gradient: Array, parts: Sequence[RunPart], principal: bool
) -> tuple[Array | None, Stop, list[str]]:
    """Principal axes in span(X), the end of the run by them, and what the parts of the run have to say."""
    sentences = [sentence for part in parts for sentence in part.remarks(X, gradient)]
    if not principal:
        return None, stop, sentences
    found = rayleigh_ritz(X, gradient)
    return found.vectors, found.judge(stop), sentences


def _notes(
    moment: Moment, stop: Stop, observed: GlobalMeasures, X: Array, tolerance: float | None
) -> list[str]:
    """Sentences about a run, from its history and last state; ``tolerance`` is that of an observer."""
    plan, team, finite = moment.plan, moment.team, moment.spread.finite
    problem, sentences = plan.problem, list[str]()
    if moment.step == 0 and stop.converged:
        sentences.append(stationary_start(team.gradient(X), problem.principal_axes))
    if stop.converged and not problem.batches:
        sentences += _some(objective_rose(observed.history))
    if finite and problem.kind not in TESTED:
        sentences += _some(gradient_mismatch(team, X))
    if stop.reason.startswith("out of") and tolerance is not None:
        sentences += _some(rounds_missing(observed.history, tolerance))
    if finite:
        sentences += plan.algorithm.remarks(moment.state, np.arange(problem.agents), stop.converged)
    return sentences


def _some(note: str | None) -> list[str]:
    return [] if note is None else [note]


def objective_rose(history: History) -> str | None:
    """A note if the objective is larger at the end than at the start, beyond rounding."""
    before, after = (float(history["objective"][k]) for k in (0, -1))
    if not after - before > RISE * max(abs(before), abs(after)):
        return None
    return (
        f"the objective rose from {before:.6g} to {after:.6g}: this may be a maximum or a saddle; test "
        "your gradients with destiny.check_gradient, or choose another start"
    )


def stationary_start(gradient: Array, principal_axes: bool) -> str:
    """A note on a run that ended where it began; ``gradient (n, p)`` is that of f there."""
    n, p = gradient.shape
    if not gradient.any():
        return "the gradient is zero at the start: are all data zero? If not, choose another start"
    if principal_axes and n == p:
        return "with p = n every orthonormal X spans all directions: any start is an answer"
    return "the start is stationary already: if it is a saddle, choose another one"


def gradient_mismatch(observer: Observer, X: Array) -> str | None:
    """A note if the gradient at X ``(n, p)`` does not match differences of the objective.

    It finds a gradient that is wrong at one agent, too: the mean of the gradients is then not that of f.
    """
    gradient = observer.gradient(X)
    V = np.random.default_rng(0).standard_normal(X.shape)
    V *= np.linalg.norm(X) / np.linalg.norm(V)
    V += gradient * (np.linalg.norm(X) / (np.linalg.norm(gradient) or 1.0))
    slope = float(np.sum(gradient * V))
    found, errors = [], []
    for t in (STEP, STEP / 2):
        values = [observer.value(X + t * V), observer.value(X - t * V)]
        if not np.isfinite(values).all():
            return None
        found.append((values[0] - values[1]) / (2 * t))
        errors.append(abs(found[-1] - slope) - RISE * np.abs(values).sum() / t)
    # Of a right gradient, what a difference leaves of the curvature falls to a quarter with half the step.
    if not (min(errors) > MISMATCH * max(abs(slope), abs(found[1])) and errors[1] > 0.5 * errors[0]):
        return None
    return (
        f"gradient and objective do not match at the answer: along one direction f changes at the rate "
        f"{found[1]:.4g}, its gradient says {slope:.4g}; an agent's gradient is wrong, or f is not smooth "
        "there: destiny.check_gradient(problem, X) names the agent"
    )


def rounds_missing(history: History, tolerance: float) -> str | None:
    """A note on a run that is out of rounds: its measures in the second half, and how many more may do."""
    rounds = history["round"]
    worst = np.max([history[name] for name in ("stationarity", "consensus", "feasibility")], axis=0)
    half = int(np.searchsorted(rounds, rounds[-1] / 2))
    before, after, over = float(worst[half]), float(worst[-1]), rounds[-1] - rounds[half]
    if tolerance == 0 or len(rounds) < MEASUREMENTS or not (np.isfinite(worst[half:]).all() and over > 0):
        return None
    if after > 0.5 * before:
        return f"the largest measure has not halved in the last {over:.0f} rounds: more of them may not help"
    more = over * np.log(after / tolerance) / np.log(before / after)
    return (
        f"the largest measure fell from {before:.1e} to {after:.1e} in the last {over:.0f} rounds: at "
        f"that rate about {float(f'{more:.2g}'):.0f} more would do"
    )
