"""PCA of three CSV files, one per hospital, without ever putting them together.

    python examples/pca_three_files.py a.csv b.csv c.csv     # any number of files, with the same header

Without files it makes three small ones first, to have something to show. `Silos` reads them and refuses
columns in another order, text and gaps in words. Under mpiexec each rank reads one file only, its own, and
ranks compare the names of their columns: mpiexec -n 3 python examples/pca_three_files.py a.csv b.csv c.csv
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import destiny
from destiny import plots
from destiny.engines import engine_for_command
from destiny.estimators import DecentralizedPCA


def made(folder: str) -> list[str]:
    """Three files of different lengths."""
    rng = np.random.default_rng(0)
    paths = [str(Path(folder) / f"hospital-{name}.csv") for name in "abc"]
    for path, rows in zip(paths, (40, 25, 60), strict=True):
        data = rng.standard_normal((rows, 5)) @ rng.standard_normal((5, 5)) + 50
        np.savetxt(path, data, delimiter=",", header="age,weight,pulse,sugar,iron", comments="")
    return paths


def read_own(file, ranks):
    """The rows of this rank's own file, once all ranks have the same columns."""
    silos = destiny.Silos([file])
    if len(set(ranks.allgather(silos.columns))) > 1:
        raise SystemExit(f"{file} must have the columns of all ranks, in the same order: {silos.columns}")
    return silos[0]


def picture(path, pca, tables) -> None:
    """Every row in the plane of the two components, a color per file."""
    figure = plots.pyplot().Figure(figsize=(4.5, 3), layout="constrained")
    axis = figure.subplots()
    for k, table in enumerate(tables):
        axis.scatter(*pca.transform(table).T, s=12, color=plots.COLORS[k % 6], label=f"hospital {k + 1}")
    axis.set(xlabel="first component", ylabel="second component")
    axis.legend()
    figure.savefig(path, dpi=150)


def main(path=None, files=()) -> None:
    """Fit and print."""
    pca = DecentralizedPCA(n_components=2, random_state=0)
    if engine_for_command() == "mpi":
        from mpi4py import MPI

        rank = MPI.COMM_WORLD.rank
        pca.fit_local(read_own(files[rank], MPI.COMM_WORLD))
        if rank > 0:
            return
    else:
        with tempfile.TemporaryDirectory() as folder:
            tables = destiny.Silos(files or made(folder))
        pca.fit(tables)
        if path:
            picture(path, pca, tables)
    print(f"{pca.n_samples_} rows, {pca.network_.agents} agents, {pca.n_rounds_} rounds")
    print("explained variance:", " ".join(f"{100 * part:.1f} %" for part in pca.explained_variance_ratio_))
    print(np.array2string(pca.components_, precision=3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="one per agent")
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    args = parser.parse_args()
    main(args.picture, args.files)
