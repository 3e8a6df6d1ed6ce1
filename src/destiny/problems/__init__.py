"""What the agents minimize: PCA, OLSR, SDL and problems of your own, and how data are split over agents."""

from destiny.problems import custom, data, masked_pca, olsr, pca, sdl
from destiny.problems.batched_problem import Batched, batched
from destiny.problems.centered_problem import Centered, centered
from destiny.problems.custom import Separable, check_gradient, total
from destiny.problems.generalized import Generalized
from destiny.problems.masked_pca import MaskedPCA
from destiny.problems.olsr import OLSR
from destiny.problems.pca import PCA
from destiny.problems.pooling import pooled
from destiny.problems.privacy import Privacy
from destiny.problems.private_products import PrivateProductsPCA
from destiny.problems.regularizers import L1, L21, check_prox, regularized, regularizer
from destiny.problems.sdl import SDL

__all__ = [
    "L1",
    "L21",
    "OLSR",
    "PCA",
    "SDL",
    "Batched",
    "Centered",
    "Generalized",
    "MaskedPCA",
    "Privacy",
    "PrivateProductsPCA",
    "Separable",
    "batched",
    "centered",
    "check_gradient",
    "check_prox",
    "custom",
    "data",
    "masked_pca",
    "olsr",
    "pca",
    "pooled",
    "regularized",
    "regularizer",
    "sdl",
    "total",
]
