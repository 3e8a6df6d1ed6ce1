"""The options of a run and their defaults, for `solve`, experiment files, agents and estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from destiny.engines.team import Engine
from destiny.protocols import Array
from destiny.protocols.link import INTERNET, Link
from destiny.run.messages import PLAIN, Messages
from destiny.run.stopping import Rule


@dataclass(frozen=True)
class SolveOptions:
    """Options of `destiny.solve`, which describes them; the same for every method of a comparison."""

    start: Array | None = None
    seed: int = 0
    rounds: int = 10_000
    seconds: float | None = None
    tolerance: float = 1e-8
    decentralised: bool = False
    every: int = 10
    rules: Sequence[Rule] = ()
    checkpoint: str | Path | None = None
    checkpoint_every: int = 100
    resume: bool = False
    engine: Engine | None = None
    progress: bool | None = None
    label: str | None = None
    messages: Messages = PLAIN
    link: Link = INTERNET
