"""What a run is: problem, network, start, method and messages, completed, and refused if they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from destiny._version import __version__
from destiny.algorithms import METHODS
from destiny.engines.mixers.plain import PLAIN, Messages
from destiny.engines.same_settings import columns_of
from destiny.errors import MismatchError, ProblemError, SettingsError
from destiny.geometry.generalized import MassMatrix
from destiny.geometry.stiefel import SAFE_REGION, random_point, violation
from destiny.problems import Centered, Separable
from destiny.problems.own_problem import as_problem, unwrap
from destiny.problems.private_part import private_part
from destiny.problems.private_products import PrivateProductsPCA
from destiny.protocols import (
    About,
    Algorithm,
    AlgorithmBase,
    Array,
    Method,
    Objective,
    Problem,
    ProblemBase,
    Regularizer,
    Topology,
    TopologyBase,
    Trait,
)
from destiny.protocols.link import INTERNET, Link, checked_link
from destiny.run.choice import Choice, choose
from destiny.run.own import as_algorithm, as_topology, settings_of
from destiny.run.parts.part import RunPart
from destiny.storage.checkpoint import network_digest

MARKED: tuple[Trait, ...] = ("regularized", "generalized")  # of methods that a refusal names
SYMMETRIC = 1e-10  # largest difference of two weights that must be equal: rounding


@dataclass(frozen=True)
class Plan:
    """A run that has been checked (`make_plan`) and can be started, once: its parts keep what they find."""

    problem: ProblemBase
    network: TopologyBase
    algorithm: AlgorithmBase
    X: Array
    """The start ``(d, n, p)``."""
    messages: Messages
    parts: tuple[RunPart, ...] = ()
    choice: Choice | None = None
    """How the algorithm was chosen, if none was given."""

    @property
    def solved(self) -> ProblemBase:
        """The problem whose objectives the agents evaluate."""
        return next((part.solved for part in self.parts if part.solved is not None), self.problem)

    @property
    def mass(self) -> MassMatrix | None:
        """M of the constraint X^T M X = I; None for X^T X = I."""
        return next((part.mass for part in self.parts if part.mass is not None), None)

    @property
    def preparations(self) -> dict[str, int]:
        """What rounds before the first step are for, and how many."""
        rounds = {part.task: part.rounds(self) for part in self.parts}
        rounds["choose beta and steps"] = self.algorithm.opening
        return {task: count for task, count in rounds.items() if count > 0}

    @property
    def opening(self) -> int:
        """Rounds before the first step, as far as they are known."""
        return sum(self.preparations.values())

    def fresh_parts(self) -> tuple[RunPart, ...]:
        """The same parts, for another run."""
        return parts_of(self.problem)

    def identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be this run's."""
        regularizer = self.problem.regularizer
        table: dict[str, Any] = {
            "shape": list(self.X.shape),
            # Messages and the network first: settings may follow from them.
            "messages": str(self.messages),
            "network": network_digest(self.network),
            "settings": settings_of(self.algorithm),
            "regularizer": None if regularizer is None else repr(regularizer),
        }
        for part in self.parts:
            table |= part.identity()
        return table

    def facts(self) -> dict[str, Any]:
        """What must be the same in all processes of the run."""
        return {
            "package version": __version__,
            "problem": [self.problem.kind, self.problem.agents, *self.problem.shape],
            "columns": columns_of(self.problem),
            "algorithm": settings_of(self.algorithm),
            **self.identity(),
        }


def make_plan(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    *,
    start: Array | None = None,
    seed: int = 0,
    messages: Messages = PLAIN,
    tolerance: float = 0.0,
    link: Link = INTERNET,
) -> Plan:
    """Complete and check what a run is; nothing is computed yet. It raises errors of `destiny.errors`."""
    ours, topology, X = check_inputs(problem, network, start, seed)
    choice = None
    if algorithm is None:
        choice = choose(ours, topology, tolerance, messages, link=checked_link(link))
        algorithm = choice.algorithm
    method = prepared_algorithm(algorithm, ours, topology)
    messages.check(topology, method)
    plan = Plan(ours, topology, method, X, messages, parts_of(ours, start is None), choice)
    for part in plan.parts:
        part.check(plan)
    return plan


def parts_of(problem: ProblemBase, free: bool = True) -> tuple[RunPart, ...]:
    """What the features of a problem add to a run; ``free`` is whether the start may be chosen.

    A part is imported when it is asked for: a plain run never sees those of others.
    """
    parts: list[RunPart] = []
    if (centered := unwrap(problem, Centered)) is not None:
        from destiny.run.parts.centering import Centering

        parts.append(Centering(centered))
    if problem.generalized:
        from destiny.run.parts.constraint import Constraint

        parts.append(Constraint())
    if problem.batches:
        from destiny.run.parts.batches import Batches

        parts.append(Batches(problem.batches))
    if (private := private_part(problem)) is not None:
        from destiny.run.parts.privacy import PrivateData
        from destiny.run.parts.private_products import PrivateProducts

        parts.append(PrivateData(private))
        if isinstance(private, PrivateProductsPCA):
            parts.append(PrivateProducts(private))
    if problem.shape[0] == problem.shape[1]:
        from destiny.run.parts.square import BothHalves

        parts.append(BothHalves(free))
    return tuple(parts)


