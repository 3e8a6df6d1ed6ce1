"""One method per file: a frozen dataclass of settings with ``init`` and ``step``."""

from typing import Any

from destiny.algorithms.destiny import Destiny, DestinyState

KINDS: dict[str, type[Any]] = {method.kind: method for method in (Destiny,)}

__all__ = ["KINDS", "Destiny", "DestinyState"]
