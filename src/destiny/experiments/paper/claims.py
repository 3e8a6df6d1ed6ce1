"""What a paper claims of a figure, held against the runs: claim, what was measured, whether it holds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

import numpy as np

from destiny.config.tables import Table, read
from destiny.errors import SettingsError
from destiny.run.history import History

Runs = Mapping[str, Mapping[str, list[History]]]  # panel, label, one history per seed

LEVEL = 1e-6  # where curves are compared, unless a claim says otherwise
BOTH = ("stationarity", "consensus")  # the two measures the paper plots


class Claim(Table, frozen=True):
    """[[claim]]; each kind reads its own keys."""

    text: str
    kind: str
    of: str | list[str] | None = None
    than: list[str] | None = None
    among: list[str] | None = None
    factor: float | None = None
    level: float | None = None
    measures: list[str] | None = None
    panels: list[str] | None = None


@dataclass(frozen=True)
class Verdict:
    """A claim, what was measured, and whether it holds; None if there was nothing to measure."""

    claim: str
    measured: str
    holds: bool | None
    panels: list[str]

    @property
    def word(self) -> str:
        """Whether it holds, in words."""
        return {True: "holds", False: "does not hold", None: "not decided"}[self.holds]

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)


@dataclass(frozen=True)
class Reach:
    """Rounds until some measures of a method stay below a level, over seeds; infinite where they never do."""

    rounds: list[float]
    limit: int

    @property
    def median(self) -> float:
        """The middle one; of an even number the worse of the two."""
        return statistics.median_high(self.rounds)

    def __str__(self) -> str:
        done = [r for r in self.rounds if r < inf]
        if not done:
            return f"never ({self.limit} rounds)"
        spread = f"{min(done):.0f}-{max(done):.0f}" if min(done) < max(done) else f"{done[0]:.0f}"
        never = f"never in {len(self.rounds) - len(done)} of {len(self.rounds)} seeds"
        if self.median == inf:
            return f"{never}, else {spread}"
        text = f"{self.median:.0f}" + (f" ({spread})" if min(done) < max(done) else "")
        return text if len(done) == len(self.rounds) else f"{text}, {never}"


def reach(
    histories: list[History], measures: tuple[str, ...] | list[str], level: float, column: str = "round"
) -> Reach:
    """From when on each run has all ``measures`` at or below ``level``.

    Not when it first has: the common start is in perfect consensus, and unsafe steps come and go. ``column``
    is what is counted.
    """
    rounds = []
    for history in histories:
        worst = np.max([history[measure] for measure in measures], axis=0)
        above = np.flatnonzero(~(worst <= level))  # NaN is not below anything
        first = above[-1] + 1 if above.size else 0
        rounds.append(float(history[column][first]) if first < len(history) else inf)
    return Reach(rounds, int(max(history[column][-1] for history in histories)))


def judge(claim: Mapping[str, Any], runs: Runs, titles: Mapping[str, str]) -> Verdict:
    """Hold one claim against the runs; it must hold in each of its panels."""
    read(Claim, dict(claim), "[[claim]]")
    if claim["kind"] not in KINDS:
        raise SettingsError(f"[[claim]] kind must be one of {', '.join(KINDS)}; found {claim['kind']!r}")
    panels = [panel for panel in claim.get("panels", runs) if panel in runs]
    if not panels:
        return Verdict(claim["text"], "not run", None, [])
    verdicts = [KINDS[claim["kind"]](claim, runs[panel]) for panel in panels]
    texts = [f"{titles.get(p, p)}: {text}" for p, (text, _) in zip(panels, verdicts, strict=True)]
    return Verdict(claim["text"], "; ".join(texts) + ".", all(holds for _, holds in verdicts), panels)


def ahead(claim: Mapping[str, Any], panel: Mapping[str, list[History]]) -> tuple[str, bool]:
    """``of`` needs fewer rounds than each of ``than``, by ``factor`` if there is one, in every measure."""
    factor = claim.get("factor")
    return against(claim, panel, lambda a, b: a < b if factor is None else factor * a <= b)


def competitive(claim: Mapping[str, Any], panel: Mapping[str, list[History]]) -> tuple[str, bool]:
    """``of`` needs at most ``factor`` times the rounds of each of ``than``, in every measure."""
    return against(claim, panel, lambda a, b: a <= claim["factor"] * b)


def against(
    claim: Mapping[str, Any], panel: Mapping[str, list[History]], wins: Callable[[float, float], bool]
) -> tuple[str, bool]:
    """``of`` and the best of ``than``, measure by measure."""
    holds, texts = True, []
    for measure in claim.get("measures", BOTH):
        first = reach(panel[claim["of"]], [measure], claim.get("level", LEVEL))
        others = {name: reach(panel[name], [measure], claim.get("level", LEVEL)) for name in claim["than"]}
        best = min(others, key=lambda name: others[name].median)
        holds &= first.median < inf and wins(first.median, others[best].median)
        texts.append(f"{measure} {first} against {others[best]} of {best}{fewer(first, others[best])}")
    return f"rounds to {claim.get('level', LEVEL):g}: " + ", ".join(texts), holds


def fewer(first: Reach, other: Reach) -> str:
    """How many rounds fewer, or more."""
    if max(first.median, other.median) == inf or first.median == other.median or other.median == 0:
        return ""  # below the level from the start on: steps too short to part
    share = abs(1 - first.median / other.median)
    word = "fewer" if first.median < other.median else "more"
    return f" ({abs(other.median - first.median):.0f} {word}, {share:.0%})"


def level_with(claim: Mapping[str, Any], panel: Mapping[str, list[History]]) -> tuple[str, bool]:
    """``of`` and each of ``than`` need the same rounds but for ``factor``."""
    everyone = [claim["of"], *claim["than"]]
    return together(claim, {name: panel[name] for name in everyone})


def coincide(claim: Mapping[str, Any], panel: Mapping[str, list[History]]) -> tuple[str, bool]:
    """All of ``among`` need the same rounds but for ``factor``; and which of them do."""
    return together(claim, {name: panel[name] for name in claim["among"]})


def together(claim: Mapping[str, Any], panel: Mapping[str, list[History]]) -> tuple[str, bool]:
    """All methods within ``factor`` of the fastest."""
    at, factor = claim.get("level", LEVEL), claim.get("factor", 1.0)
    results = {name: reach(histories, claim.get("measures", BOTH), at) for name, histories in panel.items()}
    fastest = min(r.median for r in results.values())
    near = [name for name, r in results.items() if r.median <= factor * fastest and r.median < inf]
    texts = [f"{name} {r}" for name, r in results.items()]
    holds = len(near) == len(results)
    text = f"rounds to {at:g}: " + ", ".join(texts)
    return text if holds or len(near) < 2 else f"{text}; within the factor: {', '.join(near)}", holds


def fails(claim: Mapping[str, Any], panel: Mapping[str, list[History]]) -> tuple[str, bool]:
    """None of ``of`` reaches the level on most seeds."""
    names = [claim["of"]] if isinstance(claim["of"], str) else claim["of"]
    holds, texts = True, []
    for name in names:
        results = reach(panel[name], BOTH, claim.get("level", LEVEL))
        failed = sum(r == inf for r in results.rounds)
        holds &= 2 * failed > len(results.rounds)
        last = float(np.median([max((h[m][-1] for m in BOTH), key=badness) for h in panel[name]]))
        texts.append(f"{name} {results}" + (f" (ends at {last:.0e})" if failed and last == last else ""))
    return f"rounds to {claim.get('level', LEVEL):g}: " + ", ".join(texts), holds


def badness(value: float) -> float:
    """For the worst of several: what is no number is worse than any."""
    return value if value == value else inf


KINDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, list[History]]], tuple[str, bool]]] = {
    "ahead": ahead,
    "competitive": competitive,
    "level": level_with,
    "coincide": coincide,
    "fails": fails,
}
