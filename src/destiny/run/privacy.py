"""What a run has to do with differential privacy: whose messages it needs, and what its result says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from destiny.errors import SettingsError
from destiny.problems import Privacy
from destiny.problems.private_part import private_part
from destiny.protocols import Array, Problem
from destiny.storage.checkpoint import Saved

IDENTITY, DIGEST = "privacy of the data", "noise (digest)"  # in a checkpoint


def require_private_messages(privacy: Privacy | None, private: bool) -> None:
    """Refuse noise shared by all agents where neighbours see the messages of one.

    ``private`` says whether the run's messages are private sums.
    """
    if privacy is not None and privacy.noise == "together" and not private:
        raise SettingsError(
            'privacy with noise = "together" needs private messages: each agent adds too little noise for '
            'itself, and its neighbours would see its own messages; use noise = "alone", or '
            "destiny.Messages(private=True)"
        )


def privacy_of(problem: Problem) -> Privacy | None:
    """The privacy of a problem, or of the part of it that has any."""
    part = private_part(problem)
    return None if part is None else part.privacy


def identity(problem: Problem) -> dict[str, Any]:
    """What a checkpoint must agree on: the settings, and that the noise is the same."""
    part = private_part(problem)
    return {} if part is None else {**part.privacy.settings, DIGEST: part.source.fingerprint}


def require_same_noise(saved: Saved, noise: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose noise cannot be drawn again."""
    before = saved.facts.get(IDENTITY, {})
    if {**before, DIGEST: None} == {**noise, DIGEST: None} and before.get(DIGEST) != noise.get(DIGEST):
        raise saved.refuse(
            "belongs to private data with other noise, whose secret was not kept: give privacy a secret (the "
            "name of a file) before the first run to resume it in another process"
        )


def remarks(problem: Problem, X: Array, gradient: Array) -> list[str]:
    """Notes on an answer X ``(n, p)`` to private data, from the mean gradient there; none on other data."""
    part = private_part(problem)
    if part is None:
        return []
    variances = np.linalg.eigvalsh(-X.T @ gradient)
    notes = [f"differentially private: {part.promise}"]
    if part.privacy.seed is not None:
        notes.append(
            f"the noise comes from seed {part.privacy.seed}, for tests: whoever knows it can subtract the "
            "noise; for privacy leave seed out"
        )
    if (few := int(np.sum(variances <= part.noise_edge))) > 0:
        notes.append(
            f"{few} of {len(variances)} axes have no more variance than the noise alone would give: they may "
            "be noise; take a smaller p, more samples or a larger epsilon"
        )
    return notes
