"""The sums before the first step in which agents release private products, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers.private import WIDE
from destiny.engines.team import Team
from destiny.errors import SettingsError
from destiny.problems.low_rank import LowRank
from destiny.problems.private_part import private_part
from destiny.problems.private_products import STEPS, PrivateProductsPCA
from destiny.protocols import Array, Problem
from destiny.run.averaging import rounds_to_agree
from destiny.run.parts.part import RunPart
from destiny.storage.checkpoint import Saved

if TYPE_CHECKING:
    from destiny.run.plan import Plan

AXES, VALUES = "products/axes", "products/values"  # per agent, in a checkpoint


class PrivateProducts(RunPart):
    """The agents release products with noise; the matrix that follows takes the place of their data.

    The numbers that travel are whole ones with noise, plus 1/2, and sums of them are exact: nobody learns
    more from a private sum than the sum of these numbers.
    """

    task: ClassVar[str] = "release private products"

    def __init__(self, products: PrivateProductsPCA) -> None:
        self.products = products
        self.matrix: LowRank | None = None

    def check(self, plan: Plan) -> None:
        """Refuse networks and messages without exact sums."""
        if plan.network.changes or not plan.messages.exact:
            raise SettingsError(
                f"private PCA of {self.products.shape[0]} columns releases sums over all agents, which need "
                "a static network and messages that are not clipped: use such a network, or fewer columns"
            )

    def rounds(self, plan: Plan) -> int:
        """One sum for each product."""
        return STEPS * (rounds_to_agree(plan.network) or 0)

    def sums(self, plan: Plan) -> list[int]:
        """The products, and in the first sum the total variance."""
        n = self.products.shape[0]
        counts = [n * width + (step == 0) for step, width in enumerate(self.products.widths)]
        return [WIDE * count + 1 for count in counts] if plan.messages.private else counts

    def begin(self, plan: Plan, team: Team, saved: Saved | None) -> None:
        """Release the products of the data, centered or not, or take the matrix from a checkpoint."""
        products = self.products = products_of(plan.solved) or self.products

        def find(_: None, agents: HostedAgents) -> LowRank:
            def total(release: Callable[[int], Array]) -> Array:
                (sums,) = agents.all_reduce(np.stack([release(i) for i in agents.ids.tolist()]))
                return np.asarray(sums[0])

            return products.find(total)

        if saved is None:
            self.matrix = team.each(find, [None] * len(team.hosts))[0]
        else:
            self.matrix = self._restored(saved, int(team.hosts[0][0]))
        products.adopt(self.matrix)

    def _restored(self, saved: Saved, agent: int) -> LowRank:
        state = saved.select(np.array([agent])).state
        shape = (self.products.shape[0], self.products.widths[-1])
        if not {AXES, VALUES} <= set(state) or state[AXES].shape[1:] != shape:
            raise saved.refuse("is damaged: what private products told is missing or has another size")
        *values, variance = state[VALUES][0]
        return LowRank(state[AXES][0], np.array(values), float(variance))

    def arrays(self, team: Team) -> dict[str, Array]:
        """What all agents know, once for each."""
        matrix, count = self.matrix, sum(map(len, team.hosts))
        if matrix is None:
            return {}
        values = np.append(matrix.values, matrix.variance)
        return {name: np.stack([array] * count) for name, array in ((AXES, matrix.L), (VALUES, values))}


def products_of(problem: Problem) -> PrivateProductsPCA | None:
    """The part of a problem whose products have noise."""
    part = private_part(problem)
    return part if isinstance(part, PrivateProductsPCA) else None
