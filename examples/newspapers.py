"""What the articles of five newspapers are about, by words that are mostly absent (PCA of sparse text).

Each newspaper counts the words of its own articles: a table of 3000 columns in which 99 % of the entries are
zero. The tables stay sparse all the way: columns are scaled by common deviations without being centered, and
PCA subtracts the mean inside its products, so that no table ever becomes dense. The newspapers agree on the
list of words beforehand; articles never leave them. Four themes are planted in made-up articles, and the
three directions between four themes are found.
"""

import argparse

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import destiny
from destiny.estimators import DecentralizedPCA, DecentralizedScaler

THEMES = {
    "sport": "goal match team coach league season player final referee stadium injury title",
    "money": "bank market share profit tax budget inflation trade bond price loan dollar",
    "health": "patient vaccine doctor virus hospital trial drug clinic nurse dose surgery cancer",
    "weather": "rain storm wind flood snow heat forecast cloud temperature drought river frost",
}
PAPERS = {  # how often each writes about the themes
    "Mercury": (6, 1, 1, 1),
    "Ledger": (1, 6, 1, 1),
    "Courier": (2, 2, 3, 2),
    "Gazette": (1, 1, 2, 5),
    "Post": (3, 3, 2, 1),
}
NAMED = " ".join(THEMES.values()).split()
WORDS = [*NAMED, *(f"word {k}" for k in range(3000 - len(NAMED)))]
ARTICLES, LENGTH = 300, 60


def articles(rng, preferences):
    """The word counts of a newspaper's articles as a sparse matrix, and the theme of each article."""
    themes = rng.choice(len(THEMES), ARTICLES, p=np.array(preferences) / sum(preferences))
    common = 1 / np.arange(1, len(WORDS) - len(NAMED) + 1)  # Zipf's law
    usual = np.concatenate([np.full(len(NAMED), 2e-4), common / common.sum()])
    rows = []
    for theme in themes:
        chances = usual.copy()
        own = slice(theme * 12, theme * 12 + 12)
        chances[own] += 0.025
        rows.append(csr_array(np.log1p(rng.multinomial(LENGTH, chances / chances.sum()))[None]))
    return csr_array(vstack(rows)), themes


def main(path=None):
    rng = np.random.default_rng(0)
    made = {name: articles(rng, preferences) for name, preferences in PAPERS.items()}
    silos = destiny.Silos({name: table for name, (table, _) in made.items()})
    filled = sum(table.nnz for table in silos) / np.prod(silos.shape)
    print(
        f"{silos.shape[0]} articles, {silos.shape[1]} words; {100 * filled:.1f} % of the entries are not zero"
    )

    model = make_pipeline(
        DecentralizedScaler(with_mean=False),  # sparse rows stay sparse
        DecentralizedPCA(n_components=3, tol=1e-6, random_state=0),
    ).fit(silos)
    pca = model[-1]
    print(f"{pca.n_rounds_} rounds; {pca.notes_[0]}")
    for axis in pca.components_:
        low, high = (" ".join(WORDS[k] for k in order[:6]) for order in (np.argsort(axis), np.argsort(-axis)))
        print(f"  {low}   |   {high}")
    codes = model.transform(silos)
    themes = np.concatenate([theme for _, theme in made.values()])
    if path:
        picture(path, np.concatenate(list(codes)), themes)
    pooled = (
        np.concatenate([table.toarray() for table in silos]) / model[0].scale_
    )  # dense, for the check alone
    reference = PCA(3, svd_solver="arpack").fit(pooled)
    assert np.allclose(np.abs(np.sum(pca.components_ * reference.components_, axis=1)), 1, atol=1e-4)
    centers = np.stack([np.concatenate(list(codes))[themes == k].mean(axis=0) for k in range(len(THEMES))])
    nearest = np.linalg.norm(np.concatenate(list(codes))[:, None] - centers, axis=2).argmin(axis=1)
    print(f"{(nearest == themes).mean():.0%} of the articles lie nearest to the center of their own theme")
    assert (nearest == themes).mean() > 0.9


def picture(path, codes, themes):
    """Articles along the components, a color for each theme, which nobody told the newspapers."""
    figure = destiny.plots.pyplot().Figure(figsize=(7, 3.5), layout="constrained")
    for axes, (a, b) in zip(figure.subplots(1, 2), ((0, 1), (0, 2)), strict=True):
        for k, name in enumerate(THEMES):
            own = codes[themes == k]
            axes.scatter(own[:, a], own[:, b], s=5, alpha=0.5, color=destiny.plots.COLORS[k], label=name)
        axes.set(xlabel=f"component {a + 1}", ylabel=f"component {b + 1}")
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, markerscale=2)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)
