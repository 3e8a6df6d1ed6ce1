"""Problems by name, for files of settings: what makes one, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

from destiny.problems import olsr, pca, sdl
from destiny.problems.olsr import OLSR
from destiny.problems.pca import PCA
from destiny.problems.sdl import SDL


@dataclass(frozen=True)
class Kind:
    """A kind of problem. Files take the options that its functions have."""

    make: Callable[..., Any]
    """From the agents' shares, p (or targets, which have p rows) and options such as scale."""
    synthetic: Callable[..., Any]
    """From sizes, p, agents and options: random data."""
    example: dict[str, Any]
    """Random data that are solved in seconds, for new files."""
    centered: bool = False
    """Whether its data may be centered and standardized."""
    private: Callable[..., Any] | None = None
    """The problem with noise that hides samples."""

    def takes(self, option: str) -> bool:
        """Whether there is such an option."""
        return option in signature(self.make).parameters


KINDS: dict[str, Kind] = {
    "pca": Kind(
        PCA, pca.synthetic, {"n": 20, "m": 400, "xi": 0.8, "seed": 0}, centered=True, private=pca.private
    ),
    "olsr": Kind(OLSR, olsr.synthetic, {"n": 20, "m": 400, "noise": 0.1, "seed": 0}, centered=True),
    "sdl": Kind(SDL, sdl.synthetic, {"n": 16, "m": 400, "density": 0.1, "seed": 0}),
}
"""Every kind that files may name."""
