"""Networks in which some agents lie: messages that bound what they do, and attacks to try them on."""

from destiny.extensions.byzantine.attacks import Byzantine
from destiny.extensions.byzantine.clipped import Clipped
from destiny.registry import Extension, Key

__all__ = ["EXTENSION", "Byzantine", "Clipped"]


class ByzantineExtension(Extension):
    """The key clip of [messages]."""

    def message_keys(self) -> dict[str, Key]:
        meaning = "neighbors of an agent that may lie; the answer is then approximate; the same at all agents"
        return {"clip": Key(int, meaning, Clipped.from_key)}


EXTENSION = ByzantineExtension()
