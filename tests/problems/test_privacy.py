"""Differential privacy of PCA: calibration, noise, clipping, the secret, and an audit that can fail."""

import math
import stat
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from scipy.special import ndtri

import destiny
from destiny.problems import Privacy, centered, pca
from destiny.problems.data.rows import Rows
from destiny.problems.gaussian_mechanism import gaussian_delta, noise_ratio
from destiny.problems.pca import PrivatePCA
from destiny.problems.privacy import MEAN, MOMENTS, on_grid
from destiny.problems.rounded_normal import rounded_normal
from tests.helpers.bit_audit import (
    TRIES,
    finds_out,
    most_guesses,
    noise_of_floats,
    possible_in_floats,
    possible_in_units,
    two_tables,
)

SETTINGS = {"epsilon": 1.0, "delta": 1e-3, "bound": 2.0}


def privacy(**changes) -> Privacy:
    return Privacy(**{**SETTINGS, "seed": 0, **changes})


def problem(n=6, m=50, p=2, agents=3, seed=0, **options):
    A = np.random.default_rng(seed).standard_normal((n, m))
    return pca.from_data(A.T, p, agents, **options)


# Calibration


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1, 4, 30])
@pytest.mark.parametrize("ratio", [0.2, 1, 5])
def test_delta_is_the_integral_of_what_one_density_exceeds_the_other_by(epsilon, ratio):
    """The definition: the largest P(S) - e^epsilon Q(S) over all events S."""
    p, q = scipy.stats.norm(1, ratio), scipy.stats.norm(0, ratio)
    start = 0.5 + epsilon * ratio**2  # where the densities have the ratio e^epsilon
    gap, _ = scipy.integrate.quad(
        lambda x: p.pdf(x) - math.exp(epsilon) * q.pdf(x), start, start + 12 * ratio + 1, epsabs=1e-14
    )
    assert gaussian_delta(epsilon, ratio) == pytest.approx(gap, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1, 10, 300])
@pytest.mark.parametrize("delta", [0.4, 1e-3, 1e-6, 1e-12])
def test_the_ratio_is_the_least_that_is_private(epsilon, delta):
    ratio = noise_ratio(epsilon, delta)
    assert gaussian_delta(epsilon, ratio) <= delta < gaussian_delta(epsilon, ratio * (1 - 1e-9))


def test_known_values_and_limits():
    # Without epsilon delta is the total variation distance, 2 Phi(1/(2r)) - 1.
    assert noise_ratio(1e-12, 1e-2) == pytest.approx(1 / (2 * ndtri((1 + 1e-2) / 2)), rel=1e-6)
    # With much of it the two means need sqrt(2 epsilon) between them: r -> 1 / sqrt(2 epsilon).
    assert noise_ratio(1e6, 1e-6) == pytest.approx(1 / math.sqrt(2e6), rel=1e-2)
    # The classical bound (Dwork & Roth 2014, Theorem A.1) is for epsilon < 1, and never below.
    for epsilon in (0.1, 0.5, 0.99):
        classical = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
        assert 0.5 * classical < noise_ratio(epsilon, 1e-5) < classical
    assert noise_ratio(1, 1e-5) == pytest.approx(3.7306316, rel=1e-7)  # as other implementations print it


def test_a_share_of_the_budget_costs_nothing_beyond_itself():
    """Two Gaussian mechanisms are one whose squared inverse ratio is the sum."""
    whole = privacy()
    parts = [whole.ratio(purpose, True, 1) for purpose in (MEAN, MOMENTS)]
    assert sum(r**-2 for r in parts) == pytest.approx(noise_ratio(1.0, 1e-3) ** -2, rel=1e-12)
    assert parts[1] == pytest.approx(noise_ratio(1.0, 1e-3) / math.sqrt(0.9))
    assert whole.ratio(MOMENTS, False, 1) == noise_ratio(1.0, 1e-3)


# Noise


@pytest.mark.parametrize("n", [1, 3, 8])
def test_sensitivity_of_the_upper_triangle(rng, n):
    """At most ||a||^2, and that much on a coordinate axis: there it cannot be smaller."""
    upper = np.triu_indices(n)
    for a in [*rng.standard_normal((20, n)), 3.0 * np.eye(n)[0]]:
        change = np.linalg.norm(np.outer(a, a)[upper])
        assert change <= (a @ a) * (1 + 1e-14)
        assert change == pytest.approx(math.sqrt(((a @ a) ** 2 + np.sum(a**4)) / 2))
    assert change == pytest.approx(9.0)


