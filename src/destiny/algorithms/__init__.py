"""One method per file: a frozen dataclass of settings with ``init`` and ``step``."""

from typing import Any

from destiny.algorithms.admm_pca import ADMMPCA
from destiny.algorithms.adsa import ADSA
from destiny.algorithms.atc import ATC
from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.algorithms.deepca import DeEPCA
from destiny.algorithms.destiny import Destiny
from destiny.algorithms.dgd import DGD
from destiny.algorithms.diging import DIGing
from destiny.algorithms.dprgd import DPRGD
from destiny.algorithms.dprgt import DPRGT
from destiny.algorithms.drcgd import DRCGD
from destiny.algorithms.drfgt import DRFGT
from destiny.algorithms.drgta import DRGTA
from destiny.algorithms.drsgd import DRSGD
from destiny.algorithms.dsa import DSA
from destiny.algorithms.exact_diffusion import ExactDiffusion
from destiny.algorithms.expen import ExPen
from destiny.algorithms.extra import Extra
from destiny.algorithms.fast_pca import FastPCA
from destiny.algorithms.landing import Landing
from destiny.algorithms.momentum import DestinyMomentum
from destiny.algorithms.pcal import PCAL
from destiny.algorithms.pencf import PenCF
from destiny.algorithms.pg_extra import PGExtra
from destiny.algorithms.plam import PLAM
from destiny.algorithms.pymanopt import Pymanopt
from destiny.algorithms.rf_extra import RFExtra
from destiny.algorithms.wen_yin import WenYin

METHODS: tuple[type[Any], ...] = (
    Destiny,
    DestinyMomentum,
    DIGing,
    ATC,
    DRFGT,
    Extra,
    RFExtra,
    ExactDiffusion,
    DGD,
    DRGTA,
    DRSGD,
    DPRGT,
    DPRGD,
    DRCGD,
    PGExtra,
    DSA,
    ADSA,
    FastPCA,
    DeEPCA,
    ADMMPCA,
    PLAM,
    PCAL,
    PenCF,
    ExPen,
    Landing,
    WenYin,
    Pymanopt,
)
"""Every method; one more name here makes it a ``kind`` in experiment files, tests it and documents it."""

KINDS: dict[str, type[Any]] = {method.kind: method for method in METHODS}
"""The same by the name they have in experiment files."""

__all__ = [
    "ADMMPCA",
    "ADSA",
    "ATC",
    "DGD",
    "DPRGD",
    "DPRGT",
    "DRCGD",
    "DRFGT",
    "DRGTA",
    "DRSGD",
    "DSA",
    "KINDS",
    "METHODS",
    "PCAL",
    "PLAM",
    "About",
    "DIGing",
    "DeEPCA",
    "Destiny",
    "DestinyMomentum",
    "ExPen",
    "ExactDiffusion",
    "Extra",
    "FastPCA",
    "Landing",
    "PGExtra",
    "PenCF",
    "Pymanopt",
    "RFExtra",
    "TrackingState",
    "WenYin",
]
