"""What a run will send and what neighbors learn from it, found out without sending anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers import Messages, Private
from destiny.engines.silent_agents import SilentAgents, silent
from destiny.problems import Centered
from destiny.problems.own_problem import unwrap
from destiny.problems.private_part import private_part
from destiny.protocols import AlgorithmBase, Array, Hosted, ProblemBase, TopologyBase

if TYPE_CHECKING:
    from destiny.run.solve import Run

BYTES = 8  # of a number in a message: float64
CENTERED = "sums of columns and number of rows"
STANDARDIZED = "sums of squared distances from the mean of each column"
ALWAYS = ("the answer", "how many agents are not done")


def silent_step(
    problem: ProblemBase,
    network: TopologyBase,
    algorithm: AlgorithmBase,
    X: Array,
    agent: int,
    messages: Messages,
) -> SilentAgents:
    """A start at X ``(n, p)`` and a step of one agent that talks to nobody, for the sizes of messages."""
    private = private_part(problem)
    if private is not None:  # noise is drawn for what is sent, and for nothing else
        hosted: Hosted = private.stand_in()
    else:  # before the mean is known the data will do as they are: a message has the same size
        centered = unwrap(problem, Centered)
        hosted = (problem if centered is None else centered.inner).host([agent])
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
    lines = [f"in a round every agent sends each neighbor {message}"]
    if totals:
        lines = [f"in a sum, {a_sum} rounds, {message} go each way over every link of the spanning tree"]
    most = limit // (a_sum if totals else 1) * sent.bytes
    for part in run.plan.parts:
        if sums := part.sums(run.plan):
            lines[0] += f"; to {part.task}, {amount(max(sums), BYTES * max(sums))}"
            most += BYTES * sum(sums)
    before = f", of which {run.plan.opening} come before the first step" if run.plan.opening else ""
    lines.append(
        f"the number of rounds is not known beforehand (destiny doctor predicts it): at most {limit}{before}"
        f"; over one link that is at most {size(most)} each way"
    )
    if run.plan.choice is not None:
        lines.insert(0, f"chosen, as {run.plan.choice.reason}")
    if messages.private:
        learned = totals_learned(run.plan.problem, run.plan.algorithm)
        lines.append(f"the totals that all agents learn: {learned}")
    elif about is not None and about.averaged:
        lines.append(f"in plain messages an agent tells neighbors {about.averaged}")
    return lines


def disclosure(problem: ProblemBase, network: TopologyBase, messages: Messages) -> list[str]:
    """What agents let each other know, in sentences."""
    if messages.private:
        lines = [private_disclosure(network)]
    else:
        lines = [
            f"{messages}: each neighbor learns all numbers that an agent sends; data are not among them, "
            "but something about the data follows from them (docs/privacy.md)"
        ]
        if Private().obstacle(network) is None and not messages.few_bits:
            lines[0] += "; with private = true in [messages] agents learn sums over all agents only"
    private = private_part(problem)
    if private is not None:
        lines.append(f"differentially private: {private.promise}")
    return lines


def totals_learned(problem: ProblemBase, algorithm: AlgorithmBase) -> str:
    """All totals that agents learn from private messages, in words; docs/privacy.md has the same."""
    totals = []
    if (centered := unwrap(problem, Centered)) is not None:
        totals.append(CENTERED)
        totals += [STANDARDIZED] if centered.standardize else []
    about = algorithm.about
    totals.append((about.learned if about is not None else "") or f"whatever {algorithm.kind} sums")
    return "; ".join([*totals, *ALWAYS])


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
