"""What Byzantine agents add to the package: the key clip of [messages]."""

from __future__ import annotations

from collections.abc import Mapping

from destiny.extensions.byzantine.clipped import Clipped
from destiny.registry import Extension, Key


class ByzantineExtension(Extension):
    """Clipped messages."""

    def message_keys(self) -> Mapping[str, Key]:
        meaning = (
            "neighbours of an agent that may lie; the answer is then approximate; the same at all agents"
        )
        return {"clip": Key(int, meaning, Clipped.from_key)}


EXTENSION = ByzantineExtension()
