"""What `solve` does after each step: measure, agree, decide, save."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from destiny.engines.hosted import Engine, Team, Traffic
from destiny.errors import MismatchError, SettingsError, is_whole
from destiny.geometry.stiefel import norm, polar, transpose
from destiny.protocols import Algorithm, Array, Problem, Topology
from destiny.run import metrics, square
from destiny.run.centring import ROUNDS, Centring, mean_share, uncentred
from destiny.run.history import COLUMNS, UNCOUNTED, History
from destiny.run.interrupt import Interrupt
from destiny.run.own_network import checked
from destiny.run.result import Result
from destiny.run.stopping import Diverged, Progress, Rounds, Rule, Seconds, Stop, Tolerance, flooding_time
from destiny.storage import checkpoint as checkpoints

ALIKE = (Tolerance, Diverged, Rounds)  # rules that see the same in every process of a run
KNOWN = (*ALIKE, Seconds)
MEASUREMENTS = 8  # fewer of them tell nothing of how a run fares
RISE = 1e-7  # of the objective: above the rounding of values computed in float32
logger = logging.getLogger(__name__)
ROUNDING = 1e-14  # of the largest variance: no variance at all


@dataclass(frozen=True)
class Moment:
    """A run after some step. The state is put together only when it is looked at."""

    step: int
    traffic: Traffic
    seconds: float
    parts: list[Any]
    team: Team
    centring: Centring | None = None
    """What was done to the data before the first step."""

    @property
    def round(self) -> int:
        """Rounds of communication so far."""
        return self.traffic.rounds

    @property
    def scalars(self) -> int:
        """float64 numbers sent over all links so far."""
        return self.traffic.scalars

    @cached_property
    def state(self) -> Any:
        """The algorithm's state, all agents on axis 0; if they live in several processes, all must look."""
        return self.team.join(self.parts)

    @property
    def X(self) -> Array:
        """The agents' iterates ``(d, n, p)``."""
        X: Array = self.state.X
        return X

    @cached_property
    def spread(self) -> metrics.Spread:
        """What the measures ask of the iterates."""
        stacks = [part.X for part in self.parts]
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.team.mean(stacks)
            table = self.team.each(lambda X, _: metrics.Spread.numbers(X, mean), stacks)
        return metrics.Spread(mean, self.team.gather(table))


class Agreement:
    """The decentralised rule: flood the largest local residual of a step until all agents know it.

    Attributes
    ----------
    asked : step of the residuals being flooded, and the round when all know
    agreed : tolerance and reason, once the agents have agreed
    """

    def __init__(self, algorithm: Algorithm[Any], network: Topology, tolerance: float | None) -> None:
        self.algorithm, self.network, self.tolerance = algorithm, network, tolerance
        self.asked: list[int] | None = None
        self.agreed: list[Any] | None = None
        if tolerance is not None and not hasattr(algorithm, "residual"):
            raise MismatchError(
                f"{settings_of(algorithm)['kind']} has no local residual, so its agents cannot agree to stop "
                "by themselves: use decentralised=False, or in an agent's file tolerance = 0"
            )

    def check(self, moment: Moment, cost: int) -> Stop | None:
        """A stop, the same at every agent; ``cost`` is what a step takes in rounds."""
        if self.tolerance is None:
            return None
        if self.agreed is not None and self.agreed[0] <= self.tolerance:  # before this run was resumed
            return Stop(self.agreed[1], True)
        team = moment.team
        if self.asked is not None and moment.round >= self.asked[1]:
            step, self.asked = self.asked[0], None
            if (team.flood <= self.tolerance).all():  # all hold the same number by now, hence decide alike
                reason = (
                    f"converged: every agent's local residual was below {self.tolerance:g} at step {step}, "
                    f"and all agents knew it after step {moment.step}"
                )
                self.agreed = [self.tolerance, reason]
                return Stop(reason, True)
        if self.asked is None and self.tolerance > 0:
            # Where no agent needs to hear from another (d = 1) the answer is known at once, a step later.
            residual: Any = self.algorithm.residual  # type: ignore[attr-defined]
            team.set_flood(team.each(lambda state, _: residual(state), moment.parts))
            heard = max(1, flooding_time(self.network, moment.round)) if cost else 0
            self.asked = [moment.step, moment.round + heard]
        return None


