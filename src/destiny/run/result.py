"""What a run returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar

from destiny import notebook
from destiny.engines.mixers import PLAIN, Messages
from destiny.protocols import Array
from destiny.run.history import History
from destiny.run.metrics import Measures, sparsity
from destiny.run.plots import convergence


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What `destiny.Result` and the `Outcome` of an agent have in common; ``print`` shows it.

    Attributes
    ----------
    reason : str
        Why the run ended.
    converged : bool
        Whether that means convergence.
    X : ndarray (n, p)
        The answer, polar(mean of the agents' copies).
    axes : ndarray (n, p) or None
        For PCA: the principal axes, largest variance first.
    steps, rounds, seconds
        Iterations, communication rounds, time.
    notes : list of str
        Remarks on the run worth knowing.
    choice : str or None
        Which method was chosen and why, where none was given.
    mean, scale, target_mean : ndarray (n,), (n,) and (p,), or None
        Where data were centered: what was subtracted and divided by.
    """

    reason: str
    converged: bool
    X: Array
    steps: int
    rounds: int
    seconds: float
    axes: Array | None = None
    notes: list[str] = field(default_factory=list)
    choice: str | None = None
    mean: Array | None = field(default=None, repr=False)
    scale: Array | None = field(default=None, repr=False)
    target_mean: Array | None = field(default=None, repr=False)

    def final_measures(self) -> Measures:
        """Objective, stationarity, consensus and feasibility at the end."""
        raise NotImplementedError

    def costs(self) -> list[str]:
        """What the run cost, for people."""
        return [counted(self.steps, "step"), counted(self.rounds, "round")]

    def __str__(self) -> str:
        m = self.final_measures()
        lines = [
            self.reason,
            *self.heading(),
            f"  {', '.join([*self.costs(), f'{self.seconds:.2f} s'])}",
            f"  stationarity {m.stationarity:.1e}, consensus {m.consensus:.1e}, "
            f"feasibility {m.feasibility:.1e}",
            f"  objective {m.objective:.12g}",
            *self.details(),
            *([] if self.choice is None else [f"  {self.choice}"]),
        ]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    def heading(self) -> list[str]:
        """Lines that follow the reason."""
        return []

    def details(self) -> list[str]:
        """Lines that follow the objective."""
        return []

    def arrays(self, names: Iterable[str]) -> dict[str, Array]:
        """Those of some arrays that the outcome has, for solution.npz."""
        return {name: array for name in names if (array := getattr(self, name)) is not None}


