"""Networks in which some agents lie: messages that bound what they do, and attacks to try them on."""

from destiny.extensions.byzantine.attacks import Byzantine
from destiny.extensions.byzantine.clipped import Clipped

__all__ = ["Byzantine", "Clipped"]
