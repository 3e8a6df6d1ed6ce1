"""Estimators for scikit-learn, fitted by agents each of which holds its own rows (extra ``sklearn``)."""

from importlib.util import find_spec

from destiny.errors import INSTALL, MissingExtraError

if find_spec("sklearn") is None:
    raise MissingExtraError(f"destiny.estimators needs scikit-learn: {INSTALL.format(extra='sklearn')}")

from destiny.estimators.cca import DecentralizedCCA
from destiny.estimators.dictionary import DecentralizedSparseDictionary
from destiny.estimators.folds import SiloFolds
from destiny.estimators.imputer import DecentralizedImputer
from destiny.estimators.lda import DecentralizedLDA
from destiny.estimators.pca import DecentralizedPCA
from destiny.estimators.pictures import biplot, scree_plot
from destiny.estimators.regression import DecentralizedOLSRClassifier
from destiny.estimators.ridge import DecentralizedRidge
from destiny.estimators.scaler import DecentralizedScaler
from destiny.estimators.silo_places import SiloPlace, silo_map
from destiny.estimators.sparse_pca import DecentralizedSparsePCA

__all__ = [
    "DecentralizedCCA",
    "DecentralizedImputer",
    "DecentralizedLDA",
    "DecentralizedOLSRClassifier",
    "DecentralizedPCA",
    "DecentralizedRidge",
    "DecentralizedScaler",
    "DecentralizedSparseDictionary",
    "DecentralizedSparsePCA",
    "SiloFolds",
    "SiloPlace",
    "biplot",
    "scree_plot",
    "silo_map",
]
