"""The answer of a run, by averaging over the neighbours until nobody sees a change any more."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from destiny import output, square
from destiny.drive import rayleigh_ritz
from destiny.engines.base import HostedAgents
from destiny.errors import DestinyError
from destiny.stiefel import norm, polar, tangent, violation
from destiny.stopping import Stop, flooding_time
from destiny.types import Array, Problem, Topology

ACCURACY = 1e-13  # largest change of an average, relative to its largest entry, that still counts as none
MOST = 20_000  # rounds of averaging; a ring of 100 agents needs about that many
SOLUTION, SUMMARY = "solution.npz", "summary.json"


@dataclass(frozen=True)
class Outcome:
    """What an agent has in the end.

    Attributes
    ----------
    X : ndarray (n, p)
        The answer, polar(mean of the agents' copies): orthonormal; equal at all agents up to rounding.
    own : ndarray (n, p)
        This agent's copy when the run stopped.
    axes : ndarray (n, p) or None
        For PCA: the principal axes, largest variance first.
    explained : float or None
        For PCA: the part of the variance of everybody's data that lies in span(X).
    stationarity : float
        Riemannian gradient at X, relative to the Euclidean one.
    sent : int
        Numbers this agent has sent.
    averaging : int
        Rounds of averaging after the last step.
    closed : bool
        Whether all neighbours have their answers too.
    notes : list of str
        Remarks on the run worth knowing.
    """

    reason: str
    converged: bool
    X: Array = field(repr=False)
    own: Array = field(repr=False)
    axes: Array | None = field(repr=False)
    objective: float
    explained: float | None
    stationarity: float
    consensus: float
    feasibility: float
    steps: int
    rounds: int
    sent: int
    seconds: float
    averaging: int
    closed: bool = False
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = [
            self.reason,
            f"  {self.steps} steps, {self.rounds} rounds, {self.seconds:.2f} s",
            f"  stationarity {self.stationarity:.1e}, consensus {self.consensus:.1e}, "
            f"feasibility {self.feasibility:.1e}",
            f"  objective {self.objective:.12g}",
        ]
        if self.explained is not None:
            told.append(f"  explained variance {100 * self.explained:.6f} %")
        return "\n".join(told + [f"  note: {note}" for note in self.notes])

    def write(self, folder: Path, identity: dict[str, Any]) -> None:
        """solution.npz, then summary.json: whoever sees the summary finds the solution."""
        arrays = {name: a for name in ("X", "own", "axes") if (a := getattr(self, name)) is not None}
        if not self.closed:
            _replace(folder / SOLUTION, lambda path: np.savez(path, allow_pickle=False, **arrays))
        facts = {name: v for name, v in asdict(self).items() if name not in ("X", "own", "axes")}
        text = json.dumps({**facts, **identity}, indent=2) + "\n"
        _replace(folder / SUMMARY, lambda path: path.write_text(text, encoding="utf-8"))

    @classmethod
    def read(cls, folder: Path, identity: dict[str, Any]) -> Outcome | None:
        """What an earlier process wrote, if it came that far."""
        try:
            facts = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
            found = {name: facts.pop(name) for name in identity}
            with np.load(folder / SOLUTION, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            outcome = cls(**facts, **{"axes": None, **arrays})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DestinyError(f"{folder / SUMMARY} cannot be read: move {folder} away") from error
        if found != identity:
            raise DestinyError(f"{folder} holds another run: choose another folder for out")
        return outcome


def _replace(path: Path, writer: Callable[[Path], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    output.replace(path, writer)


def average(agents: HostedAgents, network: Topology, *arrays: Array) -> tuple[Array, ...]:
    """Mix until the largest change seen by any agent is rounding; all agents end after the same round."""
    start = agents.traffic.rounds
    change = np.ones(len(agents.ids))
    while True:
        # In so many rounds everybody hears of everybody: of their numbers, and of the last time's changes.
        heard = max(1, flooding_time(network, agents.traffic.rounds))
        before, agents.flood = arrays, change
        arrays = agents.mix(*arrays, rounds=heard)
        change = np.stack([_change(a, b) for a, b in zip(arrays, before, strict=True)]).max(axis=0)
        done, agents.flood = bool((agents.flood <= ACCURACY).all()), None
        if done or agents.traffic.rounds - start >= MOST:
            return arrays


def _change(new: Array, old: Array) -> Array:
    """Largest change of an entry relative to the largest entry, ``(agents,)``."""
    rest = tuple(range(1, new.ndim))
    return np.asarray(np.abs(new - old).max(axis=rest) / np.maximum(np.abs(new).max(axis=rest), 1e-300))


@dataclass(frozen=True)
class Own:
    """What one agent can observe: its own objective."""

    agents: HostedAgents

    def gradient(self, X: Array) -> Array:
        """Gradient of f_i at X ``(n, p)``."""
        return np.asarray(self.agents.gradient(X[None])[0])

    def value(self, X: Array) -> float:
        """f_i(X)."""
        return float(self.agents.value(X[None])[0])


def remarks(agents: HostedAgents, X: Array) -> list[str]:
    """Notes on the answer X ``(n, p)``: of a square X that only one half of O(n) was tried."""
    if X.shape[0] != X.shape[1] or square.symmetric(Own(agents), [X]):
        return []
    return [square.note(X, "the other half needs a run of its own, with another seed or a start file")]


def find(
    agents: HostedAgents,
    network: Topology,
    problem: Problem,
    X: Array,
    stop: Stop,
    steps: int,
    seconds: float,
) -> Outcome:
    """The answer and what it is worth, from the agents' iterates ``X (1, n, p)``."""
    rounds = agents.traffic.rounds
    agents.flood = None
    (mean,) = average(agents, network, X)
    answer = polar(mean)
    (agent,) = agents.ids.tolist()
    variance = getattr(getattr(problem, "problem", problem), "variance", None)
    total = np.array([0.0 if variance is None else variance(agent)])
    value, slope, total = average(agents, network, agents.value(answer), agents.gradient(answer), total)
    explained = float(-2 * value[0] / total[0]) if variance is not None and total[0] > 0 else None
    steep = float(norm(slope)[0])
    return Outcome(
        reason=stop.reason, converged=stop.converged, X=answer[0], own=X[0],
        axes=rayleigh_ritz(answer[0], slope[0])[0] if variance is not None else None,
        objective=float(value[0]), explained=explained,
        stationarity=float(norm(tangent(answer, slope))[0]) / (steep or 1.0),
        consensus=float(norm(X - mean)[0]), feasibility=float(violation(X)[0]),
        steps=steps, rounds=rounds, sent=agents.traffic.scalars, seconds=seconds,
        averaging=agents.traffic.rounds - rounds, notes=remarks(agents, answer[0]),
    )  # fmt: skip
