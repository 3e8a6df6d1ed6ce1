"""Estimators for parties that hold different columns of the same rows."""

from destiny.extensions.vertical.vertical_pca import VerticalPCA
from destiny.extensions.vertical.vertical_ridge import VerticalRidge

__all__ = ["VerticalPCA", "VerticalRidge"]
