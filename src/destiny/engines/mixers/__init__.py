"""How numbers of agents become numbers of the network: a file for each kind of messages."""

from destiny.engines.mixers.plain import PLAIN, Messages, Mixer, as_messages, from_keys, message_keys
from destiny.engines.mixers.private import Private
from destiny.engines.mixers.quantized import Quantized

__all__ = [
    "PLAIN",
    "Messages",
    "Mixer",
    "Private",
    "Quantized",
    "as_messages",
    "from_keys",
    "message_keys",
]
