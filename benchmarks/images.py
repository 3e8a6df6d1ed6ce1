"""PCA of real images over 32 agents; they need DESTINY_DATA, a folder with the official files."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import destiny
from destiny import networks

Instance = Callable[[int], tuple[Any, Any]]


@cache
def cifar(gray: bool) -> tuple[Any, Any]:
    """10,000 images of CIFAR-10 less their mean, and their classes; gray ones have 16 x 16 pixels."""
    dataset = destiny.datasets.cifar10()
    A = dataset.data[:10_000] / 255
    if gray:
        A = A.reshape(-1, 3, 16, 2, 16, 2).mean(axis=(1, 3, 5)).reshape(-1, 256)
    return A - A.mean(axis=0), dataset.labels[:10_000]


@cache
def mnist() -> tuple[Any, Any]:
    """10,000 digits of MNIST less their mean, and their classes."""
    dataset = destiny.datasets.mnist()
    A = dataset.data[::6] / 255
    return A - A.mean(axis=0), dataset.labels[::6]


def images(load: Callable[[], tuple[Any, Any]], p: int, by_label: bool = False) -> Instance:
    """Images over 32 agents, in their order or one class after the other."""

    def make(seed: int) -> tuple[Any, Any]:
        A, labels = load()
        A = A[np.argsort(labels, kind="stable")] if by_label else A
        return destiny.problems.pca.from_data(A, p, 32), networks.erdos_renyi(32, prob=0.3, seed=seed)

    return make


IMAGES: dict[str, Instance] = {
    "CIFAR gray, n = 256, p = 3": images(lambda: cifar(True), 3),
    "CIFAR gray by class, p = 3": images(lambda: cifar(True), 3, by_label=True),
    "CIFAR color, n = 3072, p = 3": images(lambda: cifar(False), 3),
    "MNIST, n = 784, p = 5": images(mnist, 5),
    "MNIST by class, p = 5": images(mnist, 5, by_label=True),
}
