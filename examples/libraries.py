"""How often a book will be asked for, from what other libraries lend (regression between libraries).

Four libraries lend the same 500 titles to different readers: each has its own columns, loans by age group or
by season, of the same books. The fifth, which opens a branch, knows how often its readers asked for each.
`VerticalRidge` finds one regression on the columns of all. With private messages a library learns sums over
all of them instead of what another lent, and its coefficients stay its own; the requests are told to all. The
penalty is chosen by cross-validation, and every library alone predicts less.
"""

import argparse

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_score

import destiny
from destiny.extensions.vertical import VerticalRidge

LIBRARIES = {
    "city": ["children", "teenagers", "adults", "elderly"],
    "university": ["first years", "later years", "staff"],
    "village": ["summer", "winter"],
    "school": ["pupils", "teachers", "parents"],
}
TITLES, TASTES = 500, 6
PENALTIES = (0.1, 10.0, 1000.0)


def lend(rng):
    """Loans of each title at each library and requests at the new branch, by tastes they appeal to."""
    appeal = rng.gamma(2.0, size=(TITLES, TASTES))
    tables = {}
    for name, groups in LIBRARIES.items():
        readers = rng.gamma(1.0, size=(TASTES, len(groups))) * rng.random((TASTES, len(groups)))
        tables[name] = rng.poisson(6 * appeal @ readers).astype(float)
    requests = appeal @ rng.gamma(1.5, size=TASTES)
    return tables, rng.poisson(3 * requests).astype(float)


def main(path=None):
    tables, requests = lend(np.random.default_rng(0))
    silos = destiny.Silos(tables, split="columns")
    folds = KFold(3, shuffle=True, random_state=0)
    private = "private"
    scores = {
        alpha: cross_val_score(VerticalRidge(alpha, messages=private), silos, requests, cv=folds).mean()
        for alpha in PENALTIES
    }
    alpha = max(scores, key=scores.__getitem__)
    model = VerticalRidge(alpha, messages=private).fit(silos, requests)
    print(f"R^2 by cross-validation: {', '.join(f'{s:.3f} with alpha = {a:g}' for a, s in scores.items())}")
    print(f"{model.n_iter_} iterations, {model.n_rounds_} rounds; libraries learned sums over all of them")
    alone = {
        name: cross_val_score(Ridge(alpha), table, requests, cv=folds).mean()
        for name, table in tables.items()
    }
    print("each library alone:", ", ".join(f"{name} {score:.3f}" for name, score in alone.items()))
    rows = np.concatenate(list(tables.values()), axis=1)
    pooled = Ridge(alpha).fit(rows, requests)
    together = cross_val_score(pooled, rows, requests, cv=folds).mean()
    if path:
        picture(
            path, {**alone, "all, private": scores[alpha], "all, pooled": together}, model, silos, requests
        )
    assert np.allclose(model.coef_, pooled.coef_, rtol=1e-6, atol=1e-9)
    assert np.allclose(model.predict(silos), pooled.predict(rows))
    assert abs(scores[alpha] - together) < 1e-8
    assert scores[alpha] > max(alone.values()) + 0.05


def picture(path, scores, model, silos, requests):
    """Accuracy of each library and of all, and predictions of all."""
    figure = destiny.plots.pyplot().Figure(figsize=(7, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    colors = [destiny.plots.COLORS[1] if name.startswith("all") else "0.6" for name in scores]
    bars = left.barh(list(scores), list(scores.values()), color=colors)
    left.bar_label(bars, fmt="%.2f", padding=3, fontsize=9)
    left.set(xlim=(0, 1), xlabel="R², cross-validated")
    left.invert_yaxis()
    predicted = model.predict(silos)
    right.plot(predicted, requests, "o", markersize=3, alpha=0.5, color=destiny.plots.COLORS[0])
    right.axline((0, 0), slope=1, color="0.5", linewidth=1)
    right.set(xlabel="predicted requests", ylabel="requests")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)