@pytest.mark.parametrize("noise", ["alone", "together"])
def test_the_noise_has_the_scale_of_the_formula(noise):
    n, agents, scale = 60, 4, 3.0
    exact = problem(n=n, m=40, agents=agents, scale=scale)
    hidden = pca.private(exact, privacy(noise=noise, bound=100.0))
    expected = 100.0**2 * noise_ratio(1.0, 1e-3) / (1 if noise == "alone" else math.sqrt(agents))
    assert expected <= hidden.noise_scale <= expected * (1 + 1e-4)
    E = [(hidden.second_moments(i) - exact.second_moments(i)) / scale**2 for i in range(agents)]
    assert all(np.array_equal(e, e.T) for e in map(hidden.second_moments, range(agents)))
    entries = np.concatenate([e[np.triu_indices(n)] for e in E]) / expected
    assert scipy.stats.kstest(entries, "norm").pvalue > 1e-3
    assert np.std(entries) == pytest.approx(1, abs=4 / math.sqrt(2 * len(entries)))
    diagonal = np.concatenate([np.diag(e) for e in E]) / expected
    assert np.std(diagonal) == pytest.approx(1, abs=4 / math.sqrt(2 * len(diagonal)))


def test_the_objective_is_that_of_the_noisy_matrix():
    hidden = pca.private(problem(), privacy())
    X = destiny.stiefel.random_point(6, 2, 0)
    C = hidden.second_moments(1)
    hosted = hidden.host([1])
    assert hosted.value(X[None])[0] == pytest.approx(-0.5 * np.trace(X.T @ C @ X), rel=1e-12)
    assert np.allclose(hosted.gradient(X[None])[0], -C @ X, rtol=1e-12)
    assert hidden.variance(1) == pytest.approx(np.trace(C))


def test_a_row_however_long_moves_the_matrix_by_no_more_than_the_bound():
    far = pca.private(pca.PCA([(1e9 * np.eye(3)[:, :1]).T], 1), privacy(epsilon=1e8))
    assert np.abs(far.second_moments(0)).max() == pytest.approx(4.0, rel=1e-2)


def test_the_same_content_has_the_same_noise_and_other_content_other_noise():
    exact = problem()
    hidden = pca.private(exact, Privacy(**SETTINGS))
    C = hidden.second_moments(0)
    assert np.array_equal(C, hidden.second_moments(0))  # nothing to average
    assert not np.array_equal(C, pca.private(exact, Privacy(**SETTINGS)).second_moments(0))
    # Data that differ in one entry, of the same secret: the difference tells nothing.
    A = exact.data.load(0).table.copy()
    A[0, 0] += 1e-9
    one = pca.private(pca.PCA([exact.data.load(0).table], 2), privacy()).second_moments(0)
    two = pca.private(pca.PCA([A], 2), privacy()).second_moments(0)
    assert np.abs(one - two).max() > 0.1 * hidden.noise_scale
    # Another p and another type of the same numbers are the same content.
    other = pca.private(pca.PCA([exact.data.load(0).table], 3), privacy()).second_moments(0)
    assert np.array_equal(one, other)
    ints = [pca.PCA([np.arange(12).reshape(3, 4).astype(t).T], 1) for t in (np.int16, np.float32, np.float64)]
    matrices = [pca.private(p, privacy()).second_moments(0) for p in ints]
    assert np.array_equal(matrices[0], matrices[1])
    assert np.array_equal(matrices[0], matrices[2])


# Centering


def test_the_private_mean(rng):
    A = rng.standard_normal((5, 40_000)) + 3.0
    hidden = centered(pca.private(pca.from_data(A.T, 2, 4), privacy(bound=4.0, mean_bound=12.0)))
    result = destiny.solve(hidden, destiny.networks.ring(4))
    assert result.mean == pytest.approx(A.mean(axis=1), abs=0.05)
    assert np.array_equal(result.mean, on_grid(result.mean, 12.0))
    # All agents subtract the same numbers, and so does who pools the data.
    assert np.allclose(*(X @ X.T for X in (result.X, pca.solution(hidden.pooled()))), atol=1e-7)
    totals = hidden.totals(0)
    assert totals.sums[-1] != 10_000  # the number of rows is private, too
    assert totals.sums[-1] == pytest.approx(10_000, rel=1e-2)
    assert np.array_equal(totals.sizes, np.abs(totals.sums))  # nothing but what has noise is sent
    assert result.notes[:2] == [
        "centered: the mean of 5 columns was subtracted (4 rounds)",
        "differentially private: epsilon = 1, delta = 0.001, rows of norm 4 (each agent's noise suffices "
        "alone)",
    ]