def check_inputs(
    problem: Problem | Sequence[Objective], network: Topology, start: Array | None, seed: int
) -> tuple[ProblemBase, TopologyBase, Array]:
    """Complete problem and network with the members of their base classes; the start as ``(d, n, p)``."""
    if isinstance(problem, Sequence):
        if start is None:
            raise ProblemError("a list of objectives has no shape of its own: give start, an n x p matrix")
        problem = Separable(problem, np.shape(start)[-2:])
    ours, topology = as_problem(problem), as_topology(network)
    d, (n, p) = ours.agents, ours.shape
    if topology.agents != d:
        raise SettingsError(
            f"the problem has {d} agents but the network has {topology.agents}: make them equal"
        )
    if not topology.connected:
        raise SettingsError(
            "the network must be connected; found one that can only be a part of periodic or sequence"
        )
    if topology.checked:
        topology.at(0)  # raises if it is not valid
    X = random_point(n, p, seed) if start is None else np.asarray(start, dtype=np.float64)
    if X.shape not in ((n, p), (d, n, p)):
        raise SettingsError(f"start must be {n} x {p} (or {d} x {n} x {p}); found shape {X.shape}")
    if not np.isfinite(X).all():
        raise SettingsError("start must be finite; found NaN or infinite entries")
    if not ours.generalized and (worst := float(np.max(violation(X)))) > SAFE_REGION:
        raise SettingsError(
            f"start must be near the manifold, ||X^T X - I|| <= 1/6; found {worst:.3g}: "
            "orthonormalize its columns"
        )
    return ours, topology, np.broadcast_to(X, (d, n, p))


def prepared_algorithm(
    algorithm: Algorithm[Any] | str, problem: ProblemBase, network: TopologyBase
) -> AlgorithmBase:
    """The algorithm, once it fits problem and network, with what all agents must be told of the network."""
    given = as_algorithm(algorithm)
    require_fit(given, problem)
    if given.about is not None and "fixed" in given.about:
        _require_static(given.about, network)
    return given.on(network)


def require_fit(algorithm: Method, problem: ProblemBase) -> None:
    """Refuse a method that cannot solve this problem, by what it says of itself."""
    if algorithm.about is not None:
        require_able(algorithm.about, Needs.of(problem))


def require_able(about: About, needs: Needs) -> None:
    """Refuse a method made for other problems, by the table `REFUSED`."""
    for applies, sentence in REFUSED:
        if applies(about, needs):
            able = {
                name: ", ".join(method.kind for method in METHODS if name in method.about) for name in MARKED
            }
            solves, kind = (about.problem or "").upper(), needs.kind.upper()
            raise MismatchError(
                f"{about.title} {sentence.format(needs=needs, solves=solves, kind=kind, **able)}"
            )


@dataclass(frozen=True)
class Needs:
    """What a problem asks of a method."""

    kind: str
    agents: int
    regularizer: Regularizer | None = None
    generalized: bool = False
    noisy: bool = False
    """Whether noise may have made second moments indefinite."""

    @classmethod
    def of(cls, problem: ProblemBase) -> Needs:
        noisy = private_part(problem) is not None
        return cls(problem.kind, problem.agents, problem.regularizer, problem.generalized, noisy)


REFUSED: tuple[tuple[Callable[[About, Needs], bool], str], ...] = (
    (
        lambda about, needs: about.problem not in (None, needs.kind),
        "solves {solves} only; this problem is {kind}: choose a method for any f, such as destiny",
    ),
    (
        lambda about, needs: "alone" in about and needs.agents > 1,
        "is a method for one agent; this problem has {needs.agents}: choose a decentralized method, or pool "
        "the data (destiny.problems.pooled)",
    ),
    (
        lambda about, needs: needs.regularizer is not None and "regularized" not in about,
        "needs a smooth objective; this problem has the regularizer {needs.regularizer!r}: choose a method "
        "with a prox ({regularized}), or leave the regularizer out",
    ),
    (
        lambda about, needs: needs.generalized and "generalized" not in about,
        "keeps X^T X = I; this problem has the constraint X^T M X = I: choose a method for it "
        "({generalized}), or leave M out",
    ),
    (
        lambda about, needs: needs.noisy and "semidefinite" in about,
        "needs positive semidefinite second moments; those of private data have noise: choose another "
        "method, such as destiny",
    ),
)
"""When a method is refused, and why."""


def _require_static(about: About, network: TopologyBase) -> None:
    """Refuse a network whose W changes or is not symmetric where a method needs one that is and stays."""
    if network.changes:
        unless = ", unless its class says changes = False" if network.checked else ""
        found = f"this one changes from round to round{unless}"
    elif network.checked and abs((W := network.at(0)) - W.T).max() > SYMMETRIC:
        found = "this one is not symmetric"
    else:  # those of the package are symmetric
        return
    raise MismatchError(
        f"{about.title} needs a symmetric W that stays the same in all rounds; {found}: choose a method that "
        "tracks the mean gradient, such as destiny"
    )
