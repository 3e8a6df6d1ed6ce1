"""Noise taken out of a photograph by patterns learned from other pictures (a dictionary of image patches).

Four photographers learn 35 patterns of 6 x 6 pixels in which patches of their pictures are sparse: each patch
is a sum of few patterns. Noise is a sum of all of them, so that a noisy picture is cleaned by leaving out
what is weak. Nobody shows a picture; the one who cleans hers was not among those who learned. Patterns of PCA
do nearly as well, and take two rounds instead of a thousand.

The pictures are the two that scikit-learn brings along: the temple is cut into the four that are learned
from, the flower is the noisy one.
"""

import argparse

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

import destiny
from destiny.estimators import DecentralizedPCA, DecentralizedSparseDictionary

SIDE = 6
PATTERNS = SIDE**2 - 1  # all directions of a patch but its mean
NOISE = 0.12  # standard deviation, of brightness from 0 to 1
KEPT = 2.7 * NOISE  # codes below it are left out, a usual threshold of denoising


def gray(name, step):
    """A bundled photograph in gray, every so many pixels of it."""
    return load_sample_image(name)[::step, ::step].mean(axis=2) / 255


def patches(picture, number=None):
    """Patches of a picture as rows."""
    return extract_patches_2d(picture, (SIDE, SIDE), max_patches=number, random_state=0).reshape(-1, SIDE**2)


def clean(model, picture):
    """The picture with weak codes left out, the mean of all patches that cover a pixel."""
    rows = patches(picture)
    means = rows.mean(axis=1, keepdims=True)
    codes = model.transform(rows - means)
    kept = model.inverse_transform(np.where(np.abs(codes) > KEPT, codes, 0.0)) + means
    return reconstruct_from_patches_2d(kept.reshape(-1, SIDE, SIDE), picture.shape)


def quality(picture, truth):
    """Peak signal-to-noise ratio in decibels."""
    return float(-10 * np.log10(np.mean((picture - truth) ** 2)))


def main(path=None):
    temple, flower = gray("china.jpg", 2), gray("flower.jpg", 3)
    quarters = [part for half in np.array_split(temple, 2) for part in np.array_split(half, 2, axis=1)]
    silos = [patches(quarter, 800) for quarter in quarters]
    silos = [rows - rows.mean(axis=1, keepdims=True) for rows in silos]
    dictionary = DecentralizedSparseDictionary(PATTERNS, network="complete", tol=1e-3, random_state=0).fit(
        silos
    )
    pca = DecentralizedPCA(PATTERNS, network="complete", random_state=0).fit(silos)
    print(f"dictionary of {PATTERNS} patterns: {dictionary.n_rounds_} rounds; PCA: {pca.n_rounds_}")

    noisy = flower + NOISE * np.random.default_rng(0).standard_normal(flower.shape)
    cleaned = {"noisy": noisy, "PCA": clean(pca, noisy), "dictionary": clean(dictionary, noisy)}
    found = {name: quality(picture, flower) for name, picture in cleaned.items()}
    print(", ".join(f"{name} {value:.1f} dB" for name, value in found.items()))
    if path:
        draw(path, cleaned, found, dictionary)
    D = dictionary.components_
    assert np.allclose(D @ D.T, np.eye(len(D)), atol=1e-8)
    codes = np.abs(dictionary.transform(np.concatenate(silos)))
    assert np.mean(codes < 0.1 * codes.max()) > 0.9  # sparse
    assert min(found["dictionary"], found["PCA"]) > found["noisy"] + 7


def draw(path, pictures, found, dictionary):
    """The pictures, and some patterns."""
    figure = destiny.plots.pyplot().Figure(figsize=(6, 4.6), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    for axes, (name, picture) in zip(panels, pictures.items(), strict=False):
        axes.imshow(picture[20:110, 45:165], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(f"{name}: {found[name]:.1f} dB", fontsize=10)
    cell = SIDE + 1
    grid = np.ones((5 * cell + 1, 7 * cell + 1))
    for k, atom in enumerate(dictionary.components_):
        i, j = cell * (k // 7) + 1, cell * (k % 7) + 1
        grid[i : i + SIDE, j : j + SIDE] = (atom / np.abs(atom).max()).reshape(SIDE, SIDE) / 2 + 0.5
    panels[3].imshow(grid, cmap="gray", vmin=0, vmax=1)
    panels[3].set_title(f"the {PATTERNS} patterns", fontsize=10)
    for axes in panels:
        axes.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=100)  # pixels of the photograph, not more


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)
