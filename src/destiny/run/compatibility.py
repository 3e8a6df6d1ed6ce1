"""Check that a method supports a problem, before anything is computed."""

from __future__ import annotations

from destiny.algorithms import METHODS, About
from destiny.algorithms.blocks.step_sizes import STEADY
from destiny.errors import MismatchError
from destiny.problems.private_part import private_part
from destiny.protocols import (
    AlgorithmBase,
    AsyncAlgorithmBase,
    ProblemBase,
    Regulariser,
    TopologyBase,
)
from destiny.run.own_network import CheckedTopology

SYMMETRIC = 1e-10  # largest difference of two weights that must be equal: rounding


def require_fit(algorithm: AlgorithmBase | AsyncAlgorithmBase, problem: ProblemBase) -> None:
    """Refuse a method that cannot solve this problem, by what it says of itself."""
    if algorithm.about is not None:
        require_kind(algorithm.about, problem.kind, problem.agents)
        require_prox(algorithm.about, problem.regulariser)
        _constraint(algorithm.about, problem)
        _definite(algorithm.about, problem)
        _batches(algorithm.about, algorithm.step_rule, problem)


def require_network(algorithm: AlgorithmBase, network: TopologyBase) -> None:
    """Refuse a network whose W changes or is not symmetric where a method needs one that is and stays."""
    about = algorithm.about
    if about is None or not about.fixed:
        return
    own = isinstance(network, CheckedTopology)  # those of the package are symmetric
    if network.changes:
        found = "this one changes from round to round" + (
            ", unless its class says changes = False" if own else ""
        )
    elif own and abs((W := network.at(0)) - W.T).max() > SYMMETRIC:
        found = "this one is not symmetric"
    else:
        return
    raise MismatchError(
        f"{about.title} needs a symmetric W that stays the same in all rounds; {found}: choose a method that "
        "tracks the mean gradient, such as destiny"
    )


def require_kind(about: About, kind: str, agents: int) -> None:
    """Refuse a method made for other problems, naming both."""
    if about.problem is not None and kind != about.problem:
        raise MismatchError(
            f"{about.title} solves {about.problem.upper()} only; this problem is {kind.upper()}: choose a "
            "method for any f, such as destiny"
        )
    if about.alone and agents > 1:
        raise MismatchError(
            f"{about.title} is a method for one agent; this problem has {agents}: choose a "
            "decentralised method, or pool the data (destiny.problems.pooled)"
        )


def require_prox(about: About, regulariser: Regulariser | None) -> None:
    """Refuse a method for smooth f where the objective is f + r."""
    if regulariser is None or about.regularised:
        return
    names = ", ".join(method.kind for method in METHODS if method.about.regularised)
    raise MismatchError(
        f"{about.title} needs a smooth objective; this problem has the regulariser {regulariser!r}: "
        f"choose a method with a prox ({names}), or leave the regulariser out"
    )


def _constraint(about: About, problem: ProblemBase) -> None:
    """Refuse a method for X^T X = I where the constraint is X^T M X = I."""
    if problem.generalised and not about.generalised:
        names = ", ".join(method.kind for method in METHODS if method.about.generalised)
        raise MismatchError(
            f"{about.title} keeps X^T X = I; this problem has the constraint X^T M X = I: choose a method "
            f"for it ({names}), or leave M out"
        )


def _definite(about: About, problem: ProblemBase) -> None:
    """Refuse a method for positive semidefinite matrices where noise may have made them indefinite."""
    if about.semidefinite and private_part(problem) is not None:
        raise MismatchError(
            f"{about.title} needs positive semidefinite second moments; those of private data have noise: "
            "choose another method, such as destiny"
        )


def _batches(about: About, rule: object, problem: ProblemBase) -> None:
    """Refuse mini-batches where gradients that jump would lead a method or its steps astray."""
    drawn = problem.batches
    if not drawn:
        return
    if not about.stochastic:
        names = ", ".join(method.kind for method in METHODS if method.about.stochastic)
        raise MismatchError(
            f"{about.title} needs full gradients; this problem draws mini-batches of {drawn[0][0]}: choose "
            f"a stochastic method ({names}), or leave batch out"
        )
    if not about.variance_reduced and not isinstance(rule, STEADY):
        names = " or ".join(steady.__name__ for steady in STEADY)
        raise MismatchError(
            f"{about.title} with mini-batches needs a step size that does not look at gradients; found "
            f"{rule!r}: give step_size, {names}"
        )
