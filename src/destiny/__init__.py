"""Decentralised optimisation over the Stiefel manifold.

d agents on a connected network each hold an f_i of their own and together minimise (1/d) sum f_i(X)
subject to X^T X = I_p, talking to their neighbours only.
"""

import logging as _logging
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from destiny import algorithms, datasets, engines, networks, problems
from destiny._version import __version__ as __version__
from destiny.algorithms import Destiny, DestinyMomentum
from destiny.algorithms.blocks import step_sizes as steps
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
from destiny.experiments.compare import Comparison, compare
from destiny.geometry import directions, lagrangian, stiefel
from destiny.problems import check_gradient
from destiny.run import metrics, stopping
from destiny.run import plots as plots
from destiny.run.history import History
from destiny.run.result import Result
from destiny.run.solve import iterate, solve

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
