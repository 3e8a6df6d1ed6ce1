"""One method per file: a frozen dataclass of settings with ``init`` and ``step``."""

from typing import Any

from destiny.algorithms.admm_pca import ADMMPCA
from destiny.algorithms.adsa import ADSA
from destiny.algorithms.atc import ATC
from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.algorithms.cdadt import CDADT
from destiny.algorithms.deepca import DeEPCA
from destiny.algorithms.destiny import Destiny
from destiny.algorithms.destiny_prox import DestinyProx
from destiny.algorithms.dgd import DGD
from destiny.algorithms.diging import DIGing
from destiny.algorithms.dprgd import DPRGD
from destiny.algorithms.dprgt import DPRGT
from destiny.algorithms.drcgd import DRCGD
from destiny.algorithms.drfgt import DRFGT
from destiny.algorithms.drgta import DRGTA
from destiny.algorithms.drsgd import DRSGD
from destiny.algorithms.drsm import DRSM
from destiny.algorithms.dsa import DSA
from destiny.algorithms.exact_diffusion import ExactDiffusion
from destiny.algorithms.expen import ExPen
from destiny.algorithms.extra import Extra
from destiny.algorithms.faps import FAPS
from destiny.algorithms.fast_pca import FastPCA
from destiny.algorithms.krylov import DestinyKrylov
from destiny.algorithms.landing import Landing
from destiny.algorithms.lbfgs import DestinyLBFGS
from destiny.algorithms.momentum import DestinyMomentum
from destiny.algorithms.multiplier_correction import MultiplierCorrection
from destiny.algorithms.newton import DestinyNewton
from destiny.algorithms.pcal import PCAL
from destiny.algorithms.pencf import PenCF
from destiny.algorithms.pg_extra import PGExtra
from destiny.algorithms.plam import PLAM
from destiny.algorithms.pymanopt import Pymanopt
from destiny.algorithms.slpg import SLPG
from destiny.algorithms.thanos import Thanos
from destiny.algorithms.vrsgt import VRSGT
from destiny.algorithms.wen_yin import WenYin

METHODS: tuple[type[Any], ...] = (
    Destiny,
    DestinyMomentum,
    DestinyNewton,
    DestinyKrylov,
    DestinyLBFGS,
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
    DRCGD,
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
    "DRCGD",
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
    "DIGing",
    "DeEPCA",
    "Destiny",
    "DestinyKrylov",
    "DestinyLBFGS",
    "DestinyMomentum",
    "DestinyNewton",
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
