"""The data sets of the paper's experiments, from their official files, and one of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.datasets import formats, locations
from destiny.errors import INSTALL, MissingExtraError, ProblemError, SettingsError
from destiny.validation import did_you_mean, is_whole

__all__ = ["IMAGES", "NAMES", "Dataset", "cifar10", "cifar100", "cora", "digits", "load", "mnist"]

Folder = str | Path | None
COLOR = (32, 32, 3)
IMAGES: dict[str, tuple[int, ...]] = {
    "mnist": (28, 28),
    "cifar10": COLOR,
    "cifar100": COLOR,
    "digits": (8, 8),
}
"""Shapes of samples that are pictures; see `Dataset.image`."""


@dataclass(frozen=True)
class Dataset:
    """A data set.

    Attributes
    ----------
    name : str
    data : ndarray (m, n)
        Samples in rows, in the dtype of the files; a view of the file where that is possible.
    labels : ndarray (m,)
        The class of each sample.
    image : tuple of int or None
        Shape of a sample that is a picture: (height, width), or (height, width, 3) with the colors stored in
        one plane after the other.
    """

    name: str
    data: NDArray[Any]
    labels: NDArray[Any]
    image: tuple[int, ...] | None = None


def cora(subset: str = "DS", features: int | None = 100, folder: Folder = None) -> Dataset:
    """Cora-DS, -HA or -PL: words of research papers, 0 or 1, and their fields (Section 4.4 of the paper).

    ``features`` is the number of leading words to use, 100 as in the paper; None uses all. Raises
    `SettingsError` for an unknown subset or number.
    """
    if f"cora-{subset}" not in locations.FILES:
        raise SettingsError(f"cora has the subsets DS, HA and PL; found {subset!r}: choose one of them")
    X, labels = formats.read_cora(locations.find(f"cora-{subset}", folder)[0])
    count = X.shape[1] if features is None else features
    if not is_whole(count) or not 1 <= count <= X.shape[1]:
        raise SettingsError(f"features must be 1 to {X.shape[1]} on cora-{subset}; found {features!r}")
    return Dataset(f"cora-{subset}", X[:, :count].toarray().astype(np.float64), labels)


def mnist(folder: Folder = None) -> Dataset:
    """The 60,000 training images of MNIST, 28 x 28 bytes; memory-mapped unless gzipped."""
    images, labels = (formats.read_idx(path) for path in locations.find("mnist", folder))
    return Dataset("mnist", images.reshape(len(images), -1), np.asarray(labels), IMAGES["mnist"])


def cifar10(folder: Folder = None) -> Dataset:
    """The 50,000 training images of CIFAR-10, 3 x 32 x 32 bytes, from their five files."""
    parts = [formats.read_cifar(path, labels=1) for path in locations.find("cifar10", folder)]
    images = np.concatenate([part[:, 1:] for part in parts])
    return Dataset("cifar10", images, np.concatenate([part[:, 0] for part in parts]), COLOR)


def cifar100(folder: Folder = None) -> Dataset:
    """The 50,000 training images of CIFAR-100, 3 x 32 x 32 bytes, and their fine labels; memory-mapped."""
    rows = formats.read_cifar(locations.find("cifar100", folder)[0], labels=2)
    return Dataset("cifar100", rows[:, 2:], np.array(rows[:, 1]), COLOR)


def digits() -> Dataset:
    """The 1,797 digits of scikit-learn, 8 x 8 in 0..16, for work without downloads (extra ``sklearn``)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError(
            f"digits come with scikit-learn: {INSTALL.format(extra='sklearn')}"
        ) from error
    images, labels = load_digits(return_X_y=True)
    return Dataset("digits", np.ascontiguousarray(images), labels, IMAGES["digits"])


NAMES: dict[str, Callable[[Folder], Dataset]] = {
    "cora-DS": lambda folder: cora("DS", folder=folder),
    "cora-HA": lambda folder: cora("HA", folder=folder),
    "cora-PL": lambda folder: cora("PL", folder=folder),
    "mnist": mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "digits": lambda _: digits(),
}
"""Loaders by the names of data sets in experiment files."""


def load(name: str, folder: Folder = None) -> Dataset:
    """A data set by its name in experiment files; raises `ProblemError` for an unknown one."""
    if name not in NAMES:
        near = did_you_mean(name, NAMES) or ": choose one of them"
        raise ProblemError(f"data sets are {', '.join(NAMES)}; found {name!r}{near}")
    return NAMES[name](folder)
