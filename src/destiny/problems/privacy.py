"""Differential privacy of what agents tell of their rows: the settings, and the secret behind the noise."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.data.rows import Rows
from destiny.problems.gaussian_mechanism import noise_ratio
from destiny.problems.integer_sums import Grid
from destiny.problems.rounded_normal import Whole, rounded_normal
from destiny.protocols import Array
from destiny.validation import is_number, is_whole

BYTES = 32  # of a secret: what a search cannot go through
OWNER_ONLY = 0o600
MEAN, MOMENTS, VARIANCE = "mean", "second moments", "variance"  # what noise is added to
GRID = 2.0**-24
"""Of the bound: private means are rounded to multiples of about this, so that all agents subtract the same
numbers although their averages differ in the last bits. The noise of a mean, about bound / m, is larger."""


@dataclass(frozen=True)
class Privacy:
    """(epsilon, delta)-differential privacy of single rows (samples), by Gaussian noise added once.

    Whoever sees everything an agent sends, in all rounds of all runs on one problem, learns almost the same
    whether or not any one row is among its data: every event is at most exp(epsilon) times as likely with the
    row as without it, and the other way round, up to delta. This holds for the exact bits of what is sent:
    rows and noise are whole numbers of a unit. See docs/differential-privacy.md.

    Parameters
    ----------
    epsilon : float
        Above 0; the smaller, the more noise.
    delta : float
        Between 0 and 1; well below 1 / (number of rows).
    bound : float
        Rows are scaled down to at most this norm: centered ones, where the problem is centered. Choose it
        from what is publicly known, not from the data; noise grows with its square.
    noise : "alone" or "together"
        Whose noise must suffice: that of each agent alone, or that of all agents together, each adding
        1/sqrt(d) of it. Together is for private messages only, and protects the answer, not what agents of
        the run see on the way.
    mean_bound : float, optional
        The same as ``bound`` for the rows before they are centered; by default ``bound``.
    mean_share : float
        What the mean takes of the budget, where the problem is centered: its share of 1 / ratio^2, where
        ratio is that of noise to sensitivity. With 0.1 the noise of the second moments grows by a twentieth.
    secret : path, optional
        A file with the secret that the noise comes from, made (readable by its owner only) if it is not
        there. A run can be resumed by another process only with it. By default the secret is drawn by the
        operating system and never written.
    seed : int, optional
        For tests: the noise comes from this number instead. Whoever knows it can subtract the noise.
    """

    epsilon: float
    delta: float
    bound: float
    noise: Literal["alone", "together"] = "alone"
    mean_bound: float | None = None
    mean_share: float = 0.1
    secret: str | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        _require("epsilon", self.epsilon, 0.0, math.inf, "above 0, such as 1")
        _require("delta", self.delta, 0.0, 1.0, "between 0 and 1, well below 1 / (number of rows)")
        for name, bound in (("bound", self.bound), ("mean_bound", self.mean_bound)):
            if bound is not None or name == "bound":
                _require(name, bound, 0.0, math.inf, "above 0: the norm that rows are scaled down to")
        _require(
            "mean_share", self.mean_share, 0.0, 1.0, "between 0 and 1: what the mean takes of the budget"
        )
        if self.noise not in ("alone", "together"):
            raise ProblemError(f'noise must be "alone" or "together"; found {self.noise!r}')
        if self.seed is not None and (not is_whole(self.seed) or self.seed < 0):
            raise ProblemError(f"seed must be a whole number >= 0; found {self.seed!r}")
        if self.seed is not None and self.secret is not None:
            raise ProblemError("noise comes from secret or from seed; found both: leave one out")

    def ratio(self, purpose: str, centered: bool, agents: int, part: float = 1.0) -> float:
        """Standard deviation over sensitivity of the noise that one of ``agents`` agents adds.

        Gaussian mechanisms compose exactly, one after the other too: the reciprocals of the squared ratios
        add up (Dong, Roth & Su, Gaussian differential privacy, 2022). ``part`` of what is not for the mean
        is for this release.
        """
        share = 1.0
        if centered:
            share = self.mean_share if purpose == MEAN else 1 - self.mean_share
        ratio = noise_ratio(self.epsilon, self.delta) / math.sqrt(share * part)
        return ratio / math.sqrt(agents) if self.noise == "together" else ratio

    def grid_of_sums(self, agents: int, columns: int) -> tuple[Grid, int]:
        """The grid of the sums of the rows, and how many units a row adds to their count.

        A sample z of norm at most b adds (z, c) to the sums, whose norm is at most (b^2 + c^2)^(1/2). The
        squared error of the mean, sensitivity^2 (n + b^2/c^2) ratio^2 / m^2 if the mean is as long as b, is
        least for c = b / n^(1/4).
        """
        ratio, share = self.ratio(MEAN, True, agents), columns**-0.25
        grid = Grid.of(self.row_bound(MEAN), ratio, agents, 1, math.hypot(1.0, share))
        return grid, int(grid.length * share)

    def grid_of_moments(self, centered: bool, agents: int) -> Grid:
        """The grid of the second moments.

        A sample z changes the upper triangle with its diagonal by the products z_i z_j, i <= j, whose 2-norm
        ((||z||^4 + sum_i z_i^4) / 2)^(1/2) is at most ||z||^2, with equality on the coordinate axes.
        """
        return Grid.of(self.row_bound(MOMENTS), self.ratio(MOMENTS, centered, agents), agents, 2)

    def row_bound(self, purpose: str) -> float:
        """What rows are clipped to."""
        return self.mean_bound if purpose == MEAN and self.mean_bound is not None else self.bound

    @property
    def settings(self) -> dict[str, Any]:
        """What must be equal at all agents, by the names that files have for it."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.bound,
            "noise": self.noise,
            "mean-bound": self.row_bound(MEAN),
            "mean-share": self.mean_share,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        whose = "each agent's noise suffices alone" if self.noise == "alone" else "the agents' noise together"
        return f"epsilon = {self.epsilon:g}, delta = {self.delta:g}, rows of norm {self.bound:g} ({whose})"


