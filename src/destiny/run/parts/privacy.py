"""What a run has to do with differential privacy: whose messages it needs, and what its result says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from destiny.engines.team import Team
from destiny.errors import SettingsError
from destiny.problems import Privacy
from destiny.problems.pca import PrivatePCA
from destiny.problems.private_part import private_part
from destiny.protocols import Array, Problem
from destiny.run.parts.part import RunPart
from destiny.storage.checkpoint import Saved

if TYPE_CHECKING:
    from destiny.run.plan import Plan

IDENTITY, DIGEST = "privacy of the data", "noise (digest)"  # in a checkpoint


class PrivateData(RunPart):
    """Differentially private data: noise that must be the same on resume, and notes on the answer."""

    noisy: ClassVar[bool] = True

    def __init__(self, part: PrivatePCA) -> None:
        self.part = part

    def check(self, plan: Plan) -> None:
        require_private_messages(self.part.privacy, plan.messages.private)

    def begin(self, plan: Plan, team: Team, saved: Saved | None) -> None:  # noqa: ARG002
        """The noise of centered data is that of another problem."""
        self.part = private_part(plan.solved) or self.part

    def identity(self) -> dict[str, Any]:
        return {IDENTITY: self.part.privacy.settings}

    def facts(self) -> dict[str, Any]:
        return {DIGEST: self.part.source.fingerprint}

    def require_same(self, saved: Saved) -> None:
        """Refuse a checkpoint whose noise cannot be drawn again."""
        before = saved.facts.get("identity", {}).get(IDENTITY)
        if before == self.identity()[IDENTITY] and saved.facts.get(DIGEST) != self.part.source.fingerprint:
            raise saved.refuse(
                "belongs to private data with other noise, whose secret was not kept: give privacy a secret "
                "(the name of a file) before the first run to resume it in another process"
            )

    def remarks(self, X: Array, gradient: Array) -> list[str]:
        """What is private, and which axes may be noise."""
        part, variances = self.part, np.linalg.eigvalsh(-X.T @ gradient)
        notes = [f"differentially private: {part.promise}"]
        if part.privacy.seed is not None:
            notes.append(
                f"the noise comes from seed {part.privacy.seed}, for tests: whoever knows it can subtract "
                "the noise; for privacy leave seed out"
            )
        if (few := int(np.sum(variances <= part.noise_edge))) > 0:
            notes.append(
                f"{few} of {len(variances)} axes have no more variance than the noise alone would give: they "
                "may be noise; take a smaller p, more samples or a larger epsilon"
            )
        return notes


def require_private_messages(privacy: Privacy | None, private: bool) -> None:
    """Refuse noise shared by all agents where neighbors see the messages of one.

    ``private`` says whether the run's messages are private sums.
    """
    if privacy is not None and privacy.noise == "together" and not private:
        raise SettingsError(
            'privacy with noise = "together" needs private messages: each agent adds too little noise for '
            'itself, and its neighbors would see its own messages; use noise = "alone", or '
            'messages = "private"'
        )


def privacy_of(problem: Problem) -> Privacy | None:
    """The privacy of a problem, or of the part of it that has any."""
    part = private_part(problem)
    return None if part is None else part.privacy
