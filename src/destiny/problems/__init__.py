"""What the agents minimise: PCA, OLSR, SDL and problems of your own, and how data are split over agents."""

from destiny.problems import custom, data, olsr, pca, sdl
from destiny.problems.centred_problem import Centred, centred
from destiny.problems.custom import Separable, check_gradient, total
from destiny.problems.olsr import OLSR
from destiny.problems.pca import PCA
from destiny.problems.pooling import pooled
from destiny.problems.sdl import SDL

__all__ = [
    "OLSR",
    "PCA",
    "SDL",
    "Centred",
    "Separable",
    "centred",
    "check_gradient",
    "custom",
    "data",
    "olsr",
    "pca",
    "pooled",
    "sdl",
    "total",
]
