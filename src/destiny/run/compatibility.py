"""Methods and problems that do not go together, told before anything is computed."""

from __future__ import annotations

from typing import Any

from destiny.algorithms import METHODS, About
from destiny.algorithms.blocks.step_sizes import STEADY
from destiny.errors import MismatchError
from destiny.protocols import Algorithm, Problem


def require_fit(algorithm: Algorithm[Any], problem: Problem) -> None:
    """Refuse a method that cannot solve this problem, by what it says of itself."""
    about = getattr(algorithm, "about", None)
    if isinstance(about, About):
        _kinds(about, problem)
        _batches(about, getattr(algorithm, "step_size", None), problem)


def _kinds(about: About, problem: Problem) -> None:
    """Refuse a method made for other problems, naming both."""
    kind = getattr(problem, "kind", type(problem).__name__)
    if about.problem is not None and kind != about.problem:
        raise MismatchError(
            f"{about.title} solves {about.problem.upper()} only; this problem is {kind.upper()}: choose a "
            "method for any f, such as destiny"
        )
    if about.alone and problem.agents > 1:
        raise MismatchError(
            f"{about.title} is a method for one agent; this problem has {problem.agents}: choose a "
            "decentralised method, or pool the data (destiny.problems.pooled)"
        )


def _batches(about: About, rule: object, problem: Problem) -> None:
    """Refuse mini-batches where gradients that jump would lead a method or its steps astray."""
    drawn = getattr(problem, "batches", [])
    if not drawn:
        return
    if not about.stochastic:
        known = ", ".join(method.kind for method in METHODS if method.about.stochastic)
        raise MismatchError(
            f"{about.title} needs full gradients; this problem draws mini-batches of {drawn[0][0]}: choose "
            f"a stochastic method ({known}), or leave batch out"
        )
    if not isinstance(rule, STEADY):
        known = " or ".join(steady.__name__ for steady in STEADY)
        raise MismatchError(
            f"{about.title} with mini-batches needs a step size that does not look at gradients; found "
            f"{rule!r}: give step_size, {known}"
        )
