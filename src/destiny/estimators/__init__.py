"""Estimators for scikit-learn whose fit is done by agents, each beside its own rows (extra ``sklearn``)."""

from importlib.util import find_spec

from destiny.errors import MissingExtraError

if find_spec("sklearn") is None:
    raise MissingExtraError('destiny.estimators needs scikit-learn: pip install "destiny-stiefel[sklearn]"')

from destiny.estimators.dictionary import SparseDictionary
from destiny.estimators.pca import DecentralizedPCA
from destiny.estimators.regression import OrthogonalRegression

__all__ = ["DecentralizedPCA", "OrthogonalRegression", "SparseDictionary"]