class Drive:
    """What `solve` does after each step: measure, agree, decide, save."""

    def __init__(
        self, algorithm: Algorithm[Any], network: Topology, X: Array, *,
        every: int, folder: Path | None, save_every: int, agree: float | None, rules: list[Rule],
        batches: Sequence[tuple[int, int]] = (), centring: Mapping[str, bool] | None = None,
    ) -> None:  # fmt: skip
        for name, value in (("every", every), ("checkpoint_every", save_every)):
            if not is_whole(value) or value < 0:
                raise SettingsError(f"{name} must be a whole number >= 0; found {value!r}")
        self.algorithm, self.network, self.X = algorithm, network, X
        self.every, self.folder, self.save_every = every, folder, save_every
        self.batches = list(batches)
        self.centring = dict(centring or {})
        self.rules, self.agreement = rules, Agreement(algorithm, network, agree)
        # Rules that look at what is equal in all processes decide alike; for others the leader decides.
        self.alike = all(type(rule) in ALIKE for rule in rules)
        self.signal: str | None = None
        self.settings = settings_of(algorithm)
        self.history = History()
        self.measures: metrics.Measures | None = None
        self.start = 0.0
        self.values: Array = np.empty(0)
        rounds = getattr(getattr(algorithm, "about", None), "rounds", 1)
        self.round_before = 0
        self.cost = int(getattr(algorithm, rounds) if isinstance(rounds, str) else rounds)
        self.notes: list[str] = []
        self.measuring = 0.0
        self.used = (0, 0.0)  # rounds (steps of a method without rounds) and seconds, at the end
        self.symmetric = False  # whether f is the same at mirrored points, at the end of a run of a square X

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
        stop = self.agreement.check(moment, self.cost) or self.ruled(seen, moment.team)
        self.signal = moment.team.noticed(interrupt.name)
        if self.signal is not None and stop is None:
            stop = Stop(f"interrupted by {self.signal} after step {moment.step}")
        due = fresh and self.save_every > 0 and moment.step > 0
        due = due and (moment.step % self.save_every == 0 or stop is not None)
        if self.folder is not None and (due or self.signal is not None):
            self.save(moment)
        if stop is not None and measures is None:
            seen = replace(seen, measures=self.measure(moment))
            if self.signal is None and not stop.converged:  # the last measurement may know better
                stop = self.ruled(seen, moment.team)
        return stop

    def ruled(self, seen: Progress, team: Team) -> Stop | None:
        """The first rule that ends the run."""
        stop = next((stop for rule in self.rules if (stop := rule.check(seen)) is not None), None)
        if self.alike:
            return stop
        told = team.told(None if stop is None else [stop.reason, stop.converged])
        return None if told is None else Stop(*told)

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
        team = moment.team
        mean = team.mean(team.split(self.X))
        self.values = team.values(mean)
        self.start = metrics.reference(team, mean)
        if saved is None:
            return
        values, rows = saved.arrays["values"], saved.arrays["history"]
        if rows.ndim != 2 or rows.shape[1] not in (len(COLUMNS), UNCOUNTED):
            raise saved.refuse("is damaged: its history has other columns")
        if values.shape != self.values.shape or not np.allclose(self.values, values, rtol=1e-10, atol=0.0):
            raise saved.refuse("belongs to other data or another start: the agents' objectives there differ")
        if hasattr(moment.parts[0], "D") and hasattr(moment.parts[0], "H"):
            D, H = ([getattr(part, name) for part in moment.parts] for name in ("D", "H"))
            gap = float(norm(team.mean(D) - team.mean(H)))
            size = float(team.gather([norm(h) for h in H]).mean())
            # Rounding adds up over a run; 1e-8 of the starting gradient is far above it and far below damage.
            if not gap <= 1e-8 * max(self.start, size):
                raise saved.refuse(f"is damaged: mean(D) and mean(H) differ by {gap:.1e}")
        self.history = History.from_array(saved.arrays["history"])
        self.agreement.asked, self.agreement.agreed = saved.facts["asked"], saved.facts["agreed"]
        self.cost = saved.facts["cost"]
        if "gradients" not in saved.facts:
            self.notes.append(
                f"gradients are counted from step {moment.step} on: the checkpoint before has no count"
            )

    def measure(self, moment: Moment) -> metrics.Measures:
        """One row of the history."""
        clock = time.perf_counter()
        measured = metrics.measure(moment.team, moment.spread, self.start)
        self.measures = metrics.Measures(**moment.team.told(measured.as_dict()))
        self.history.add(
            step=moment.step, round=moment.round, scalars=moment.scalars, seconds=moment.seconds,
            **self.measures.as_dict(), **moment.traffic.evaluations(),
        )  # fmt: skip
        self.measuring += time.perf_counter() - clock
        logger.debug("step %d, round %d: %s", moment.step, moment.round, self.measures)
        return self.measures

    def facts(self) -> dict[str, Any]:
        """What all processes of a run must have been told alike, beyond `identity`."""
        return {
            "measuring": self.every, "checkpoints": [self.folder is not None, self.save_every],
            "stopping": [repr(rule) if type(rule) in KNOWN else type(rule).__name__ for rule in self.rules],
            "tolerance of the agents": self.agreement.tolerance,
        }  # fmt: skip

    def identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be this run's."""
        return {
            "shape": list(self.X.shape),
            # The network first: settings may follow from it.
            "network": checkpoints.network_digest(checked(self.network)),
            "settings": self.settings,
            **({"mini-batches (size, seed)": self.batches} if self.batches else {}),
            **({"centring of the data": self.centring} if self.centring else {}),
        }

    def save(self, moment: Moment) -> None:
        """Write a checkpoint of this moment."""
        assert self.folder is not None
        arrays = {"history": self.history.as_array(), "values": self.values}
        if self.agreement.asked is not None:
            arrays["flood"] = moment.team.gather([moment.team.flood])
        facts = {
            "step": moment.step, **moment.traffic.facts(), "seconds": moment.seconds,
            "asked": self.agreement.asked, "agreed": self.agreement.agreed, "cost": self.cost,
            **self.identity(),
        }  # fmt: skip
        state = checkpoints.flatten(moment.team.own(moment.parts))
        if moment.centring is not None:
            state |= moment.centring.arrays(np.concatenate(moment.team.hosts).tolist())
            facts[ROUNDS] = moment.centring.rounds
        moment.team.save(self.folder, checkpoints.Saved(state, arrays, facts))
        if moment.team.leader:
            logger.info("checkpoint of step %d written to %s", moment.step, self.folder)

    def claim(self) -> None:
        """Refuse a checkpoint folder that cannot be used, or that another run would lose."""
        assert self.folder is not None
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingsError(f"checkpoint must be a folder; {self.folder} is a file")
        if checkpoints.found(self.folder):
            raise SettingsError(
                f"checkpoint folder {self.folder} holds another run: resume it, or choose another folder"
            )

    def find_saved(self, engine: Engine) -> checkpoints.Saved | None:
        """The newest checkpoint, if there is one; refused if it is of another run."""
        if self.folder is None:
            raise SettingsError("resume needs a checkpoint folder to look in: give checkpoint")
        saved, self.notes = engine.newest(self.folder, len(self.X))
        if saved is not None:
            # Through JSON, as the saved facts went: tuples become lists.
            for name, mine in json.loads(json.dumps(self.identity())).items():
                if saved.facts.get(name) != mine:
                    raise saved.refuse(
                        f"belongs to another run: its {name} is {saved.facts.get(name)}, this run's is {mine}"
                    )
        return saved

    def spend(self, other: Drive, least: int) -> bool:
        """Leave this run what another one has left of its limits; False if that is too little to begin."""
        rounds, seconds = other.used
        left: list[Rule] = []
        for rule in self.rules:
            if isinstance(rule, Rounds):
                if rule.limit - rounds < max(1, least):
                    return False
                rule = Rounds(rule.limit - rounds)
            elif isinstance(rule, Seconds):
                if rule.limit <= seconds:
                    return False
                rule = Seconds(rule.limit - seconds)
            left.append(rule)
        self.rules = left
        return True

    def compare_halves(self, moment: Moment, X: Array) -> None:
        """Find out what a run from the mirrored start of a square X could add, and what it may use."""
        team = moment.team
        rounds = moment.round if self.cost else moment.step
        points = [team.mean(team.split(self.X)), *([X] if np.isfinite(X).all() else [])]
        found = team.told([rounds, moment.seconds, square.symmetric(team, points)])
        self.used, self.symmetric = (found[0], found[1]), found[2]

    @property
    def rise(self) -> str | None:
        """What to say of an objective that is larger at the end than at the start, beyond rounding."""
        before, after = (float(self.history["objective"][k]) for k in (0, -1))
        if self.batches or not after - before > RISE * max(abs(before), abs(after)):
            return None
        return (
            f"the objective rose from {before:.6g} to {after:.6g}: this may be a maximum or a saddle; test "
            "your gradients with destiny.check_gradient, or choose another start"
        )

    @property
    def outlook(self) -> str | None:
        """What to say of a run that is out of rounds: how its measures fared in the second half of them."""
        tolerance = next((r.limit for r in self.rules if isinstance(r, Tolerance)), 0.0)
        rounds = self.history["round"]
        worst = np.max([self.history[name] for name in ("stationarity", "consensus", "feasibility")], axis=0)
        half = int(np.searchsorted(rounds, rounds[-1] / 2))
        before, after, over = float(worst[half]), float(worst[-1]), rounds[-1] - rounds[half]
        if tolerance == 0 or len(rounds) < MEASUREMENTS or not (np.isfinite(worst[half:]).all() and over > 0):
            return None
        if after > 0.5 * before:
            return (
                f"the largest measure has not halved in the last {over:.0f} rounds: more of them may not help"
            )
        more = over * np.log(after / tolerance) / np.log(before / after)
        return (
            f"the largest measure fell from {before:.1e} to {after:.1e} in the last {over:.0f} rounds: at "
            f"that rate about {float(f'{more:.2g}'):.0f} more would do"
        )

    def result(self, moment: Moment, stop: Stop, problem: Problem) -> Result:
        """Everything a user may want to know."""
        assert self.measures is not None
        team, finite, mean = moment.team, moment.spread.finite, moment.spread.mean
        X = polar(mean) if finite else np.full_like(mean, np.nan)
        axes, notes = None, list(self.notes)
        if finite and getattr(problem, "kind", None) == "pca":
            gradient = team.gradient(X)
            axes, share = rayleigh_ritz(X, gradient)
            tolerance = next((r.limit for r in self.rules if isinstance(r, Tolerance)), 0.0)
            doubt = unseen_variance(share, gradient, tolerance or self.agreement.tolerance or 0.0)
            if stop.converged and doubt is not None:
                notes.append(doubt)
            if moment.centring is None and (found := uncentred(mean_share(team, X, gradient))) is not None:
                notes.append(found)
        report = None if moment.centring is None else moment.centring.report(team)
        if report is not None:
            notes.insert(0, str(report))
        if moment.step == 0 and stop.converged:
            notes.append("the start is stationary already: if it is a saddle, choose another one")
        if stop.converged and (rise := self.rise) is not None:
            notes.append(rise)
        if stop.reason.startswith("out of") and (outlook := self.outlook) is not None:
            notes.append(outlook)
        if mean.shape[0] == mean.shape[1]:
            self.compare_halves(moment, X)
        if finite and hasattr(self.algorithm, "remarks"):
            notes += self.algorithm.remarks(moment.state, np.arange(problem.agents), stop.converged)
        return Result(
            stop.reason, stop.converged, X, team.collect([part.X for part in moment.parts]),
            self.measures, self.history,
            moment.step, moment.round, moment.scalars, moment.seconds, self.settings,
            axes, notes, self.signal, self.measuring, team.own(moment.parts),
            mean=None if report is None else report.mean, scale=None if report is None else report.scale,
            target_mean=None if report is None else report.target_mean,
            gradients=moment.traffic.gradients, minibatches=moment.traffic.minibatches,
            values=moment.traffic.values,
        )  # fmt: skip


