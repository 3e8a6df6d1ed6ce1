"""The contract of parts: what a feature of a problem or an option adds to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from destiny.engines.hosted import HostedAgents
from destiny.engines.team import Team
from destiny.geometry.generalized import MassMatrix
from destiny.protocols import Array, ProblemBase
from destiny.storage.checkpoint import Saved

if TYPE_CHECKING:
    from destiny.run.interrupt import Interrupt
    from destiny.run.loop import Moment
    from destiny.run.plan import Plan
    from destiny.run.result import Result, RunOutcome
    from destiny.run.solve import Run

Outcome = TypeVar("Outcome", bound="RunOutcome")


class RunPart:
    """What a feature adds to a run: by default nothing. One object serves one run; `parts_of` collects them.

    Attributes
    ----------
    task : str
        What its rounds before the first step are for: "find the mean".
    solved : ProblemBase or None
        The problem whose objectives the agents evaluate, if it is another than the one that was given.
    mass : MassMatrix or None
        M of the constraint X^T M X = I, for observers.
    """

    task: ClassVar[str] = ""
    solved: ProblemBase | None = None
    mass: MassMatrix | None = None
    noisy: ClassVar[bool] = False
    """Whether noise was added to the data."""

    def check(self, plan: Plan) -> None:
        """Refuse what does not go together, before anything is computed."""

    def rounds(self, plan: Plan) -> int:  # noqa: ARG002
        """Rounds before the first step, as far as they are known."""
        return 0

    def sums(self, plan: Plan) -> list[int]:  # noqa: ARG002
        """Numbers in a message of each average of these rounds: words, where messages are private."""
        return []

    def begin(self, plan: Plan, team: Team, saved: Saved | None) -> None:
        """Before the first step, or the first after the checkpoint ``saved``."""

    def start(self, plan: Plan, X: Array, agents: HostedAgents) -> Array:  # noqa: ARG002
        """The first iterates of hosted agents, from the common start; not called after a checkpoint."""
        return X

    def identity(self) -> dict[str, Any]:
        """What must be equal in all processes of a run, and in a checkpoint to resume it."""
        return {}

    def require_same(self, saved: Saved) -> None:
        """Refuse a checkpoint in words of its own; its `identity` is compared afterwards."""

    def arrays(self, team: Team) -> dict[str, Array]:  # noqa: ARG002
        """For a checkpoint: arrays with the agents of this process on axis 0; names have a slash."""
        return {}

    def facts(self) -> dict[str, Any]:
        """For a checkpoint: numbers and words."""
        return {}

    def remarks(self, X: Array, gradient: Array) -> list[str]:  # noqa: ARG002
        """Notes on the answer X ``(n, p)``, with the mean gradient there."""
        return []

    def add_to(self, result: Outcome, moment: Moment) -> Outcome:  # noqa: ARG002
        """The result with what it has to say of the run; the team is still there."""
        return result

    def twin(self, plan: Plan) -> tuple[str, Plan] | None:  # noqa: ARG002
        """A second run, from another start, with the name of its folder; `conclude` starts it."""
        return None

    def conclude(self, result: Result, run: Run, interrupt: Interrupt) -> Result:  # noqa: ARG002
        """The result, once the team is closed."""
        return result
