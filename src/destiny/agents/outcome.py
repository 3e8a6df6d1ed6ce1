"""The answer of a run, by averaging over the neighbors until nobody sees a change any more."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.same_settings import difference
from destiny.errors import DestinyError
from destiny.experiments import result_folder
from destiny.geometry.own_units import row_curvatures
from destiny.geometry.stiefel import norm, polar, tangent, violation
from destiny.protocols import Array, ProblemBase
from destiny.run.accuracy import Resolution
from destiny.run.answer import described, judged
from destiny.run.averaging import MOST, average
from destiny.run.metrics import Composite, Measures
from destiny.run.parts import square
from destiny.run.parts.part import RunPart
from destiny.run.result import RunOutcome
from destiny.run.stopping import Stop
from destiny.storage import npz

SLACK = 1e-6  # by which rounding may exceed a bound that holds exactly
FAR = 0.1  # from the average of all copies: no agent of a run that has converged is that far away
ARRAYS = ("X", "own", "axes", "mean", "scale", "target_mean")  # in the file of the solution
FACTS = (
    *("reason", "converged", "objective", "explained", "stationarity", "consensus", "feasibility"),
    *("steps", "rounds", "sent", "bytes", "seconds", "averaging", "closed", "gradients", "notes", "choice"),
)  # in the file of the summary
SOLUTION, SUMMARY = "solution.npz", "summary.json"


@dataclass(frozen=True, kw_only=True)
class Outcome(RunOutcome):
    """What an agent has in the end.

    Attributes
    ----------
    reason : str
        Why the run ended; if the numbers cannot be right, that.
    converged : bool
        Whether the stopping rule was met, and the numbers are plausible.
    X : ndarray (n, p)
        The answer, polar(mean of the agents' copies): orthonormal; equal at all agents up to rounding.
    own : ndarray (n, p)
        This agent's copy when the run stopped.
    axes : ndarray (n, p) or None
        For PCA: the principal axes, largest variance first.
    explained : float or None
        For PCA: the part of the variance of everybody's data that lies in span(X).
    stationarity : float
        Riemannian gradient at X, relative to the Euclidean one; with a regularizer, the length of a proximal
        step on the tangent space by its step size, relative to the same.
    sent : int
        Numbers this agent has sent.
    bytes : int or None
        What they took, without headers and encryption; None in files that do not say.
    averaging : int
        Rounds of averaging after the last step.
    gradients : int or None
        Gradients of its own f_i this agent evaluated up to the last step; None in files that do not say.
    closed : bool
        Whether all neighbors have their answers too.
    mean, scale, target_mean : ndarray (n,), (n,) and (p,), or None
        Where data were centered: what was subtracted and divided by, as in `destiny.Result`.
    notes : list of str
        Remarks on the run worth knowing.
    """

    own: Array = field(repr=False)
    objective: float
    explained: float | None
    stationarity: float
    consensus: float
    feasibility: float
    sent: int
    averaging: int
    closed: bool = False
    gradients: int | None = None
    bytes: int | None = None

    def final_measures(self) -> Measures:
        """Of this agent, for the answer all agents share."""
        return Measures(self.objective, self.stationarity, self.consensus, self.feasibility)

    def details(self) -> list[str]:
        """The explained variance of PCA."""
        return [] if self.explained is None else [f"  explained variance {100 * self.explained:.6f} %"]

    def checked(self) -> Outcome:
        """The same, or, if its numbers cannot be right, one that says so and has not converged."""
        off = float(violation(self.X))
        plausible = {
            f"the objective is {self.objective:g}, expected a finite number": np.isfinite(self.objective),
            f"||X^T X - I|| is {off:g}, expected 0": off <= SLACK,
            f"the stationarity is {self.stationarity:g}, expected 0 to 1": self.stationarity <= 1 + SLACK,
            f"this agent's copy is {self.consensus:g} away from the average, expected about 0": (
                not self.converged or self.consensus <= FAR
            ),
        }
        if self.explained is not None:
            sentence = f"the explained variance is {100 * self.explained:g} %, expected 0 to 100 %"
            plausible[sentence] = -SLACK <= self.explained <= 1 + SLACK
        if all(plausible.values()):
            return self
        wrong = "; ".join(sentence for sentence, right in plausible.items() if not right)
        reason = (
            f"do not use this answer: {wrong}; wrong numbers were sent or computed in the last averaging, "
            f"after the run had ended with {self.reason!r}"
        )
        return replace(self, reason=reason, converged=False)

    def write(self, folder: Path, identity: dict[str, Any]) -> None:
        """solution.npz, then summary.json: whoever sees the summary finds the solution."""
        arrays = self.arrays(ARRAYS)
        if not self.closed:
            _replace(folder / SOLUTION, lambda path: np.savez(path, allow_pickle=False, **arrays))
        facts = {name: getattr(self, name) for name in FACTS}
        text = json.dumps({**facts, **identity}, indent=2) + "\n"
        _replace(folder / SUMMARY, lambda path: path.write_text(text, encoding="utf-8"))

    @classmethod
    def read(cls, folder: Path, identity: dict[str, Any]) -> Outcome | None:
        """What an earlier process wrote, if it came that far."""
        try:
            facts = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
            if not isinstance(facts, dict):
                raise TypeError("no table")
            saved_identity = {name: facts.pop(name) for name in identity}
            with (folder / SOLUTION).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            outcome = cls(**facts, **{"axes": None, **arrays})
        except FileNotFoundError:
            return None
        except npz.DAMAGE as error:
            raise DestinyError(
                f"{SUMMARY} or {SOLUTION} in {folder} is damaged ({type(error).__name__}): move the folder "
                "away and start a new run, or take the answer of another agent"
            ) from error
        if (other := difference(identity, saved_identity)) is not None:
            name, mine, theirs = other
            raise DestinyError(
                f"{folder} holds another run: its {name} is {theirs}, this file's is {mine}; "
                "choose another folder for out"
            )
        return outcome


def _replace(path: Path, writer: Callable[[Path], object]) -> None:
    def write(aside: Path) -> None:
        aside.unlink(missing_ok=True)
        aside.touch(mode=0o600)  # the writer keeps the mode: answers are for the owner alone
        writer(aside)

    path.parent.mkdir(parents=True, exist_ok=True)
    result_folder.replace(path, write)


@dataclass(frozen=True)
class Own:
    """What one agent can observe: its own objective."""

    agents: HostedAgents

    def gradient(self, X: Array) -> Array:
        """Gradient of f_i at X ``(n, p)``."""
        return np.asarray(self.agents.gradient(X[None])[0])

    def mass(self, X: Array) -> Array:
        """d M_i X."""
        return np.asarray(self.agents.mass(X[None])[0])

    def value(self, X: Array) -> float:
        """f_i(X)."""
        return float(self.agents.value(X[None])[0])


def remarks(agents: HostedAgents, X: Array) -> list[str]:
    """Notes on the answer X ``(n, p)``: of a square X that only one half of O(n) was tried."""
    if X.shape[0] != X.shape[1] or square.symmetric(Own(agents), [X], agents.regularizer):
        return []
    return [square.note(X, "the other half needs a run of its own, with another seed or a start file")]


def find(
    agents: HostedAgents,
    problem: ProblemBase,
    parts: Sequence[RunPart],
    X: Array,
    stop: Stop,
    steps: int,
    seconds: float,
    tolerance: float,
) -> Outcome:
    """The answer and what it is worth, from the agents' iterates ``X (1, n, p)``."""
    rounds, gradients, network = agents.traffic.rounds, agents.traffic.gradients, agents.network
    agents.set_flood(None)
    agents.mixer.end_steps()
    (mean,), settled = average(agents, network, X)
    answer = polar(mean)
    (agent,) = agents.ids.tolist()
    variance = problem.variance(agent)
    total = np.array([variance or 0.0])
    own = Own(agents)
    with np.errstate(all="ignore"):  # curvatures add up: those of f are the means of the agents' own
        rows = row_curvatures(own.gradient, answer[0], problem.quadratic)[None]
    (value, slope, total, rows), settled_too = average(
        agents, network, agents.value(answer), agents.gradient(answer), total, rows
    )
    if not (settled and settled_too):
        stop = Stop(
            f"{stop.reason}; but the averages that make the answer still changed after {MOST} rounds: X, the "
            "objective and the explained variance are rough and differ between agents; use a network that "
            "mixes faster"
        )
    explained = float(-2 * value[0] / total[0]) if variance is not None and total[0] != 0 else None
    steep = float(norm(slope)[0])
    notes = remarks(agents, answer[0])
    point, objective = answer[0], float(value[0])
    stationarity = float(norm(tangent(answer, slope))[0])
    if agents.regularizer is not None:
        composite = Composite.at(agents.regularizer, slope[0])
        stationarity, point = composite.step(point, slope[0])
        objective += float(np.vdot(slope[0], point - answer[0]) + composite.regularizer.value(point))
    if stop.converged:
        stop, more = judged(stop, Resolution.at(point, slope[0], rows[0], agents.regularizer)[0], tolerance)
        notes += more
    principal = agents.regularizer is None and variance is not None
    axes, stop, more = described(stop, answer[0], slope[0], parts, principal)
    notes += more
    if explained is not None and not 0 <= explained <= 1 and any(p.noisy for p in parts):
        explained = None
        notes.append("the noise hides how much of the variance is explained")
    outcome = Outcome(
        reason=stop.reason,
        converged=stop.converged,
        X=point,
        own=X[0],
        axes=axes,
        objective=objective,
        explained=explained,
        stationarity=stationarity / (steep or 1.0),
        consensus=float(norm(X - mean)[0]),
        feasibility=float(violation(X)[0]),
        steps=steps,
        rounds=rounds,
        sent=agents.traffic.scalars,
        bytes=agents.traffic.bytes,
        seconds=seconds,
        averaging=agents.traffic.rounds - rounds,
        gradients=gradients,
        notes=notes,
    )
    return outcome.checked()
