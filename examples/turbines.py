"""A bearing that wears out, seen by turbines that learn day by day and keep no measurements (streaming PCA).

Five wind farms get new measurements of twelve sensors every day. `partial_fit` adds them to a common PCA of
healthy days: each farm keeps the mean and the scatter matrix of its own rows, 12 x 12 numbers, and forgets
the rows. What the three components cannot explain of a new row is small as long as a turbine is healthy. At
one farm a bearing starts to wear out on day 20: the alarm comes when no sensor has left its usual range yet,
because sensors that always moved together no longer do.
"""

import argparse

import numpy as np
from sklearn.decomposition import PCA

import destiny
from destiny.estimators import DecentralizedPCA

FARMS, SENSORS, DAYS, ROWS = 5, 12, 30, 48  # rows a day: one every half hour
LEARNED, WORN, FARM = 12, 20, 3  # days that are taken as healthy; the first day of the fault, and where
LIMIT = 0.99  # share of healthy days that stay below the alarm


def measure(rng, day, farm, mixing):
    """Wind, load and temperature move all sensors; a worn bearing warms one more with every day."""
    causes = rng.standard_normal((ROWS, 3)) * [3, 2, 1] + [0, 0, np.sin(2 * np.pi * day / 30)]
    rows = causes @ mixing + 0.3 * rng.standard_normal((ROWS, SENSORS)) + 40
    if farm == FARM and day >= WORN:
        rows[:, 7] += 0.25 * (day - WORN + 1)
    return rows


def unexplained(pca, rows):
    """The mean squared distance of rows from the plane of the components."""
    return float(np.mean(np.sum((rows - pca.inverse_transform(pca.transform(rows))) ** 2, axis=1)))


def main(path=None):
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((3, SENSORS))
    pca = DecentralizedPCA(n_components=3, network="ring", random_state=0)
    seen, bearing, errors = [], [], np.full((DAYS, FARMS), np.nan)
    for day in range(DAYS):
        today = [measure(rng, day, farm, mixing) for farm in range(FARMS)]
        bearing.append(today[FARM][:, 7])
        if day > 0:
            errors[day] = [unexplained(pca, rows) for rows in today]
        if day < LEARNED:
            pca.partial_fit(today)
            seen += today  # kept here to check the result, and nowhere else
    limit = np.nanquantile(errors[:LEARNED], LIMIT) * 1.1
    alarms = {
        (day, farm) for day in range(LEARNED, DAYS) for farm in range(FARMS) if errors[day, farm] > limit
    }
    first = min(alarms)
    print(f"{pca.n_samples_} rows learned from in {LEARNED} days, {pca.n_rounds_} rounds a day, none kept")
    print(f"first alarm on day {first[0]} at farm {first[1]}; the bearing began to wear on day {WORN}")
    healthy, worn = np.concatenate(bearing[:WORN]), bearing[first[0]]
    print(f"the sensor: {healthy.min():.0f} to {healthy.max():.0f} degrees when healthy, ", end="")
    print(f"{worn.min():.0f} to {worn.max():.0f} on the day of the alarm")
    if path:
        picture(path, errors, limit)
    pooled = PCA(3).fit(np.concatenate(seen))
    assert np.allclose(pca.components_, pooled.components_, atol=1e-8)
    assert np.allclose(pca.explained_variance_, pooled.explained_variance_)
    assert {farm for _, farm in alarms} == {FARM}
    assert first[0] - WORN < 6
    assert healthy.min() < worn.min() < worn.max() < healthy.max()  # it alone would tell nothing


def picture(path, errors, limit):
    """What is not explained, day by day."""
    figure = destiny.plots.pyplot().Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    for farm in range(FARMS):
        worn = farm == FARM
        color = destiny.plots.COLORS[1] if worn else "0.65"
        label = "farm with the worn bearing" if worn else "other farms" if farm == 0 else None
        axes.plot(errors[:, farm], color=color, linewidth=2 if worn else 1, label=label, zorder=2 + worn)
    axes.axhline(limit, linestyle="--", color=destiny.plots.COLORS[0], label="alarm")
    axes.axvspan(1, LEARNED - 1, color="0.93", zorder=0)
    axes.text(
        LEARNED / 2, axes.get_ylim()[1] * 0.93, "days learned from", ha="center", fontsize=9, color="0.3"
    )
    axes.axvline(WORN, color="0.5", linewidth=1)
    axes.text(WORN + 0.2, axes.get_ylim()[1] * 0.93, "wear begins", fontsize=9, color="0.3")
    axes.set(xlabel="day", ylabel="not explained", xlim=(1, DAYS - 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=9, loc="center left")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="write a picture there")
    main(parser.parse_args().picture)
