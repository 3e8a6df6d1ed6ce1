"""Decentralised optimisation over the Stiefel manifold.

d agents on a connected network each hold an f_i of their own and together minimise (1/d) sum f_i(X)
subject to X^T X = I_p, talking to their neighbours only.
"""

import logging as _logging
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from destiny import (
    algorithms,
    datasets,
    directions,
    engines,
    lagrangian,
    metrics,
    networks,
    problems,
    steps,
    stiefel,
    stopping,
)
from destiny._version import __version__ as __version__
from destiny.algorithms import Destiny, DestinyMomentum
from destiny.compare import Comparison, compare
from destiny.diagnosis import Diagnosis, diagnose
from destiny.errors import (
    CheckpointError,
    DestinyError,
    MismatchError,
    MissingExtraError,
    NetworkError,
    ProblemError,
    SettingsError,
)
from destiny.history import History
from destiny.problems import check_gradient
from destiny.result import Result
from destiny.run import iterate, solve

_logging.getLogger("destiny").addHandler(
    _logging.NullHandler()
)  # what is logged is the application's to show

__all__ = [
    "CheckpointError",
    "Comparison",
    "Destiny",
    "DestinyError",
    "DestinyMomentum",
    "Diagnosis",
    "History",
    "MismatchError",
    "MissingExtraError",
    "NetworkError",
    "ProblemError",
    "Result",
    "SettingsError",
    "algorithms",
    "check_gradient",
    "compare",
    "datasets",
    "diagnose",
    "directions",
    "engines",
    "iterate",
    "lagrangian",
    "metrics",
    "networks",
    "problems",
    "solve",
    "steps",
    "stiefel",
    "stopping",
]


def __getattr__(name: str) -> _ModuleType:
    """Parts that need an extra are imported when they are first used."""
    if name == "estimators":
        return _import_module("destiny.estimators")
    raise AttributeError(f"module 'destiny' has no attribute {name!r}")
