"""Centering: rounds before the first step in which agents find the mean of their data, and what becomes of
it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers.plain import Messages
from destiny.engines.mixers.private import WIDE
from destiny.engines.team import Team
from destiny.errors import MismatchError
from destiny.problems import Centered
from destiny.problems.centered_problem import CONSTANT
from destiny.problems.data.partition import Shift
from destiny.protocols import Array, TopologyBase
from destiny.run.averaging import agree, require_seen, rounds_to_agree
from destiny.run.parts.part import Outcome, RunPart
from destiny.storage.checkpoint import Saved

if TYPE_CHECKING:
    from destiny.run.loop import Moment
    from destiny.run.plan import Plan

MEAN, SCALE = "centering/mean", "centering/scale"  # per agent, in a checkpoint
ROUNDS = "centering"  # among the facts of a checkpoint


class Centering(RunPart):
    """The agents find the mean of all data, and solve the problem of centered data.

    Parameters
    ----------
    asked : Centered
        The problem as it was given.

    Attributes
    ----------
    shifts : dict
        What each agent of this process subtracts and divides by, by the agent's number.
    spent : int
        Rounds it took.
    """

    task: ClassVar[str] = "find the mean"

    def __init__(self, asked: Centered) -> None:
        self.asked = asked
        self.shifts: dict[int, Shift] = {}
        self.spent = 0

    def check(self, plan: Plan) -> None:
        """Rough averages will not do."""
        if not plan.messages.exact:
            raise MismatchError(
                f"centering needs the exact mean of all data, which {plan.messages} do not give: center the "
                "data beforehand, or use plain messages"
            )

    def rounds(self, plan: Plan) -> int:
        """One sum for the mean, another for the standard deviations."""
        return (rounds_to_agree(plan.network) or 0) * (2 if self.asked.standardize else 1)

    def sums(self, plan: Plan) -> list[int]:
        """Sums of all columns and the number of samples, then sums of squares."""
        return centering_sums(self.asked, plan.network, plan.messages)

    def begin(self, plan: Plan, team: Team, saved: Saved | None) -> None:
        """Find the mean, or take it from a checkpoint; the agents evaluate centered data from here on."""
        workers = [None] * len(team.hosts)
        if saved is None:
            found = team.each(lambda _, agents: find_shifts(self.asked, plan.network, agents), workers)
            self.shifts = {agent: shift for part in found for agent, shift in part.items()}
            self.spent = team.traffic.rounds
        else:
            self._restore(saved, team)
        self.solved = ready = self.asked.with_shifts(self.shifts)
        team.each(lambda _, agents: agents.evaluate(ready.host(agents.ids.tolist())), workers)

    def _restore(self, saved: Saved, team: Team) -> None:
        ids = np.concatenate(team.hosts)
        state = saved.select(ids).state
        if not {MEAN, SCALE} <= set(state) or state[MEAN].shape[1:] != (sum(self.asked.widths),):
            raise saved.refuse("is damaged: the mean of the data is missing or has another size")
        rows = zip(ids.tolist(), state[MEAN], state[SCALE], strict=True)
        self.shifts = {i: Shift(mean, scale) for i, mean, scale in rows}
        self.spent = saved.facts[ROUNDS]

    def identity(self) -> dict[str, Any]:
        return {"centering of the data": dict(self.asked.settings)}

    def arrays(self, team: Team) -> dict[str, Array]:
        ids = np.concatenate(team.hosts).tolist()
        return {
            MEAN: np.stack([self.shifts[i].mean for i in ids]),
            SCALE: np.stack([self.shifts[i].scale for i in ids]),
        }

    def facts(self) -> dict[str, Any]:
        return {ROUNDS: self.spent}

    def add_to(self, result: Outcome, moment: Moment) -> Outcome:
        """What was subtracted and divided by: the bits of agent 0, in every process."""
        team = moment.team
        parts = [np.stack([[self.shifts[i].mean, self.shifts[i].scale] for i in ids]) for ids in team.hosts]
        report = self.report(Shift(*team.first(parts)))
        return replace(
            result,
            mean=report.mean,
            scale=report.scale,
            target_mean=report.target_mean,
            notes=[str(report), *result.notes],
        )

    def report(self, shift: Shift) -> Report:
        """What a result says of a shift."""
        n = self.asked.widths[0]
        scale = shift.scale[:n] if self.asked.standardize else None
        targets = shift.mean[n:] if len(shift.mean) > n else None
        return Report(shift.mean[:n], scale, targets, self.spent)


@dataclass(frozen=True)
class Report:
    """What was subtracted and divided by, and the rounds it took to find it; see `destiny.Result`."""

    mean: Array
    scale: Array | None
    target_mean: Array | None
    rounds: int

    def __str__(self) -> str:
        spent = f"{self.rounds} round{'s' * (self.rounds != 1)}"
        done = f"the mean of {len(self.mean)} columns was subtracted"
        if self.target_mean is not None:
            done += f", of {len(self.target_mean)} targets too"
        if self.scale is None:
            return f"centered: {done} ({spent})"
        return (
            f"standardized: {done}, and each column was divided by its standard deviation unless it is "
            f"constant ({spent})"
        )


def find_shifts(problem: Centered, network: TopologyBase, agents: HostedAgents) -> dict[int, Shift]:
    """Averaging rounds: first sums and counts, then squared distances from the mean."""
    ids = agents.ids.tolist()
    totals = [problem.totals(i) for i in ids]
    sums = agree(agents, network, np.stack([t.sums for t in totals]), np.stack([t.sizes for t in totals]))
    shifts = [problem.shift(s, None) for s in sums]
    if problem.standardize:
        own = np.stack([problem.squares(i, s.mean) for i, s in zip(ids, shifts, strict=True)])
        squares = agree(agents, network, own, own)
        if agents.bounded:  # words of private messages have a least number
            for q, total, s in zip(own, squares, shifts, strict=True):
                noise = np.square(CONSTANT * s.mean[: len(q)])
                require_seen(q, total * agents.count, noise, agents.columns)
        shifts = [problem.shift(s, q) for s, q in zip(sums, squares, strict=True)]
    return dict(zip(ids, shifts, strict=True))


def centering_sums(problem: Centered, network: TopologyBase, messages: Messages) -> list[int]:
    """Numbers in a message of each of the averages before the first step: words, where they are private."""
    sums = [sum(problem.widths) + 1, *([problem.widths[0]] if problem.standardize else [])]
    if messages.private:  # wide words, and one that shows whether masks cancel
        return [WIDE * count + 1 for count in sums]
    by_sums = network.tree is not None and messages.exact  # elsewhere sizes are sent along
    return sums if by_sums else [2 * count for count in sums]
