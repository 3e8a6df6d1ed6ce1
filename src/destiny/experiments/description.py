"""What a folder of results tells of its network and of how it was made, as plain tables for JSON files."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from destiny._version import __version__
from destiny.protocols import Array, NamedColumns, Problem, Topology

AGENTS, LINKS = 1000, 20_000  # more are a grey block in any picture, and megabytes in a file


def network_facts(network: Topology) -> dict[str, Any]:
    """Facts, links and where to draw the agents; of a network that changes, with all its links up."""
    whole = getattr(network, "network", network)
    facts: dict[str, Any] = {}
    for known in (whole, network):  # the name and the count of what changes win
        facts |= known.facts() if hasattr(known, "facts") else {}
    links = getattr(network, "edges", None)
    links = _used(network) if links is None else np.asarray(links)
    degrees = np.bincount(links.ravel(), minlength=network.agents)
    facts |= {
        "agents": network.agents,
        "link_count": len(links),
        "degree_min": int(degrees.min()),
        "degree_mean": float(degrees.mean()),
        "degree_max": int(degrees.max()),
        "changing": not hasattr(network, "W"),
    }
    facts.pop("links", None)
    if network.agents <= AGENTS and len(links) <= LINKS:
        places = network.layout() if hasattr(network, "layout") else _circle(network.agents)
        facts |= {
            "links": links.tolist(),
            "degrees": degrees.tolist(),
            "positions": np.round(places, 4).tolist(),
        }
    return facts


def about(problem: Problem, seed: int | None, engine: str, started: datetime | None) -> dict[str, Any]:
    """Problem, versions, seed and time."""
    told: dict[str, Any] = {"problem": problem.describe()} if hasattr(problem, "describe") else {}
    if isinstance(problem, NamedColumns) and problem.column_names:
        told["columns"] = {what: list(names) for what, names in problem.column_names.items()}
    return told | {
        "kind": getattr(problem, "kind", None),
        "shape": list(problem.shape),
        "agents": problem.agents,
        "seed": seed,
        "engine": engine,
        "started": None if started is None else stamp(started),
        "finished": stamp(datetime.now(UTC)),
        "versions": versions(),
    }


def stamp(time: datetime) -> str:
    """ISO 8601 in UTC, to the second."""
    return time.astimezone(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """What the bits of an answer may depend on."""
    blas = [f"{p['internal_api']} {p['version']}" for p in threadpool_info() if p["user_api"] == "blas"]
    return {
        "destiny": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": ", ".join(dict.fromkeys(blas)) or "unknown",
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _used(network: Topology) -> Any:
    """Links of the first round, of a network that tells no more."""
    i, j = network.at(0).nonzero()
    return np.stack([i[i < j], j[i < j]], axis=1)


def _circle(agents: int) -> Array:
    angle = 2 * np.pi * np.arange(agents) / agents
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
