"""How long messages take: the two numbers by which times are predicted, an option of every run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from destiny.errors import SettingsError


@dataclass(frozen=True)
class Link:
    """A link between two agents, as far as it decides which method is fastest.

    Nothing is measured: where a run names no link, predictions are for the defaults, which are those of
    agents at different places on the Internet. Where all agents are in one building, or process, the delay is
    smaller and short messages matter less.

    Parameters
    ----------
    delay : float
        Seconds that a message of no length takes, one way.
    bandwidth : float
        Megabits that the link carries in a second, each way.
    """

    delay: float = 0.02
    bandwidth: float = 100.0

    def __post_init__(self) -> None:
        for name, unit, least in (("delay", "of seconds >= 0", True), ("bandwidth", "of Mbit/s > 0", False)):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not number or value < 0 or (value == 0 and not least):
                raise SettingsError(f"{name} must be a number {unit}; found {value!r}")

    def seconds(self, rounds: int, numbers: int) -> float:
        """The time of so many rounds, in which so many numbers of 64 bits follow each other over the link."""
        return rounds * self.delay + 64 * numbers / (1e6 * self.bandwidth)

    def __str__(self) -> str:
        return f"links of {1000 * self.delay:g} ms and {self.bandwidth:g} Mbit/s"


INTERNET = Link()


def checked_link(link: object) -> Link:
    """The option itself; raises SettingsError if it is something else."""
    if not isinstance(link, Link):
        raise SettingsError(f"link must be destiny.Link(...); found {link!r}")
    return link