def test_the_noise_of_the_sums_has_the_scale_of_the_formula():
    n, b = 300, 2.0
    exact = problem(n=n, m=9, agents=3)
    hidden = pca.private(exact, privacy())
    norms = [np.linalg.norm(exact.data.load(i).table, axis=1) for i in range(3)]
    sums = np.stack(
        [(exact.data.load(i).table.T * np.minimum(1, b / norms[i])).sum(axis=1) for i in range(3)]
    )
    noise = np.stack([hidden.private_totals(i) for i in range(3)]) - np.c_[sums, [3.0, 3.0, 3.0]]
    weight = b / n**0.25
    expected = noise_ratio(1.0, 1e-3) / math.sqrt(0.1) * math.hypot(b, weight)
    noise[:, -1] *= weight
    assert np.std(noise) == pytest.approx(expected, abs=4 * expected / math.sqrt(2 * noise.size))


def test_centering_few_rows_under_much_noise_is_refused():
    hidden = pca.private(problem(m=3), privacy(epsilon=0.01, seed=0))
    counts = [hidden.private_totals(i)[-1] for i in range(3)]
    agent = int(np.argmin(counts))
    assert counts[agent] < 0
    with pytest.raises(destiny.ProblemError, match="the noise hides that there are samples at all"):
        hidden.private_mean(hidden.private_totals(agent))


# The secret


def test_a_secret_file_is_made_for_its_owner_and_used_again(tmp_path):
    kept = Privacy(**SETTINGS, secret=str(tmp_path / "noise.key"))
    C = pca.private(problem(), kept).second_moments(0)
    assert stat.S_IMODE((tmp_path / "noise.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["noise.key"]
    again = pca.private(problem(), kept)
    assert np.array_equal(C, again.second_moments(0))
    assert np.array_equal(again.second_moments(1), pca.private(problem(), kept).second_moments(1))
    with pytest.raises(destiny.ProblemError, match="data or settings are not those of the first run"):
        pca.private(problem(seed=1), kept).second_moments(0)
    with pytest.raises(destiny.ProblemError, match="data or settings are not those of the first run"):
        pca.private(problem(), Privacy(**{**SETTINGS, "epsilon": 2.0}, secret=kept.secret)).second_moments(0)


def test_a_record_that_a_crash_cut_short_does_not_count(tmp_path):
    path = tmp_path / "noise.key"
    kept = Privacy(**SETTINGS, secret=str(path))
    C = pca.private(problem(), kept).second_moments(0)
    text = path.read_text()
    path.write_text(text[:-10])
    assert np.array_equal(C, pca.private(problem(), kept).second_moments(0))
    assert np.array_equal(C, pca.private(problem(), kept).second_moments(0))


@pytest.mark.parametrize(
    ("content", "mode", "sentence"),
    [
        ("ab", 0o600, "must begin with a secret of 64 hexadecimal digits"),
        ("zz" * 32, 0o600, "must begin with a secret"),
        ("", 0o600, "must begin with a secret"),
        ("ab" * 32, 0o640, "others can read it: chmod 600"),
    ],
)
def test_secret_files_that_cannot_be_used(tmp_path, content, mode, sentence):
    path = tmp_path / "noise.key"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(destiny.ProblemError, match=sentence):
        pca.private(problem(), Privacy(**SETTINGS, secret=str(path))).second_moments(0)


def test_a_secret_in_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(destiny.ProblemError, match="No such file or directory"):
        pca.private(
            problem(), Privacy(**SETTINGS, secret=str(tmp_path / "none" / "noise.key"))
        ).second_moments(0)


# Refusals


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epsilon": 0}, "epsilon must be a number above 0, such as 1; found 0"),
        ({"epsilon": -1.0}, "epsilon must be a number above 0"),
        ({"epsilon": math.inf}, "epsilon must be a number above 0"),
        ({"epsilon": "1"}, "epsilon must be a number above 0"),
        ({"delta": 0}, "delta must be a number between 0 and 1, well below 1 / .*; found 0"),
        ({"delta": 1}, "delta must be a number between 0 and 1"),
        ({"delta": math.nan}, "delta must be a number between 0 and 1"),
        ({"bound": 0}, "bound must be a number above 0: the norm that rows are scaled down to; found 0"),
        ({"bound": None}, "bound must be a number above 0"),
        ({"mean_bound": -1}, "mean_bound must be a number above 0"),
        ({"mean_share": 1}, "mean_share must be a number between 0 and 1"),
        ({"noise": "shared"}, 'noise must be "alone" or "together"; found .shared.'),
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"seed": 1, "secret": "x"}, "secret or from seed; found both"),
    ],
)
def test_settings_that_cannot_be_used(changes, sentence):
    with pytest.raises(destiny.ProblemError, match=sentence):
        Privacy(**{**SETTINGS, **changes})


