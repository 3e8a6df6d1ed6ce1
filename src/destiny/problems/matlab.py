"""MATLAB files, read alike by every version of SciPy."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import scipy.io

# Newer versions of SciPy ask which of its two sparse types is wanted; older ones know one only.
SPARSE: dict[str, Any] = (
    {"spmatrix": False} if "spmatrix" in inspect.signature(scipy.io.loadmat).parameters else {}
)


def load_mat(path: Path) -> dict[str, Any]:
    """The variables of a MATLAB file by name. Sparse ones are SciPy's sparse arrays or matrices."""
    variables: dict[str, Any] = scipy.io.loadmat(path, **SPARSE)
    return {name: value for name, value in variables.items() if not name.startswith("__")}
