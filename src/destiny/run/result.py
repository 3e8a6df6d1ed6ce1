"""What a run returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from destiny.protocols import Array
from destiny.run.history import History
from destiny.run.metrics import Measures


@dataclass(frozen=True)
class Result:
    """The outcome of `destiny.solve`; ``print(result)`` tells the story.

    Attributes
    ----------
    reason : str
        Why the run stopped.
    converged : bool
        Whether that means convergence; never true at an infeasible or scattered point.
    X : ndarray (n, p)
        The answer, polar(mean of the agents' copies): orthonormal. NaN if the run diverged.
    axes : ndarray (n, p) or None
        For PCA: the principal axes by Rayleigh-Ritz, largest variance first.
    mean, scale, target_mean : ndarray (n,), (n,) and (p,), or None
        Where data were centred: what was subtracted from each column of the data, what it was divided by if
        they were standardised, and for OLSR what was subtracted from the targets.
    agents : ndarray (d, n, p)
        The agents' own copies. On MPI, rank 0 has all of them and the other ranks their own.
    measures : Measures
        Objective, stationarity, consensus and feasibility at the end.
    history : History
        One row per measurement of the run that led to the answer.
    steps, rounds, scalars, seconds
        Iterations, communication rounds, float64 numbers sent over all links, time without measuring; of a
        square X that was tried with both signs of det X, of both runs together.
    gradients, minibatches, values : int
        What each agent evaluated of its own f_i: full gradients, gradients of mini-batches, values.
    measuring : float
        Seconds spent on measuring, since the run was last resumed.
    notes : list of str
        Remarks on the run worth knowing.
    settings : dict
        The algorithm and its settings.
    interrupted : str or None
        Name of the signal that ended the run, if one did and the caller's handler returned.
    """

    reason: str
    converged: bool
    X: Array
    agents: Array
    measures: Measures
    history: History
    steps: int
    rounds: int
    scalars: int
    seconds: float
    settings: dict[str, Any]
    axes: Array | None = None
    notes: list[str] = field(default_factory=list)
    interrupted: str | None = None
    measuring: float = 0.0
    state: Any = field(default=None, repr=False)
    mean: Array | None = field(default=None, repr=False)
    scale: Array | None = field(default=None, repr=False)
    target_mean: Array | None = field(default=None, repr=False)
    gradients: int = 0
    minibatches: int = 0
    values: int = 0

    def __str__(self) -> str:
        m, n = self.measures, self.X.shape
        lines = [
            self.reason,
            f"  {self.settings['kind']} on {len(self.agents)} agents, X is {n[0]} x {n[1]}",
            f"  {self.steps} steps, {self.rounds} rounds, {self.sent} sent, {self.computed}, "
            f"{self.seconds:.2f} s",
            f"  stationarity {m.stationarity:.1e}, consensus {m.consensus:.1e}, "
            f"feasibility {m.feasibility:.1e}",
            f"  objective {m.objective:.12g}",
        ]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    @property
    def sent(self) -> str:
        """What was sent over all links, in bytes, for people."""
        return _bytes(8 * self.scalars)

    @property
    def computed(self) -> str:
        """What each agent evaluated, for people."""
        text = f"{self.gradients} gradients"
        return f"{text}, {self.minibatches} of mini-batches" if self.minibatches else text

    def summary(self) -> dict[str, Any]:
        """The facts, ready for a JSON file; a number that is not finite is None there."""
        return {
            "algorithm": self.settings["kind"],
            "settings": self.settings,
            "converged": self.converged,
            "reason": self.reason,
            "steps": self.steps,
            "rounds": self.rounds,
            "scalars": self.scalars,
            "gradients": self.gradients,
            "minibatches": self.minibatches,
            "values": self.values,
            "seconds": self.seconds,
            **{k: v if v - v == 0 else None for k, v in self.measures.as_dict().items()},
            "notes": self.notes,
        }

    def plot(self, path: str | Path) -> None:
        """Draw the three measures over the rounds into a picture file."""
        from destiny.run.plots import convergence

        convergence({self.settings["kind"]: self.history}, path)


def _bytes(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
