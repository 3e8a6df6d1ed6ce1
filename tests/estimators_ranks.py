"""Three ranks, each with rows of its own: under mpiexec, `fit_local` of every estimator."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from destiny.errors import SettingsError
from destiny.estimators import DecentralizedPCA, OrthogonalRegression, SparseDictionary

RANKS = 3
LABELS = (["ash", "elm"], ["elm", "oak"], ["oak"])  # no rank knows all of them
ESTIMATORS = {
    "pca": DecentralizedPCA(2, random_state=0),
    "all components": DecentralizedPCA(random_state=0),
    "regression": OrthogonalRegression(random_state=0),
    "dictionary": SparseDictionary(2, random_state=0),
}


def rows(rank: int):
    """What a rank holds: few rows, more at later ranks, and their labels."""
    rng = np.random.default_rng(rank)
    labels = rng.choice(LABELS[rank], 8 + 5 * rank)
    shift = np.array([len(LABELS), *[0, 0, 0]]) * (labels == "elm")[:, None]
    return rng.laplace(size=(len(labels), 4)) * [3, 2, 1, 0.5] + shift, labels


def attributes(fitted) -> dict[str, np.ndarray]:
    """What a fit leaves behind, as arrays."""
    kept = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
    history = kept.pop("history_").as_array()[:, [0, 1, 2, 4, 5, 6, 7]]  # all but the seconds
    kept["network_"] = kept["network_"].edges
    return {"history_": history, **{name: np.asarray(value) for name, value in kept.items()}}


def main(folder: Path) -> None:
    """Fit everything on this rank; then refuse ranks whose rows have other features."""
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    mine, labels = rows(rank)
    for name, estimator in ESTIMATORS.items():
        np.savez(folder / f"{name} {rank}.npz", **attributes(estimator.fit_local(mine, labels)))
    try:
        DecentralizedPCA().fit_local(mine[:, : 4 - rank])
    except SettingsError as error:  # on all ranks alike, so that nobody waits
        (folder / f"unlike {rank}.txt").write_text(str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
