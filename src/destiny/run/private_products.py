"""The sums before the first step in which agents release private products, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.team import Team
from destiny.errors import SettingsError
from destiny.problems.low_rank import LowRank
from destiny.problems.private_part import private_part
from destiny.problems.private_products import STEPS, PrivateProductsPCA
from destiny.protocols import Array, ProblemBase, TopologyBase
from destiny.run.averaging import rounds_to_agree
from destiny.run.messages import Messages
from destiny.storage.checkpoint import Saved

AXES, VALUES = "products/axes", "products/values"  # per agent, in a checkpoint


def products_of(problem: ProblemBase) -> PrivateProductsPCA | None:
    """The part of a problem whose products have noise."""
    part = private_part(problem)
    return part if isinstance(part, PrivateProductsPCA) else None


def find_matrix(problem: ProblemBase, team: Team, saved: Saved | None) -> LowRank | None:
    """Let the agents of a team release their products, where the problem asks for it; its matrix.

    The numbers that travel are whole ones with noise, plus 1/2, and sums of them are exact: nobody learns
    more from a private sum than the sum of these numbers.
    """
    part = products_of(problem)
    if part is None:
        return None
    if saved is not None:
        matrix = _restored(saved, int(team.hosts[0][0]), part)
    else:

        def find(_: None, agents: HostedAgents) -> LowRank:
            def total(release: Callable[[int], Array]) -> Array:
                (sums,) = agents.all_reduce(np.stack([release(i) for i in agents.ids.tolist()]))
                return np.asarray(sums[0])

            return part.find(total)

        matrix = team.each(find, [None] * len(team.hosts))[0]
    part.adopt(matrix)
    return matrix


def arrays(matrix: LowRank | None, ids: Sequence[int]) -> dict[str, Array]:
    """For a checkpoint: what some agents know, agents on axis 0."""
    if matrix is None:
        return {}
    values = np.append(matrix.values, matrix.variance)
    return {name: np.stack([array] * len(ids)) for name, array in ((AXES, matrix.L), (VALUES, values))}


def without_matrix(saved: Saved) -> Saved:
    """A checkpoint without what private products told."""
    own = {name: array for name, array in saved.state.items() if name not in (AXES, VALUES)}
    return replace(saved, state=own)


def _restored(saved: Saved, agent: int, part: PrivateProductsPCA) -> LowRank:
    state, shape = saved.select(np.array([agent])).state, (part.shape[0], part.widths[-1])
    if not {AXES, VALUES} <= set(state) or state[AXES].shape[1:] != shape:
        raise saved.refuse("is damaged: what private products told is missing or has another size")
    *values, variance = state[VALUES][0]
    return LowRank(state[AXES][0], np.array(values), float(variance))


def require_exact_sums(problem: ProblemBase, network: TopologyBase, messages: Messages) -> None:
    """Refuse private products where agents have no exact sums."""
    part = products_of(problem)
    if part is not None and (network.changes or messages.clip):
        raise SettingsError(
            f"private PCA of {part.shape[0]} columns releases sums over all agents, which need a static "
            "network and messages that are not clipped: use such a network, or fewer columns"
        )


def planned_rounds(problem: ProblemBase, network: TopologyBase) -> int:
    """Rounds that the products take."""
    return 0 if products_of(problem) is None else STEPS * (rounds_to_agree(network) or 0)


def largest_message(problem: ProblemBase) -> int:
    """Numbers in the largest message of the products."""
    part = products_of(problem)
    return 0 if part is None else part.shape[0] * max(part.widths) + 1
