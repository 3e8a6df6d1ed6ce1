"""How agents tell their neighbours what they have to tell: an option of every run."""

from __future__ import annotations

from dataclasses import dataclass

from destiny.engines.quantisation import FULL, TYPES
from destiny.errors import SettingsError


@dataclass(frozen=True)
class Messages:
    """How messages travel.

    Parameters
    ----------
    private : bool
        Every agent learns the weighted sum of its neighbours' messages, not the messages. The sums are exact
        integers, so the last digits differ from those of plain messages, and are the same wherever the agents
        live. Agents of organisations mask what they send; in one process, or between ranks of MPI, where
        there is nobody to hide from, numbers travel as they are. docs/privacy.md says who learns what.
    bits : 8, 16 or 64
        Of a number in a message. With 8 or 16, agents send rounded differences from what they have sent
        before: as good as whole numbers of 64 bits once a run converges, in an eighth or a quarter of the
        bytes. Only on networks that stay, and not together with ``private``. docs/howto/small-messages.md
        has what that does to rounds and bytes.
    """

    private: bool = False
    bits: int = FULL

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

    @property
    def few_bits(self) -> bool:
        """Whether numbers are rounded."""
        return self.bits != FULL

    def __str__(self) -> str:
        if self.few_bits:
            return f"messages of {self.bits} bits"
        return "private sums" if self.private else "plain messages"


PLAIN = Messages()


def checked_messages(messages: object) -> Messages:
    """The option itself; raises SettingsError if it is something else."""
    if not isinstance(messages, Messages):
        raise SettingsError(f"messages must be destiny.Messages(...); found {messages!r}")
    return messages
