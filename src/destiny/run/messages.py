"""How agents tell their neighbours what they have to tell: an option of every run."""

from __future__ import annotations

from dataclasses import dataclass

from destiny.engines.quantisation import FULL, TYPES
from destiny.errors import SettingsError
from destiny.validation import is_whole


@dataclass(frozen=True)
class Messages:
    """How messages travel.

    Parameters
    ----------
    private : bool
        Every agent learns sums over all agents, and nothing else about the others' data. Methods that average
        over neighbours are refused. The sums are of integers, so the last digits differ from those of plain
        messages, and are the same wherever the agents live. Agents of organisations mask what they send; in
        one process, or between ranks of MPI, numbers travel as they are. docs/privacy.md says who learns
        what.
    bits : 8, 16 or 64
        Of a number in a message. With 8 or 16, agents send rounded differences from what they have sent
        before: as good as whole numbers of 64 bits once a run converges, in an eighth or a quarter of the
        bytes. Only on networks that stay, and not together with ``private``. docs/howto/small-messages.md
        has what that does to rounds and bytes.
    clip : int
        Neighbours of an agent that may lie. An agent then lets no neighbour pull it further than all but so
        many of the farthest do. The answer is approximate, and a run never claims to have converged; agents
        need twice as many neighbours and one more. Neither with ``private`` nor with few ``bits``.
        docs/liars.md has what that protects, and what it costs.
    """

    private: bool = False
    bits: int = FULL
    clip: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.private, bool):
            raise SettingsError(f"private must be True or False; found {self.private!r}")
        if isinstance(self.bits, bool) or self.bits not in (*TYPES, FULL):
            raise SettingsError(f"bits must be {', '.join(map(str, TYPES))} or {FULL}; found {self.bits!r}")
        if self.private and self.few_bits:
            raise SettingsError(
                f"private sums need messages of {FULL} bits, in which masks cancel; found {self.bits} bits: "
                "leave bits out, or private"
            )

        if not is_whole(self.clip) or self.clip < 0:
            raise SettingsError(f"clip must be a whole number >= 0; found {self.clip!r}")
        if self.clip and self.private:
            raise SettingsError(
                f"clip = {self.clip} compares neighbours' messages, which private sums hide: leave one of "
                "them out"
            )
        if self.clip and self.few_bits:
            raise SettingsError(
                f"clip = {self.clip} needs numbers of {FULL} bits, as clipped differences do not add up; "
                f"found {self.bits} bits: leave one of them out"
            )

    @property
    def few_bits(self) -> bool:
        """Whether numbers are rounded."""
        return self.bits != FULL

    def __str__(self) -> str:
        if self.few_bits:
            return f"messages of {self.bits} bits"
        if self.clip:
            return f"messages clipped for {self.clip} liar{'s' * (self.clip > 1)} among an agent's neighbours"
        return "private sums" if self.private else "plain messages"


PLAIN = Messages()


def checked_messages(messages: object) -> Messages:
    """The option itself; raises SettingsError if it is something else."""
    if not isinstance(messages, Messages):
        raise SettingsError(f"messages must be destiny.Messages(...); found {messages!r}")
    return messages