def test_problems_that_cannot_be_private():
    with pytest.raises(destiny.ProblemError, match="only PCA can be private, once; found OLSR; give a PCA"):
        pca.private(destiny.problems.OLSR([np.eye(3)], [np.eye(3)]), privacy())
    with pytest.raises(destiny.ProblemError, match="found Centered; make the problem private first"):
        pca.private(centered(problem()), privacy())
    with pytest.raises(destiny.ProblemError, match="once; found PrivatePCA"):
        pca.private(pca.private(problem(), privacy()), privacy())
    with pytest.raises(destiny.ProblemError, match=r"privacy must be destiny.problems.Privacy\(epsilon"):
        pca.private(problem(), {"epsilon": 1})
    with pytest.raises(destiny.ProblemError, match="private data cannot be standardized"):
        centered(pca.private(problem(), privacy()), standardize=True)


# Nothing else is told


def test_descriptions_and_portraits_come_from_noise(rng):
    exact = problem(m=53)
    hidden = pca.private(exact, privacy())
    assert "53" in exact.describe()
    assert "53" not in hidden.describe()
    assert hidden.host([0, 1, 2]).totals is None  # no note on the mean of the rows
    total = sum(hidden.second_moments(i) for i in range(3))
    X = destiny.stiefel.random_point(6, 2, 0)
    portrait = hidden.portrait({"a": X})["spectrum"]
    assert portrait["pooled"] == pytest.approx(np.linalg.eigvalsh(total)[::-1])
    assert portrait["found"]["a"] == pytest.approx(np.linalg.eigvalsh(X.T @ total @ X)[::-1])
    assert np.allclose(pca.solution(hidden).T @ total @ pca.solution(hidden), np.diag(portrait["pooled"][:2]))


# Audit: somebody who knows all rows but one, and the method, guesses whether that one is there.

DRAWS = 1200
WITHOUT_ROW = pca.PCA([np.ones((3, 2))], 1)
WITH_ROW = pca.PCA([np.c_[np.ones((2, 3)), [2.0, 0.0]].T], 1)
CONFIDENCE = 0.9999


def audit(draw, epsilon: float, delta: float) -> None:
    """Assert that the best threshold on draw(present, seed) does not tell more than (epsilon, delta) allow.

    The threshold is chosen on one half of the draws; on the other, with confidence, the rates must obey
    P(S) <= exp(epsilon) Q(S) + delta, where S is "above" or "below" and P, Q are with and without the row.
    """
    scores = np.array([[draw(present, seed) for seed in range(DRAWS)] for present in (False, True)])
    first, second = scores[:, ::2], scores[:, 1::2]
    grid = np.quantile(first, np.linspace(0.01, 0.99, 99))

    def gain(threshold: float, some: np.ndarray) -> float:
        q, p = (some > threshold).mean(axis=1)
        return float(max(p - math.exp(epsilon) * q, (1 - q) - math.exp(epsilon) * (1 - p))) - delta

    best = max(grid, key=lambda threshold: gain(threshold, first))
    count = second.shape[1]
    for above in (True, False):
        hits = (second > best).sum(axis=1) if above else (second <= best).sum(axis=1)[::-1]
        tail = (1 - CONFIDENCE) / 2
        least_p = scipy.stats.beta.ppf(tail, hits[1], count - hits[1] + 1) if hits[1] else 0.0
        most_q = scipy.stats.beta.ppf(1 - tail, hits[0] + 1, count - hits[0]) if hits[0] < count else 1.0
        assert least_p <= math.exp(epsilon) * most_q + delta, (least_p, most_q)