def rayleigh_ritz(X: Array, gradient: Array) -> tuple[Array, float]:
    """Principal axes in span(X), largest variance first, and the smallest variance as a share of the largest.

    They come from the eigenvectors of X^T C X = -X^T grad f(X), p x p.
    """
    variances, V = np.linalg.eigh(-transpose(X) @ gradient)
    return np.asarray(X @ V[:, ::-1]), float(variances[0] / (variances[-1] or 1.0))


def unseen_variance(share: float, gradient: Array, tolerance: float) -> str | None:
    """A note if the smallest variance, this share of the largest, is too small for its axis to be right.

    Data of fewer than p dimensions have no variance to find. What tells them from features in very different
    units, whose variance is lost in rounding, are the rows of the gradient: one for each feature.
    """
    if ROUNDING < share < 100 * tolerance:
        return (
            f"a variance is {share:.0e} of the largest, which the tolerance does not see: its axis may be "
            "wrong; scale the features, or lower the tolerance"
        )
    rows = norm(gradient[:, None])
    rows = rows[rows > ROUNDING * rows.max()]
    if share > ROUNDING or not rows.size or rows.min() > np.sqrt(ROUNDING) * rows.max():
        return None
    return (
        f"a variance is less than {ROUNDING:.0e} of the largest, which rounding hides, and features have "
        "very different scales: its axis may be wrong; scale the features"
    )


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
