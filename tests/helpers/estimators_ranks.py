"""Three ranks, each with rows of its own: under mpiexec, `fit_local` of every estimator."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from destiny.errors import ProblemError, SettingsError
from destiny.estimators import (
    DecentralizedCCA,
    DecentralizedLDA,
    DecentralizedOLSRClassifier,
    DecentralizedPCA,
    DecentralizedRidge,
    DecentralizedScaler,
    DecentralizedSparseDictionary,
)

RANKS = 3
LABELS = (["ash", "elm"], ["elm", "oak"], ["oak"])  # no rank knows all of them
ESTIMATORS = {
    "pca": DecentralizedPCA(2, random_state=0),
    "all components": DecentralizedPCA(random_state=0),
    "regression": DecentralizedOLSRClassifier(random_state=0),
    "dictionary": DecentralizedSparseDictionary(2, random_state=0),
    "scaler": DecentralizedScaler(random_state=0),
    "gaps": DecentralizedPCA(2, missing="ignore", tol=1e-8, random_state=0),
    "weighted": DecentralizedPCA(2, random_state=0),
    "lda": DecentralizedLDA(random_state=0),
    "cca": DecentralizedCCA(random_state=0),
    "wide": DecentralizedPCA(2, random_state=0),
    "ridge": DecentralizedRidge(random_state=0),
    "private": DecentralizedPCA(2, random_state=0, messages="private"),
    "private run": DecentralizedPCA(2, method="averaged-krylov", random_state=0, messages="private"),
}


def rows(rank: int, name: str = ""):
    """What a rank holds: few rows, more at later ranks, and their labels."""
    rng = np.random.default_rng(rank)
    labels = rng.choice(LABELS[rank], 8 + 5 * rank)
    shift = np.array([len(LABELS), *[0, 0, 0]]) * (labels == "elm")[:, None]
    few = rng.laplace(size=(len(labels), 4)) * [3, 2, 1, 0.5] + shift
    return np.hstack([few, rng.standard_normal((len(few), 80))]) if name == "wide" else few, labels


def weights(rank: int, name: str) -> np.ndarray | None:
    """What the rows of a rank weigh, in the fit with weights."""
    return 0.5 + np.arange(8 + 5 * rank) % 3 if name == "weighted" else None


def views(name: str, table, labels):
    """X and y of an estimator: the last two columns are the other view of canonical correlations."""
    return (table[:, :2], table[:, 2:]) if name in ("cca", "ridge") else (table, labels)


def attributes(fitted) -> dict[str, np.ndarray]:
    """What a fit leaves behind, as arrays."""
    kept = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
    kept["network_"] = kept["network_"].edges
    if "history_" in kept:
        kept["history_"] = kept["history_"].as_array()[:, [0, 1, 2, 4, 5, 6, 7]]  # all but the seconds
    return {name: np.asarray(value) for name, value in kept.items()}


def main(folder: Path) -> None:
    """Fit everything on this rank; then refuse ranks with other features or settings, and one with NaN."""
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    for name, estimator in ESTIMATORS.items():
        mine, labels = views(name, *rows(rank, name))
        fitted = estimator.fit_local(mine, labels, weights(rank, name))
        np.savez(folder / f"{name} {rank}.npz", **attributes(fitted))  # type: ignore[arg-type]
    mine, labels = rows(rank)
    unlike = [
        lambda: DecentralizedPCA().fit_local(mine[:, : 4 - rank]),
        lambda: DecentralizedPCA(1 + rank).fit_local(mine),
        lambda: DecentralizedPCA(network=("ring", "complete", "star")[rank]).fit_local(mine),
        lambda: DecentralizedLDA(shrinkage=0.1 * rank).fit_local(mine, labels),
        lambda: DecentralizedRidge(fit_intercept=rank == 0).fit_local(mine, mine[:, 0]),
        lambda: DecentralizedPCA().fit_local(np.where(rank == 1, np.nan, mine)),
    ]
    for number, fit in enumerate(unlike):
        try:
            fit()
        except (SettingsError, ProblemError) as error:  # on all ranks alike, so that nobody waits
            (folder / f"unlike {number} {rank}.txt").write_text(str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
