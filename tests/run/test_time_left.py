"""The progress bar knows how long a run takes, as soon as its residuals fall steadily."""

import math

import pytest

import destiny
from destiny.run.metrics import Measures
from destiny.run.progress import ProgressBar, TimeLeft, describe


def test_geometric_convergence_is_foreseen():
    forecast = TimeLeft(1e-8, 10_000)
    for round in range(0, 200, 10):
        forecast.add(round, 0.5 * round, 10 ** (-round / 50))
    needed = 50 * 8 - 190
    assert abs(forecast.rounds_left() - needed) <= 1
    assert forecast.seconds_left() == pytest.approx(0.5 * needed, rel=0.01)


def test_no_more_than_is_allowed_and_nothing_without_progress():
    forecast = TimeLeft(1e-8, 220)
    for round in range(0, 200, 10):
        forecast.add(round, 0.5 * round, 10 ** (-round / 50))
    assert forecast.rounds_left() == 30
    stuck = TimeLeft(1e-8, 1000)
    for round in range(10):
        assert stuck.rounds_left() is None
        stuck.add(round, round, 1.0)
    assert stuck.seconds_left() is None
    stuck.add(11, 11.0, math.nan)
    assert len(stuck.seen) == 10
    never = TimeLeft(0.0, 1000)
    for round in range(10):
        never.add(round, round, 0.5**round)
    assert never.rounds_left() is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "time left unknown"),
        (0.2, "about 1 s left"),
        (90, "about 2 min left"),
        (9000, "about 2.5 h left"),
    ],
)
def test_times_in_words(seconds, text):
    assert describe(seconds) == text


def test_the_forecast_of_a_real_run_is_near_its_end():
    problem = destiny.problems.pca.synthetic(n=20, m=200, p=2, xi=0.7, agents=4, seed=3)
    result = destiny.solve(problem, destiny.networks.ring(4), destiny.Destiny(), tolerance=1e-9, every=1)
    rows = [row for row in result.history if row["round"] <= result.rounds / 2]
    forecast = TimeLeft(1e-9, 10_000)
    for row in rows:
        forecast.add(
            row["round"], row["seconds"], max(row[k] for k in ("stationarity", "consensus", "feasibility"))
        )
    foreseen = rows[-1]["round"] + forecast.rounds_left()
    assert 0.7 * result.rounds < foreseen < 1.5 * result.rounds


def test_the_bar_shows_the_time_left():
    bar = ProgressBar("run", 1000, tolerance=1e-6)
    try:
        for round in range(0, 60, 10):
            bar.update(round, Measures(1.0, 10 ** (-round / 20), 1e-9, 1e-9))
        task = bar.bar.tasks[0]
        assert task.fields["left"].startswith("about ")
        assert task.total == pytest.approx(120, abs=2)
        assert "stat 3e-03" in task.fields["residuals"]
    finally:
        bar.close()
