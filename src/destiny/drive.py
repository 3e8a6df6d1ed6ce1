"""What `solve` does after each step: measure, agree, decide, save."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from destiny import checkpoint as checkpoints
from destiny import metrics
from destiny.engines.local import LocalTeam
from destiny.errors import SettingsError, is_whole
from destiny.history import History
from destiny.interrupt import Interrupt
from destiny.result import Result
from destiny.stiefel import polar, transpose
from destiny.stopping import Progress, Rule, Stop, flooding_time
from destiny.types import Algorithm, Array, Problem, Topology


@dataclass(frozen=True)
class Moment:
    """A run after some step. The state is put together only when it is looked at."""

    step: int
    round: int
    scalars: int
    seconds: float
    parts: list[Any]
    team: LocalTeam

    @cached_property
    def state(self) -> Any:
        """The algorithm's state, all agents on axis 0."""
        return self.team.join(self.parts)

    @property
    def X(self) -> Array:
        """The agents' iterates ``(d, n, p)``."""
        X: Array = self.state.X
        return X


class Drive:
    """What `solve` does after each step: measure, agree, decide, save."""

    def __init__(
        self, algorithm: Algorithm[Any], network: Topology, X: Array, *,
        every: int, folder: Path | None, save_every: int, agree: float | None, rules: list[Rule],
    ) -> None:  # fmt: skip
        for name, value in (("every", every), ("checkpoint_every", save_every)):
            if not is_whole(value) or value < 0:
                raise SettingsError(f"{name} must be a whole number >= 0; found {value!r}")
        self.algorithm, self.network, self.X = algorithm, network, X
        self.every, self.folder, self.save_every = every, folder, save_every
        self.rules, self.agree = rules, agree
        self.settings = settings_of(algorithm)
        self.history = History()
        self.measures: metrics.Measures | None = None
        self.start = 0.0
        self.values: Array = np.empty(0)
        about = getattr(algorithm, "about", None)
        self.round_before, self.cost = 0, 0 if getattr(about, "rounds", 1) == 0 else 1
        self.asked: list[int] | None = None  # step of the residuals being flooded, round when all know
        self.agreed: list[Any] | None = None  # tolerance and reason, once the agents have agreed
        self.notes: list[str] = []
        if agree is not None and not hasattr(algorithm, "residual"):
            raise SettingsError(
                f"{self.settings['kind']} has no local residual, so its agents cannot agree to stop "
                "by themselves: use decentralised=False"
            )

    def look(self, moment: Moment, saved: checkpoints.Saved | None, interrupt: Interrupt) -> Stop | None:
        """Everything that happens after a step."""
        if self.values.size == 0:
            self.begin(moment, saved)
        fresh = saved is None or moment.step > saved.facts["step"]
        due = moment.step == 0 or (self.every > 0 and moment.step % self.every == 0)
        measures = self.measure(moment) if due and fresh else self.remembered(moment)
        if fresh and moment.step > 0:
            self.cost = moment.round - self.round_before
        seen = Progress(moment.step, moment.round, moment.seconds, self.cost, measures)
        self.round_before = moment.round
        stop = self.agreement(moment) or self.ruled(seen)
        if interrupt.name is not None and stop is None:
            stop = Stop(f"interrupted by {interrupt.name} after step {moment.step}")
        due = fresh and self.save_every > 0 and moment.step > 0
        due = due and (moment.step % self.save_every == 0 or stop is not None)
        if self.folder is not None and (due or interrupt.name is not None):
            self.save(moment)
        if stop is not None and measures is None:
            seen = replace(seen, measures=self.measure(moment))
            if interrupt.name is None and not stop.converged:  # the last measurement may know better
                stop = self.ruled(seen)
        return stop

    def ruled(self, seen: Progress) -> Stop | None:
        """The first rule that ends the run."""
        return next((stop for rule in self.rules if (stop := rule.check(seen)) is not None), None)

    def remembered(self, moment: Moment) -> metrics.Measures | None:
        """The measures of this step if they were taken already."""
        if len(self.history) == 0 or self.history.last["step"] != moment.step:
            return None
        self.measures = metrics.Measures(
            **{k: self.history.last[k] for k in metrics.Measures.__annotations__}
        )
        return self.measures

    def begin(self, moment: Moment, saved: checkpoints.Saved | None) -> None:
        """The references of the start, from the start itself or from a checkpoint that must match it."""
        mean = self.X.mean(axis=0)
        self.values = moment.team.values(mean)
        self.start = metrics.reference(moment.team, self.X)
        if saved is None:
            return
        values, rows = saved.arrays["values"], saved.arrays["history"]
        if rows.ndim != 2 or rows.shape[1] != len(self.history.columns):
            raise saved.refuse("is damaged: its history has other columns")
        if values.shape != self.values.shape or not np.allclose(self.values, values, rtol=1e-10, atol=0.0):
            raise saved.refuse("belongs to other data or another start: the agents' objectives there differ")
        state = moment.state
        if hasattr(state, "D") and hasattr(state, "H"):
            gap = float(np.linalg.norm(state.D.mean(axis=0) - state.H.mean(axis=0)))
            # Rounding adds up over a run; 1e-8 of the starting gradient is far above it and far below damage.
            if not gap <= 1e-8 * max(self.start, float(np.linalg.norm(state.H, axis=(1, 2)).mean())):
                raise saved.refuse(f"is damaged: mean(D) and mean(H) differ by {gap:.1e}")
        self.history = History.from_array(saved.arrays["history"])
        self.asked, self.agreed, self.cost = (saved.facts[name] for name in ("asked", "agreed", "cost"))

    def measure(self, moment: Moment) -> metrics.Measures:
        """One row of the history."""
        self.measures = metrics.measure(moment.team, moment.X, self.start)
        self.history.add(
            step=moment.step, round=moment.round, scalars=moment.scalars, seconds=moment.seconds,
            **self.measures.as_dict(),
        )  # fmt: skip
        return self.measures

    def agreement(self, moment: Moment) -> Stop | None:
        """The decentralised rule: flood the largest local residual of a step until all agents know it."""
        if self.agree is None:
            return None
        if self.agreed is not None and self.agreed[0] <= self.agree:  # before this run was resumed
            return Stop(self.agreed[1], True)
        team = moment.team
        if self.asked is not None and moment.round >= self.asked[1]:
            step, self.asked = self.asked[0], None
            if (team.flood <= self.agree).all():  # all hold the same number by now, hence decide alike
                reason = (
                    f"converged: every agent's local residual was below {self.agree:g} at step {step}, "
                    f"and all agents knew it after step {moment.step}"
                )
                self.agreed = [self.agree, reason]
                return Stop(reason, True)
        if self.asked is None and self.agree > 0:
            # Where no agent needs to hear from another (d = 1) the answer is known at once, a step later.
            team.set_flood(self.algorithm.residual(moment.state))  # type: ignore[attr-defined]
            heard = max(1, flooding_time(self.network, moment.round)) if self.cost else 0
            known = moment.round + heard
            self.asked = [moment.step, known]
        return None

    def identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be this run's."""
        return {
            "shape": list(self.X.shape),
            "settings": self.settings,
            "network": checkpoints.network_digest(self.network),
        }

    def save(self, moment: Moment) -> None:
        """Write a checkpoint of this moment."""
        assert self.folder is not None
        arrays = {"history": self.history.as_array(), "values": self.values}
        if self.asked is not None:
            arrays["flood"] = moment.team.flood
        facts = {
            "step": moment.step, "round": moment.round, "scalars": moment.scalars, "seconds": moment.seconds,
            "asked": self.asked, "agreed": self.agreed, "cost": self.cost, **self.identity(),
        }  # fmt: skip
        checkpoints.save(self.folder, checkpoints.Saved(checkpoints.flatten(moment.state), arrays, facts))

    def claim(self) -> None:
        """Refuse a checkpoint folder that cannot be used, or that another run would lose."""
        assert self.folder is not None
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingsError(f"checkpoint must be a folder; {self.folder} is a file")
        if any(self.folder.glob("checkpoint-*.npz")):
            raise SettingsError(
                f"checkpoint folder {self.folder} holds another run: resume it, or choose another folder"
            )

    def find_saved(self) -> checkpoints.Saved | None:
        """The newest checkpoint, if there is one; refused if it is of another run."""
        if self.folder is None:
            raise SettingsError("resume needs a checkpoint folder to look in: give checkpoint")
        saved, self.notes = checkpoints.newest(self.folder)
        if saved is not None:
            # Through JSON, as the saved facts went: tuples become lists.
            for name, mine in json.loads(json.dumps(self.identity())).items():
                if saved.facts.get(name) != mine:
                    raise saved.refuse(
                        f"belongs to another run: its {name} is {saved.facts.get(name)}, this run's is {mine}"
                    )
        return saved

    def result(self, moment: Moment, stop: Stop, problem: Problem, interrupt: Interrupt) -> Result:
        """Everything a user may want to know."""
        assert self.measures is not None
        finite = bool(np.isfinite(moment.X).all())
        mean = moment.X.mean(axis=0)
        X = polar(mean) if finite else np.full_like(mean, np.nan)
        axes = None
        if finite and getattr(problem, "kind", None) == "pca":
            axes = rayleigh_ritz(X, moment.team.gradient(X))
        notes = list(self.notes)
        if moment.step == 0 and stop.converged:
            notes.append("the start is stationary already: if it is a saddle, choose another one")
        if finite and hasattr(self.algorithm, "remarks"):
            notes += self.algorithm.remarks(moment.state, np.arange(problem.agents))
        return Result(
            stop.reason, stop.converged, X, moment.X, self.measures, self.history,
            moment.step, moment.round, moment.scalars, moment.seconds, self.settings,
            axes, notes, interrupt.name, moment.state,
        )  # fmt: skip


def rayleigh_ritz(X: Array, gradient: Array) -> Array:
    """Principal axes in span(X), largest variance first: eigenvectors of X^T C X = -X^T grad f(X), p x p."""
    _, V = np.linalg.eigh(-transpose(X) @ gradient)
    return np.asarray(X @ V[:, ::-1])


def settings_of(algorithm: Any) -> dict[str, Any]:
    """Kind and settings of an algorithm, ready for a JSON file."""
    found: dict[str, Any] = {"kind": getattr(algorithm, "kind", type(algorithm).__name__)}
    if dataclasses.is_dataclass(algorithm):
        for field in dataclasses.fields(algorithm):
            value = getattr(algorithm, field.name)
            if isinstance(value, np.generic):
                value = value.item()
            found[field.name] = settings_of(value) if dataclasses.is_dataclass(value) else value
    return found