@pytest.fixture
def noise_at_once(monkeypatch):
    """All noise of an audit in one draw: the same law, and no draw of few numbers thousands of times."""
    drawn: dict[int, Iterator[int]] = {}

    def some(_: bytes, count: int, bits: int) -> np.ndarray:
        if bits not in drawn:
            drawn[bits] = iter(rounded_normal(b"audit", 55 * TRIES, bits))
        return np.fromiter(drawn[bits], np.int64, count)

    monkeypatch.setattr(destiny.problems.privacy, "rounded_normal", some)


def release(present: bool, seed: int, center: bool) -> float:
    """The log-likelihood ratio of what one agent tells, up to constants: the best score there is.

    The row is on a coordinate axis and as long as the bound, where sensitivity is largest.
    """
    hidden = pca.private(WITH_ROW if present else WITHOUT_ROW, privacy(seed=seed))
    if not center:
        return float(hidden.second_moments(0)[0, 0])
    totals = hidden.private_totals(0)
    weight = 2.0 / 2**0.25
    shift = destiny.problems.data.partition.Shift(np.zeros(2), np.ones(2))  # as if the mean were 0
    C = hidden.with_shifts({0: shift}).second_moments(0)
    variance = (hidden.privacy.ratio(MEAN, True, 1) * math.hypot(2.0, weight)) ** 2
    spread = (hidden.privacy.ratio(MOMENTS, True, 1) * 4.0) ** 2
    return float((2 * totals[0] + weight**2 * totals[-1]) / variance + 4 * C[0, 0] / spread)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.usefixtures("noise_at_once")
def test_audit(center):
    audit(lambda present, seed: release(present, seed, center), 1.0, 1e-3)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.usefixtures("noise_at_once")
def test_the_audit_fails_where_noise_is_too_small(center, monkeypatch):
    ratio = Privacy.ratio
    monkeypatch.setattr(Privacy, "ratio", lambda *args: ratio(*args) / 10)
    with pytest.raises(AssertionError):
        audit(lambda present, seed: release(present, seed, center), 1.0, 1e-3)


# Audit of the bits: somebody who knows the code and all rows but one asks which table the exact numbers fit.


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("n", [4, 10])
def test_floats_tell_tables_apart_by_their_last_bits(n, epsilon):
    """What the audit below is for: Gaussian noise in float64, of the right size, hides nothing."""
    upper, s, right = np.triu_indices(n), 4.0 * noise_ratio(epsilon, 1e-6), 0
    sums = [(A.T @ A)[upper] for A in two_tables(n)]
    for seed in range(TRIES):
        released = sums[seed % 2] + s * noise_of_floats(seed, len(upper[0]))
        shares = [possible_in_floats(released, exact, s) for exact in sums]
        right += finds_out(seed % 2, shares, [float(np.linalg.norm(released - exact)) for exact in sums])
    assert right > 0.98 * TRIES


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("n", [4, 10])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.usefixtures("noise_at_once")
def test_audit_of_the_bits(n, epsilon, center):
    """Every release is possible with the row and without, and guesses are no better than epsilon allows."""
    tables, upper, right = two_tables(n), np.triu_indices(n), 0
    setting = Privacy(epsilon, 1e-6, 2.0, seed=0)
    hidden = [pca.private(pca.PCA([A], 1), setting) for A in tables]
    if center:
        grid, weight = setting.grid_of_sums(1, n)
        units = np.append(np.full(n, grid.unit), 1 / weight)
        sums = [np.append(grid.sums(Rows(A)), weight * len(A)) for A in tables]
    else:
        grid = setting.grid_of_moments(False, 1)
        units = np.full(len(upper[0]), grid.unit**2)
        sums = [grid.moments(Rows(A))[upper] for A in tables]
    for k in range(TRIES):
        there = hidden[k % 2]
        released = there.private_totals(0) if center else there.second_moments(0)[upper]
        shares = [possible_in_units(released, exact, units) for exact in sums]
        assert shares == [1.0, 1.0]
        distances = [float(np.linalg.norm(released / units - exact)) for exact in sums]
        right += finds_out(k % 2, shares, distances)
    assert right <= most_guesses(epsilon, 1e-6)


def test_private_is_a_pca_problem():
    hidden = pca.private(problem(), privacy())
    assert isinstance(hidden, PrivatePCA)
    assert (hidden.kind, hidden.shape, hidden.agents) == ("pca", (6, 2), 3)