def require_privacy(privacy: object) -> None:
    """Refuse what is not a `Privacy`."""
    if not isinstance(privacy, Privacy):
        raise ProblemError(
            f"privacy must be destiny.problems.Privacy(epsilon, delta, bound); found {privacy!r}"
        )


def _require(name: str, value: object, low: float, high: float, what: str) -> None:
    if not is_number(value) or not low < value < high:
        raise ProblemError(f"{name} must be a number {what}; found {value!r}")


class NoiseSource:
    """The noise of the agents of this process: a function of a secret and of what it is added to.

    The same content gets the same noise, so that a restarted agent says the same again and nothing can be
    learned by averaging; other content gets independent noise, so that differences tell nothing either.
    """

    def __init__(self, privacy: Privacy) -> None:
        self.privacy = privacy
        self.drawn = secrets.token_bytes(BYTES)

    @cached_property
    def secret(self) -> bytes:
        """From the seed, the file, or the operating system."""
        if self.privacy.seed is not None:
            return hashlib.sha256(f"seed {self.privacy.seed}".encode()).digest()
        return self.drawn if self.privacy.secret is None else _read_or_create(Path(self.privacy.secret))

    @property
    def fingerprint(self) -> str:
        """Tells secrets from each other without telling them."""
        return hashlib.sha256(b"fingerprint" + self.secret).hexdigest()[:16]

    def draw(self, agent: int, purpose: str, data: Rows, grid: Grid, count: int, query: bytes = b"") -> Whole:
        """``count`` rounded normal numbers of an agent, to be added to sums of ``data`` on ``grid``.

        ``query`` is what else the sums depend on.
        """
        content = digest_of(data, grid.bound, grid.length, grid.bits, *([query] if query else []))
        label, secret = f"{agent} {purpose} ", self.secret
        if self.privacy.secret is not None:
            _record(Path(self.privacy.secret), label, content.hex())
        return rounded_normal(secret + label.encode() + content, count, grid.bits)


def digest_of(data: Rows, *further: object) -> bytes:
    """SHA-256 of rows ``(m, n)`` as float64, and of what else the noise must depend on."""
    checksum = hashlib.sha256(repr((data.shape, further)).encode())
    for _, block in data.dense_blocks():
        checksum.update(block.tobytes())
    return checksum.digest()


def on_grid(mean: Array, bound: float) -> Array:
    """Rounded to multiples of a power of two near GRID * bound."""
    unit = 2.0 ** round(math.log2(GRID * bound))
    return np.asarray(np.rint(mean / unit) * unit)


def _read_or_create(path: Path) -> bytes:
    """The secret in a file, which is made first if it is not there; of two who make it one wins."""
    try:
        aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        if not path.exists():
            with os.fdopen(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY), "w") as file:
                file.write(secrets.token_hex(BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
            aside.unlink()
        mode = path.stat().st_mode
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise ProblemError(f"the secret of the noise cannot be kept in {path}: {why}") from error
    if mode & 0o077:
        raise ProblemError(f"{path} holds the secret of the noise and others can read it: chmod 600 {path}")
    try:
        secret = bytes.fromhex(lines[0])
    except (IndexError, ValueError):
        secret = b""
    if len(secret) != BYTES:
        raise ProblemError(
            f"{path} must begin with a secret of {2 * BYTES} hexadecimal digits; it is damaged"
        )
    return secret


def _record(path: Path, label: str, content: str) -> None:
    """Note what the noise was added to; refuse to release anything else with the same secret."""
    text = path.read_text(encoding="ascii")
    line = label + content
    used = {old for old in text.split("\n") if old.startswith(label) and len(old) == len(line)}
    if not used:  # a line cut short by a crash does not count: nothing was told after it
        with path.open("a", encoding="ascii") as file:
            file.write(("" if text.endswith("\n") else "\n") + line + "\n")
            file.flush()
            os.fsync(file.fileno())
    elif used != {line}:
        raise ProblemError(
            f"the data or settings are not those of the first run with {path}: telling more of the same rows "
            "would cost their budget again; take the same data, or start a new run with a new secret and a "
            "budget of its own"
        )
