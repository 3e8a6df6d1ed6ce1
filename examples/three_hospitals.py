"""What varies together in the patients of three hospitals whose files do not look alike (medical PCA).

The files have semicolons, decimal commas, gaps and, at the third hospital, columns in another order: `Silos`
reads them as they are. Gaps are filled with common means, and columns in unequal units are scaled by common
deviations, all found by averaging; nobody shows a patient. A map of the hospitals, drawn from six numbers of
each, then shows that West lies far away: it writes its blood lipids in mmol/l, the others in mg/dl. West
converts its own columns, and the three hospitals lie together.

The patients are those of scikit-learn's diabetes data, as measured.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import destiny
from destiny.estimators import (
    DecentralizedImputer,
    DecentralizedPCA,
    DecentralizedScaler,
    SiloPlace,
    silo_map,
)

COLUMNS = ["age", "bmi", "pressure", "cholesterol", "LDL", "HDL", "triglycerides", "glucose"]
LIPIDS = ["cholesterol", "LDL", "HDL"]
MILLIGRAMS = 38.67  # in a decilitre, of cholesterol: one millimole in a litre


def write_files(folder: Path) -> dict[str, Path]:
    """Write a file for each hospital, as its own software would."""
    patients = load_diabetes(as_frame=True, scaled=False).data.drop(columns=["sex", "s4"])
    patients = patients.set_axis(COLUMNS, axis=1).round(2)
    files = {}
    for name, rows in zip(("North", "South", "West"), np.split(np.arange(442), [150, 260]), strict=True):
        table = patients.iloc[rows].reset_index(drop=True)
        table.loc[7, "bmi"] = np.nan  # nobody measured it
        if name == "West":
            table[LIPIDS] = (table[LIPIDS] / MILLIGRAMS).round(3)
            table = table[COLUMNS[::-1]]
        files[name] = folder / f"{name.lower()}.csv"
        table.to_csv(files[name], sep=";", decimal=",", index=False)
    return files


def fit(tables):
    """Return the silos and a pipeline fitted to them."""
    silos = destiny.Silos(tables, columns=COLUMNS, sep=";", decimal=",", gaps=True)
    steps = DecentralizedImputer(), DecentralizedScaler(), DecentralizedPCA(n_components=3, random_state=0)
    return silos, make_pipeline(*steps).fit(silos)


def distance(model, silos):
    """How far West is from the other hospitals on the map, in standard deviations of all rows."""
    north, south, west = (SiloPlace.of(model, table).mean for table in silos)
    return np.linalg.norm((west - (north + south) / 2) / np.sqrt(model[-1].explained_variance_[:2]))


def main(path=None):
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder))
        as_written = fit(files)
        west = pandas.read_csv(files["West"], sep=";", decimal=",")
        west[LIPIDS] *= MILLIGRAMS  # West converts its own columns
        silos, model = fit(files | {"West": west})
    print(silos)
    pca = model[-1]
    print(f"{pca.n_samples_} patients, {pca.n_rounds_} rounds for PCA, {model[1].n_rounds_} for scaling")
    for share, axis in zip(pca.explained_variance_ratio_, pca.components_, strict=True):
        strong = sorted(zip(axis, COLUMNS, strict=True), key=lambda pair: -abs(pair[0]))[:4]
        print(f"{share:4.0%} of the variance:", ", ".join(f"{name} {weight:+.2f}" for weight, name in strong))
    before, after = distance(as_written[1], as_written[0]), distance(model, silos)
    print(f"West is {before:.1f} deviations away as its file is written, {after:.1f} in common units")
    if path:
        picture(path, as_written, (silos, model))
    pooled = make_pipeline(SimpleImputer(), StandardScaler(), PCA(3)).fit(np.concatenate(list(silos)))
    assert np.allclose(pca.components_, pooled[-1].components_, atol=1e-6)
    assert np.allclose(pca.explained_variance_, pooled[-1].explained_variance_)
    assert before > 1 > 3 * after


def picture(path, as_written, converted):
    """The map of the hospitals before and after West converts its lipids."""
    figure = destiny.plots.pyplot().Figure(figsize=(7.2, 3.7), layout="constrained")
    panels = {"West in mmol/l": as_written, "all in mg/dl": converted}
    for axes, (title, (silos, model)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        silo_map(model, silos, axes=axes).set_title(title)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)
