"""The rounds before the first step in which agents find the mean of their data, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.private_sums import WIDE
from destiny.engines.team import Team
from destiny.problems import Centred
from destiny.problems.centred_problem import CONSTANT
from destiny.problems.data.partition import Shift
from destiny.problems.own_problem import unwrap
from destiny.problems.quadratic import Quadratic
from destiny.protocols import Array, Hosted, ProblemBase, TopologyBase
from destiny.run.averaging import agree, require_seen, rounds_to_agree
from destiny.run.messages import Messages
from destiny.storage.checkpoint import Saved

MEAN, SCALE = "centring/mean", "centring/scale"  # per agent, in a checkpoint
ROUNDS = "centring"  # among the facts of a checkpoint
DWARFED = 0.5  # of what the answer explains: beyond it the mean weighs more than all variance found


@dataclass(frozen=True)
class Centring:
    """What was done to the data before the first step.

    Attributes
    ----------
    asked : Centred
        The problem as it was given.
    problem : Problem
        The problem that is solved.
    shifts : dict
        What each agent of this process subtracts and divides by, by the agent's number.
    rounds : int
        Rounds it took.
    """

    asked: Centred
    problem: ProblemBase
    shifts: dict[int, Shift]
    rounds: int

    def arrays(self, ids: Sequence[int]) -> dict[str, Array]:
        """For a checkpoint: what some agents know, agents on axis 0."""
        return {
            MEAN: np.stack([self.shifts[i].mean for i in ids]),
            SCALE: np.stack([self.shifts[i].scale for i in ids]),
        }

    def report(self, team: Team) -> Report:
        """What a result says of it: the bits of agent 0, in every process."""
        parts = [np.stack([[self.shifts[i].mean, self.shifts[i].scale] for i in ids]) for ids in team.hosts]
        return self.own_report(Shift(*team.gather(parts)[0]))

    def own_report(self, shift: Shift) -> Report:
        """The same of one agent."""
        n = self.asked.widths[0]
        scale = shift.scale[:n] if self.asked.standardise else None
        targets = shift.mean[n:] if len(shift.mean) > n else None
        return Report(shift.mean[:n], scale, targets, self.rounds)


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
            return f"centred: {done} ({spent})"
        return (
            f"standardised: {done}, and each column was divided by its standard deviation unless it is "
            f"constant ({spent})"
        )


def centre(problem: ProblemBase, network: TopologyBase, team: Team, saved: Saved | None) -> Centring | None:
    """Centre the data of a team's agents where the problem asks for it, before they are evaluated."""
    centred = unwrap(problem, Centred)
    if centred is None:
        return None
    workers = [None] * len(team.hosts)
    if saved is None:
        shifts_by_worker = team.each(lambda _, agents: find_shifts(centred, network, agents), workers)
        shifts = {agent: shift for part in shifts_by_worker for agent, shift in part.items()}
        rounds = team.traffic.rounds
    else:
        ids = np.concatenate(team.hosts)
        state = saved.select(ids).state
        if not {MEAN, SCALE} <= set(state) or state[MEAN].shape[1:] != (sum(centred.widths),):
            raise saved.refuse("is damaged: the mean of the data is missing or has another size")
        shifts = {int(i): Shift(m, s) for i, m, s in zip(ids, state[MEAN], state[SCALE], strict=True)}
        rounds = saved.facts[ROUNDS]
    ready = centred.with_shifts(shifts)

    def adopt(_: None, agents: HostedAgents) -> None:
        agents.hosted = ready.host(agents.ids.tolist())

    team.each(adopt, workers)
    return Centring(centred, ready, shifts, rounds)


def without_shifts(saved: Saved) -> Saved:
    """A checkpoint of a centred run with the algorithm's state alone."""
    own = {name: array for name, array in saved.state.items() if name not in (MEAN, SCALE)}
    return replace(saved, state=own)


def find_shifts(problem: Centred, network: TopologyBase, agents: HostedAgents) -> dict[int, Shift]:
    """Averaging rounds: first sums and counts, then squared distances from the mean."""
    ids = agents.ids.tolist()
    totals = [problem.totals(i) for i in ids]
    sums = agree(agents, network, np.stack([t.sums for t in totals]), np.stack([t.sizes for t in totals]))
    shifts = [problem.shift(s, None) for s in sums]
    if problem.standardise:
        own = np.stack([problem.squares(i, s.mean) for i, s in zip(ids, shifts, strict=True)])
        squares = agree(agents, network, own, own)
        if agents.private_sums is not None:
            columns = agents.private_sums.columns
            for q, total, s in zip(own, squares, shifts, strict=True):
                noise = np.square(CONSTANT * s.mean[: len(q)])
                require_seen(q, total * agents.count, noise, columns)
        shifts = [problem.shift(s, q) for s, q in zip(sums, squares, strict=True)]
    return dict(zip(ids, shifts, strict=True))


def mean_share(team: Team, X: Array, gradient: Array) -> float:
    """Of PCA: how much of what an answer ``(n, p)`` explains is the mean of the data and not their variance.

    ``gradient`` is that of the network at X. Out of band, for an observer; 0 where the sums are not known.
    """
    parts = team.each(lambda _, agents: totals_of(agents.hosted), [None] * len(team.hosts))
    known = [part for part in parts if part is not None]
    return share_of(team.mean(known), X, gradient) if known else 0.0


def totals_of(hosted: Hosted) -> Array | None:
    """Sums of the features and numbers of samples of hosted agents ``(agents, n + 1)``, if they are known."""
    return hosted.totals if isinstance(hosted, Quadratic) else None


def share_of(totals: Array, X: Array, gradient: Array) -> float:
    """m ||X^T mean||^2 / tr(X^T C X), from averages over the agents: ``gradient`` is -C X."""
    explained = -float(np.vdot(X, gradient))
    if not explained > 0:
        return 0.0
    return float(np.sum(np.square(X.T @ totals[:-1])) / (totals[-1] * explained))


def uncentred(share: float) -> str | None:
    """A sentence, where the mean hides the variance."""
    if share <= DWARFED:
        return None
    return (
        f"the data are not centred: their mean makes up {100 * share:.0f} % of what the answer explains, so "
        "that its first axis is little else; for the axes of largest variance set center = true in [problem] "
        "(destiny.problems.centred)"
    )


def planned_rounds(problem: ProblemBase, network: TopologyBase) -> int:
    """Rounds that centring takes, as far as they are known beforehand."""
    centred = unwrap(problem, Centred)
    if centred is None:
        return 0
    return (rounds_to_agree(network) or 0) * (2 if centred.standardise else 1)


def centring_settings(problem: ProblemBase) -> dict[str, bool]:
    """Settings of centring that must be equal in all processes of a run; none if there is none."""
    centred = unwrap(problem, Centred)
    return {} if centred is None else centred.settings


def centring_sums(problem: ProblemBase, network: TopologyBase, messages: Messages) -> list[int]:
    """Numbers in a message of each of the averages before the first step: words, where they are private."""
    centred = unwrap(problem, Centred)
    if centred is None:
        return []
    sums = [sum(centred.widths) + 1, *([centred.widths[0]] if centred.standardise else [])]
    if messages.private:  # wide words, and one that shows whether masks cancel
        return [WIDE * count + 1 for count in sums]
    by_sums = network.tree is not None and not messages.clip  # elsewhere sizes are sent along
    return sums if by_sums else [2 * count for count in sums]
