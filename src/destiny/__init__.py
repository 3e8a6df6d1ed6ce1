"""Decentralized optimization over the Stiefel manifold.

d agents on a connected network each hold an f_i of their own and together minimize (1/d) sum f_i(X)
subject to X^T X = I_p, talking to their neighbors only.
"""

import logging as _logging
import sys as _sys
from importlib import import_module as _import_module
from importlib.machinery import ModuleSpec as _ModuleSpec
from typing import TYPE_CHECKING

from destiny._version import __version__ as __version__
from destiny.errors import (
    CheckpointError,
    DestinyError,
    MismatchError,
    MissingExtraError,
    NetworkError,
    PrivacyError,
    ProblemError,
    SettingsError,
)

_logging.getLogger("destiny").addHandler(
    _logging.NullHandler()
)  # what is logged is the application's to show

__all__ = [
    "AveragedKrylov",
    "AveragedLBFGS",
    "AveragedModel",
    "CheckpointError",
    "Comparison",
    "Destiny",
    "DestinyAccelerated",
    "DestinyError",
    "DestinyProx",
    "Diagnosis",
    "History",
    "Link",
    "MismatchError",
    "MissingExtraError",
    "NetworkError",
    "PrivacyError",
    "ProblemError",
    "Quantized",
    "Result",
    "SettingsError",
    "Silos",
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

if TYPE_CHECKING:
    from destiny import agents as agents
    from destiny import algorithms, datasets, engines, networks, problems
    from destiny import diagnosis as diagnosis
    from destiny import errors as errors
    from destiny import estimators as estimators
    from destiny import experiments as experiments
    from destiny import extensions as extensions
    from destiny import geometry as geometry
    from destiny import protocols as protocols
    from destiny import report as report
    from destiny import run as run
    from destiny.algorithms import (
        AveragedKrylov,
        AveragedLBFGS,
        AveragedModel,
        Destiny,
        DestinyAccelerated,
        DestinyProx,
    )
    from destiny.algorithms.blocks import step_sizes as steps
    from destiny.diagnosis import Diagnosis, diagnose
    from destiny.engines.mixers import Quantized
    from destiny.experiments.compare import Comparison, compare
    from destiny.geometry import directions, lagrangian, stiefel
    from destiny.problems import check_gradient
    from destiny.problems.data import Silos
    from destiny.protocols.link import Link
    from destiny.run import metrics, stopping
    from destiny.run import plots as plots
    from destiny.run.history import History
    from destiny.run.loop import iterate
    from destiny.run.result import Result
    from destiny.run.solve import solve
else:
    # Imported when first used: a script or command waits for what it needs, nothing else.
    _ROOMS = (
        "agents",
        "algorithms",
        "datasets",
        "diagnosis",
        "engines",
        "errors",
        "estimators",
        "experiments",
        "extensions",
        "geometry",
        "networks",
        "problems",
        "protocols",
        "report",
        "run",
    )
    _MODULES = {room: f"destiny.{room}" for room in _ROOMS} | {
        "directions": "destiny.geometry.directions",
        "lagrangian": "destiny.geometry.lagrangian",
        "metrics": "destiny.run.metrics",
        "plots": "destiny.run.plots",
        "steps": "destiny.algorithms.blocks.step_sizes",
        "stiefel": "destiny.geometry.stiefel",
        "stopping": "destiny.run.stopping",
    }
    _HOMES = {
        "Comparison": "destiny.experiments.compare",
        "Destiny": "destiny.algorithms",
        "AveragedKrylov": "destiny.algorithms",
        "AveragedLBFGS": "destiny.algorithms",
        "DestinyAccelerated": "destiny.algorithms",
        "AveragedModel": "destiny.algorithms",
        "DestinyProx": "destiny.algorithms",
        "Diagnosis": "destiny.diagnosis",
        "History": "destiny.run.history",
        "Link": "destiny.protocols.link",
        "Quantized": "destiny.engines.mixers",
        "Result": "destiny.run.result",
        "Silos": "destiny.problems.data",
        "check_gradient": "destiny.problems",
        "compare": "destiny.experiments.compare",
        "diagnose": "destiny.diagnosis",
        "iterate": "destiny.run.loop",
        "solve": "destiny.run.solve",
    }

    _ALIASES = {f"{__name__}.{name}": home for name, home in _MODULES.items()}

    class _PublicNames:
        """Import `destiny.stopping` and others by the name that `__getattr__` gives them."""

        @staticmethod
        def find_spec(name, path=None, target=None):  # noqa: ARG004
            return _ModuleSpec(name, _PublicNames) if _ALIASES.get(name, name) != name else None

        @staticmethod
        def create_module(spec):
            module = _import_module(_ALIASES[spec.name])
            spec.loader_state = module.__spec__
            return module

        @staticmethod
        def exec_module(module):
            module.__spec__ = module.__spec__.loader_state  # it is the same module, under its own name too

    _sys.meta_path.append(_PublicNames)

    def __getattr__(name):
        if name in _MODULES:
            value = _import_module(_MODULES[name])
        elif name in _HOMES:
            value = getattr(_import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module 'destiny' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *_MODULES, *_HOMES})
