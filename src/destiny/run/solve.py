"""`solve`: run an algorithm until a rule stops it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from destiny.engines.team import Engine
from destiny.protocols import (
    Algorithm,
    Array,
    Objective,
    Problem,
    Topology,
)
from destiny.protocols.link import Link
from destiny.run.interrupt import deliver
from destiny.run.messages import Messages
from destiny.run.options import SolveOptions
from destiny.run.prepare import prepare
from destiny.run.result import Result
from destiny.run.stopping import Rule


def solve(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    *,
    start: Array | None = SolveOptions.start,
    seed: int = SolveOptions.seed,
    rounds: int = SolveOptions.rounds,
    seconds: float | None = SolveOptions.seconds,
    tolerance: float = SolveOptions.tolerance,
    decentralised: bool = SolveOptions.decentralised,
    every: int = SolveOptions.every,
    rules: Sequence[Rule] = SolveOptions.rules,
    checkpoint: str | Path | None = SolveOptions.checkpoint,
    checkpoint_every: int = SolveOptions.checkpoint_every,
    resume: bool = SolveOptions.resume,
    engine: Engine | None = SolveOptions.engine,
    progress: bool | None = SolveOptions.progress,
    label: str | None = SolveOptions.label,
    messages: Messages = SolveOptions.messages,
    link: Link = SolveOptions.link,
) -> Result:
    """Minimise (1/d) sum f_i(X), plus r(X) if the problem has a regulariser, subject to X^T X = I.

    The constraint of a `destiny.problems.Generalised` problem is X^T M X = I.

    Parameters
    ----------
    problem : Problem, or a list of d objectives with ``value`` and ``gradient`` (then give ``start``)
        What to minimise, with the data of each agent.
    network : Network or a changing network with as many agents
        Which agents are neighbours, and the weights of their averages.
    algorithm : Algorithm or its kind, optional
        The method; by default the one that is predicted to be fastest, as in `iterate`. `Result.choice` says
        which was chosen and why. `Destiny()`, or "destiny", is the paper's method.
    start : ndarray (n, p) or (d, n, p), optional
        Starting point, as in `iterate`; by default a random one. Without a start, a square X (n = p) is tried
        with both signs of det X, one after the other, unless f is the same for both; the answer is the one
        with the smaller objective.
    seed : int
        Seed of the random start.
    rounds : int
        Largest number of rounds of communication; both signs of det X share it.
    seconds : float, optional
        Longest time of the run; both signs of det X share it.
    tolerance : float
        Converged when stationarity, consensus and feasibility are all below it; 0 means never.
    decentralised : bool
        Let the agents themselves detect convergence and agree on it, from local quantities and messages
        to neighbours, instead of looking at the whole network. All stop after the same step.
    every : int
        Measure every so many steps, and all steps of a method that takes few, as `DestinyNewton`; 0 means
        only at the start and the end.
    rules : sequence of Rule
        Further reasons to stop.
    checkpoint : path, optional
        Folder for checkpoints. They are also written on Ctrl-C and on SIGTERM, which then reach the caller as
        usual.
    checkpoint_every : int
        Number of steps between two checkpoints; 0 means only when interrupted.
    resume : bool
        Continue from the newest checkpoint, to the same bits as without an interruption.
    engine : Engine, optional
        Where the agents live: `destiny.engines.local` (this process, the default) or `destiny.engines.mpi`.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    label : str, optional
        Name of the run in the log and the progress bar; by default the algorithm's kind.
    messages : Messages
        How messages travel: `Messages(private=True)` lets neighbours learn sums only, `Messages(bits=8)`
        makes messages small, `Messages(clip=1)` protects from a neighbour that lies.
    link : Link
        Delay and bandwidth of the links, by which the fastest method is predicted where none is given; by
        default 20 ms and 100 Mbit/s.

    Returns
    -------
    Result
        A run that diverges or reaches a limit returns a result that says so; only invalid arguments and
        signals raise.
    """
    options = SolveOptions(
        start=start,
        seed=seed,
        rounds=rounds,
        seconds=seconds,
        tolerance=tolerance,
        decentralised=decentralised,
        every=every,
        rules=rules,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
        engine=engine,
        progress=progress,
        label=label,
        messages=messages,
        link=link,
    )
    result = prepare(problem, network, algorithm, options).go()
    deliver(result.interrupted)
    return result
