"""What a run will send and what neighbours learn from it, found out without sending anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers import Messages, Private
from destiny.engines.silent_agents import SilentAgents, silent
from destiny.problems import Centred
from destiny.problems.private_part import private_part
from destiny.problems.quadratic import Quadratic
from destiny.protocols import AlgorithmBase, Array, Hosted, ProblemBase, TopologyBase
from destiny.run.parts.privacy import privacy_of

if TYPE_CHECKING:
    from destiny.run.solve import Run

BYTES = 8  # of a number in a message: float64


def silent_step(
    problem: ProblemBase,
    network: TopologyBase,
    algorithm: AlgorithmBase,
    X: Array,
    agent: int,
    messages: Messages,
) -> SilentAgents:
    """A start at X ``(n, p)`` and a step of one agent that talks to nobody, for the sizes of messages."""
    n, p = problem.shape
    if private_part(problem) is not None:  # noise is drawn for what is sent, and for nothing else
        hosted: Hosted = Quadratic.from_grams([np.diag(np.arange(1.0, n + 1))], (n, p), factor=-0.5)
    else:  # before the mean is known the data will do as they are: a message has the same size
        hosted = (problem.problem if isinstance(problem, Centred) else problem).host([agent])
    mixer = messages.mixer(1, network.agents)
    agents = HostedAgents([agent], hosted, network, None, mixer)  # type: ignore[arg-type]
    quiet = silent(agents)
    with np.errstate(all="ignore"):
        algorithm.step(algorithm.init(X[None], quiet), quiet)
    return quiet


def sentences(run: Run) -> list[str]:
    """How many rounds a run may take, and how much it sends in each of them."""
    limit, messages = run.options.rounds, run.options.messages
    sent = silent_step(run.plan.problem, run.plan.network, run.plan.algorithm, run.plan.X[0], 0, messages)
    about = run.plan.algorithm.about
    totals, a_sum = about is not None and "totals" in about, max(1, run.plan.algorithm.rounds_per_step)
    message = f"up to {amount(sent.largest, sent.bytes)}"
    lines = [f"in a round every agent sends each neighbour {message}"]
    if totals:
        lines = [f"in a sum, {a_sum} rounds, {message} go each way over every link of the spanning tree"]
    for part in run.plan.parts:
        if (first := part.largest_message()) > 0:
            lines[0] += f"; to {part.task}, {amount(first, BYTES * first)}"
    before = f", of which {run.plan.opening} come before the first step" if run.plan.opening else ""
    lines.append(
        f"the number of rounds is not known beforehand (destiny doctor predicts it): at most {limit}{before}"
        f"; over one link that is at most {size(limit // (a_sum if totals else 1) * sent.bytes)} each way"
    )
    if run.plan.choice is not None:
        lines.insert(0, f"chosen, as {run.plan.choice.reason}")
    if about is not None and about.averaged and not messages.private:
        lines.append(f"in plain messages an agent tells neighbours {about.averaged}")
    return lines


def disclosure(problem: ProblemBase, network: TopologyBase, messages: Messages) -> list[str]:
    """What agents let each other know, in sentences."""
    if messages.private:
        lines = [private_disclosure(network)]
    else:
        lines = [
            f"{messages}: each neighbour learns all numbers that an agent sends; data are not among them, "
            "but something about the data follows from them (docs/privacy.md)"
        ]
        if Private().obstacle(network) is None and not messages.few_bits:
            lines[0] += "; with private = true in [messages] agents learn sums over all agents only"
    privacy = privacy_of(problem)
    if privacy is not None:
        lines.append(f"differentially private: {privacy}")
    return lines


def private_disclosure(network: TopologyBase) -> str:
    """What agents learn from private messages."""
    return (
        f"private messages: every agent learns sums over all {network.agents} agents, and nothing else about "
        "another agent's data"
    )


def amount(numbers: int, bytes: int) -> str:
    """A number of numbers, with the bytes they take."""
    return f"{numbers:,} numbers ({size(bytes)})"


def size(count: float) -> str:
    """A number of bytes in words."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.3g} {unit}"
