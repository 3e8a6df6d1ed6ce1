"""Shapes of tumors in eight clinics that trust neither each other nor the answer (differential privacy).

Two things are hidden. What a clinic sends is hidden from the others by private sums: they learn totals over
all clinics. What the answer itself tells of a single patient is bounded by differential privacy: each clinic
adds noise to its sums, once. As only totals are seen, eight parts of the noise together are enough, and each
clinic adds less than it would have to add alone, if the others add theirs. How much the answer loses is
measured for three budgets; a real analysis is done once, as every fit uses its budget again.

The patients are those of scikit-learn's breast cancer data, in units that were agreed on beforehand.
"""

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA

import destiny
from destiny.estimators import DecentralizedPCA
from destiny.problems import Privacy

CLINICS, COMPONENTS, SEEDS = 8, 2, 3
BUDGETS = (1.0, 3.0, 10.0)  # epsilon: smaller is more private
BOUND = 8.0  # rows are clipped to this distance from the middle


def fit(silos, budget, noise, messages, seed):
    """PCA in which every patient is protected."""
    privacy = Privacy(epsilon=budget, delta=1e-5, bound=BOUND, mean_bound=BOUND, noise=noise, seed=seed)
    pca = DecentralizedPCA(COMPONENTS, network="complete", random_state=0, privacy=privacy, messages=messages)
    return pca.fit(silos)


def main(path=None):
    patients = load_breast_cancer()
    # Typical values and spreads must be public, from a handbook say: here they are taken from the data.
    typical, spread = np.median(patients.data, axis=0).round(2), np.ptp(patients.data, axis=0).round(2) / 5
    rows = (patients.data - typical) / spread
    order = np.random.default_rng(0).permutation(len(rows))
    silos = [rows[part] for part in np.array_split(order, CLINICS)]
    exact = PCA(COMPONENTS).fit(rows)
    centered = rows - rows.mean(axis=0)

    def share(pca):
        """Of the variance that exact components explain."""
        found, best = (np.sum((centered @ model.components_.T) ** 2) for model in (pca, exact))
        return found / best

    private = "private"
    sums = DecentralizedPCA(COMPONENTS, network="complete", random_state=0, messages=private).fit(silos)
    print(f"private sums without noise: {share(sums):.4f} of the variance, {sums.n_rounds_} rounds")
    shares = {
        label: [
            np.mean([share(fit(silos, budget, noise, messages, seed)) for seed in range(SEEDS)])
            for budget in BUDGETS
        ]
        for label, noise, messages in (("alone", "alone", None), ("together", "together", private))
    }
    for label, values in shares.items():
        found = ", ".join(f"{v:.3f} with epsilon = {b:g}" for b, v in zip(BUDGETS, values, strict=True))
        print(f"noise added {label}: {found}")
    if path:
        picture(path, shares, fit(silos, BUDGETS[-1], "together", private, 0), rows, patients.target)
    assert np.allclose(sums.components_, exact.components_, atol=1e-6)  # hiding messages costs nothing
    assert shares["together"][-1] > 0.95
    assert np.mean(shares["together"]) > np.mean(shares["alone"])


def picture(path, shares, pca, rows, malignant):
    """What noise costs, and what is still seen through it."""
    figure = destiny.plots.pyplot().Figure(figsize=(7, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (label, values), mark in zip(shares.items(), ("o--", "s-"), strict=True):
        color = destiny.plots.COLORS[2 if label == "together" else 3]
        left.plot(BUDGETS, values, mark, color=color, label=f"noise added {label}")
    left.axhline(1, color="0.6", linewidth=1, label="private sums, no noise")
    left.set(xscale="log", xlabel="ε (smaller is more private)", ylabel="variance explained, of the best")
    left.set_xticks(BUDGETS, [f"{budget:g}" for budget in BUDGETS])
    left.minorticks_off()
    left.set_ylim(0, 1.05)
    left.legend(fontsize=8)
    codes = pca.transform(rows)
    for kind, name in enumerate(("malignant", "benign")):
        right.scatter(*codes[malignant == kind].T, s=5, color=destiny.plots.COLORS[1 - kind], label=name)
    right.set(xlabel="component 1", ylabel="component 2", title=f"ε = {BUDGETS[-1]:g}, together")
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)
