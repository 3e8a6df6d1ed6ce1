"""One family of methods per file; a method is a frozen dataclass of settings with ``init`` and ``step``."""

from typing import Any

from destiny.algorithms.accelerated import DestinyAccelerated
from destiny.algorithms.admm_pca import ADMMPCA
from destiny.algorithms.averaged.krylov import AveragedKrylov
from destiny.algorithms.averaged.lbfgs import AveragedLBFGS
from destiny.algorithms.averaged.model import AveragedModel
from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.algorithms.cdadt import CDADT
from destiny.algorithms.deepca import DeEPCA
from destiny.algorithms.destiny import Destiny
from destiny.algorithms.destiny_prox import DestinyProx
from destiny.algorithms.dgd import DGD
from destiny.algorithms.extra import ExactDiffusion, Extra, PGExtra
from destiny.algorithms.faps import FAPS
from destiny.algorithms.feasible import MultiplierCorrection, WenYin
from destiny.algorithms.gradient_tracking import ATC, DRFGT, DIGing
from destiny.algorithms.nonsmooth import DRSM, Thanos
from destiny.algorithms.penalty import PCAL, PLAM, ExPen, Landing, PenCF
from destiny.algorithms.pymanopt import Pymanopt
from destiny.algorithms.riemannian import DPRGD, DPRGT, DRGTA, DRSGD
from destiny.algorithms.sanger import ADSA, DSA, FastPCA
from destiny.algorithms.slpg import SLPG
from destiny.algorithms.vrsgt import VRSGT

METHODS: tuple[type[Any], ...] = (
    Destiny,
    DestinyAccelerated,
    AveragedModel,
    AveragedKrylov,
    AveragedLBFGS,
    DestinyProx,
    CDADT,
    Thanos,
    VRSGT,
    DIGing,
    ATC,
    DRFGT,
    Extra,
    ExactDiffusion,
    DGD,
    DRGTA,
    DRSGD,
    DRSM,
    DPRGT,
    DPRGD,
    PGExtra,
    DSA,
    ADSA,
    FastPCA,
    DeEPCA,
    FAPS,
    ADMMPCA,
    PLAM,
    PCAL,
    PenCF,
    ExPen,
    Landing,
    WenYin,
    MultiplierCorrection,
    SLPG,
    Pymanopt,
)
"""Every method. Adding one makes it a ``kind`` in experiment files and adds it to tests and docs."""

KINDS: dict[str, type[Any]] = {method.kind: method for method in METHODS}
"""Methods by their names in experiment files."""

__all__ = [
    "ADMMPCA",
    "ADSA",
    "ATC",
    "CDADT",
    "DGD",
    "DPRGD",
    "DPRGT",
    "DRFGT",
    "DRGTA",
    "DRSGD",
    "DRSM",
    "DSA",
    "FAPS",
    "KINDS",
    "METHODS",
    "PCAL",
    "PLAM",
    "SLPG",
    "VRSGT",
    "About",
    "AveragedKrylov",
    "AveragedLBFGS",
    "AveragedModel",
    "DIGing",
    "DeEPCA",
    "Destiny",
    "DestinyAccelerated",
    "DestinyProx",
    "ExPen",
    "ExactDiffusion",
    "Extra",
    "FastPCA",
    "Landing",
    "MultiplierCorrection",
    "PGExtra",
    "PenCF",
    "Pymanopt",
    "Thanos",
    "TrackingState",
    "WenYin",
]
