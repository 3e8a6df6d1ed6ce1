"""Mini-batches: which methods and steps take gradients that jump."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from destiny.algorithms import METHODS
from destiny.algorithms.blocks.step_sizes import STEADY
from destiny.errors import MismatchError
from destiny.protocols import Method
from destiny.run.parts.part import RunPart

if TYPE_CHECKING:
    from destiny.run.plan import Plan


class Batches(RunPart):
    """Mini-batches of (size, seed) in each part of a problem."""

    def __init__(self, drawn: Sequence[tuple[int, int]]) -> None:
        self.drawn = drawn

    def check(self, plan: Plan) -> None:
        require_stochastic(plan.algorithm, self.drawn)

    def identity(self) -> dict[str, Any]:
        return {"mini-batches (size, seed)": [list(pair) for pair in self.drawn]}


def require_stochastic(algorithm: Method, drawn: Sequence[tuple[int, int]]) -> None:
    """Refuse mini-batches where gradients that jump would lead a method or its steps astray."""
    about = algorithm.about
    if about is None or not drawn:
        return
    if "stochastic" not in about:
        names = ", ".join(method.kind for method in METHODS if "stochastic" in method.about)
        raise MismatchError(
            f"{about.title} needs full gradients; this problem draws mini-batches of {drawn[0][0]}: choose "
            f"a stochastic method ({names}), or leave batch out"
        )
    if "variance_reduced" not in about and not isinstance(algorithm.step_rule, STEADY):
        names = " or ".join(steady.__name__ for steady in STEADY)
        raise MismatchError(
            f"{about.title} with mini-batches needs a step size that does not look at gradients; found "
            f"{algorithm.step_rule!r}: give step_size, {names}"
        )