@dataclass(frozen=True, kw_only=True)
class Result(RunOutcome):
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
        Where data were centered: what was subtracted from each column of the data, what it was divided by if
        they were standardized, and for OLSR what was subtracted from the targets.
    agents : ndarray (d, n, p)
        The agents' own copies. On MPI, rank 0 has all of them and the other ranks their own.
    measures : Measures
        Objective, stationarity, consensus and feasibility at the end.
    history : History
        One row per measurement of the run that led to the answer.
    steps, rounds, scalars, bytes, seconds
        Iterations, communication rounds, numbers sent over all links and the bytes they took, time without
        measuring; of a square X that was tried with both signs of det X, of both runs together.
    gradients, minibatches, values : int
        What each agent evaluated of its own f_i: full gradients, gradients of mini-batches, values.
    passes : float
        Passes over the data: samples whose gradients were evaluated, by all samples of all agents. As many as
        gradients where there are no mini-batches; NaN where the size of mini-batches is not known.
    measuring : float
        Seconds spent on measuring, since the run was last resumed.
    notes : list of str
        Remarks on the run worth knowing.
    choice : str or None
        Which method was chosen and why, where none was given.
    settings : dict
        The algorithm and its settings.
    message_kind : Messages
        How messages traveled: plain, private, `destiny.Quantized` or of an extension.
    data_bytes, least_bytes : int or None
        To hold ``bytes`` against: all data sent to one agent along the tree, where their number is known; and
        one n x p matrix from every other agent, the least that any method sends.
    interrupted : str or None
        Name of the signal that ended the run, if one did and the caller's handler returned.
    regularizer : str or None
        r of the objective f + r. X is then a proximal step from polar(mean of the agents' copies), with exact
        zeros, and the objective and the stationarity are those of f + r.
    """

    abscissa: ClassVar[str] = "round"
    """What pictures are drawn over."""

    agents: Array
    measures: Measures
    history: History
    scalars: int
    bytes: int
    settings: dict[str, Any]
    interrupted: str | None = None
    measuring: float = 0.0
    state: Any = field(default=None, repr=False)
    gradients: int = 0
    minibatches: int = 0
    values: int = 0
    passes: float = 0.0
    message_kind: Messages = PLAIN
    regularizer: str | None = None
    data_bytes: int | None = None
    least_bytes: int = 0

    @property
    def sparsity(self) -> float:
        """Share of the entries of X that are exactly zero."""
        return sparsity(self.X)

    def details(self) -> list[str]:
        """What the bytes are held against; the regularizer and the zeros of the answer, if there is one."""
        lines = [f"  for comparison, {self.references}"] if self.references else []
        if self.regularizer is not None:
            lines.append(f"  {100 * self.sparsity:.1f} % of the entries of X are zero, by {self.regularizer}")
        return lines

    @property
    def references(self) -> str:
        """What the bytes that were sent are held against, for people; empty for one agent."""
        return describe_references(self.data_bytes, self.least_bytes)

    def final_measures(self) -> Measures:
        """The measures at the end."""
        return self.measures

    def costs(self) -> list[str]:
        """Steps, rounds, what was sent and computed."""
        return [*super().costs(), f"{self.sent} sent", self.computed]

    def heading(self) -> list[str]:
        """The method and the sizes of the problem."""
        n, p = self.X.shape
        how = "" if self.message_kind == PLAIN else f", {self.message_kind}"
        agents = counted(len(self.agents), "agent")
        return [f"  {self.settings['kind']} on {agents}, X is {n} x {p}{how}"]

    @property
    def sent(self) -> str:
        """What was sent over all links, in bytes, for people."""
        return format_bytes(self.bytes)

    @property
    def computed(self) -> str:
        """What each agent evaluated, for people."""
        text = counted(self.gradients, "gradient")
        if not self.minibatches:
            return text
        return f"{text}, {self.minibatches} of mini-batches, {self.passes:.1f} passes over the data"

    def counts(self) -> dict[str, int]:
        """What else was counted, by name, for comparisons; nothing in a run by rounds."""
        return {}

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
            "bytes": self.bytes,
            **({} if self.data_bytes is None else {"data_bytes": self.data_bytes}),
            **({"least_bytes": self.least_bytes} if self.least_bytes else {}),
            "gradients": self.gradients,
            "minibatches": self.minibatches,
            "values": self.values,
            "passes": self.passes if self.passes == self.passes else None,
            "seconds": self.seconds,
            **(
                {}
                if self.regularizer is None
                else {"regularizer": self.regularizer, "sparsity": self.sparsity}
            ),
            **{k: v if v - v == 0 else None for k, v in self.measures.as_dict().items()},
            "notes": self.notes,
            **({} if self.choice is None else {"choice": self.choice}),
            **self.message_kind.keys(),
        }

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        x: str | None = None,
        axes: Sequence[Any] | None = None,
    ) -> Any:
        """Draw the three measures over "round", "scalars", "bytes", "passes" or "seconds"; return the axes.

        By default that is rounds, in simulated time seconds. They are drawn into ``axes``, three matplotlib
        Axes, or a new figure; with a ``path`` it is written there, without one notebooks show it.
        """
        return plot_results({self.settings["kind"]: self}, path, x, axes)

    def _repr_html_(self) -> str:
        m, (n, p) = self.measures, self.X.shape
        rows = [
            ("method", f"{self.settings['kind']}, {counted(len(self.agents), 'agent')}"),
            ("X", f"{n} x {p}"),
            ("cost", ", ".join(self.costs())),
            *([("for comparison", self.references)] if self.references else []),
            ("time", f"{self.seconds:.2f} s"),
            ("stationarity", f"{m.stationarity:.1e}"),
            ("consensus", f"{m.consensus:.1e}"),
            ("feasibility", f"{m.feasibility:.1e}"),
            ("objective", f"{m.objective:.12g}"),
            *([] if self.choice is None else [("choice", self.choice)]),
            *(("note", note) for note in self.notes),
        ]
        return notebook.page(notebook.heading(self.reason), notebook.table(rows))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: 1 step, 2 steps."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def describe_references(data_bytes: float | None, least_bytes: float) -> str:
    """What bytes are held against, for people; empty where nobody sends."""
    if not least_bytes:
        return ""
    least = f"one n x p matrix per agent: {format_bytes(least_bytes)}"
    return least if data_bytes is None else f"all data to one agent: {format_bytes(data_bytes)}; {least}"


def format_bytes(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def plot_results(
    results: Mapping[str, Result],
    path: str | PathLike[str] | None = None,
    x: str | None = None,
    axes: Sequence[Any] | None = None,
) -> Any:
    """Draw results by their labels, as `Result.plot` does."""
    x = x or next((r.abscissa for r in results.values()), Result.abscissa)
    return convergence({label: r.history for label, r in results.items()}, path, x=x, axes=axes)
