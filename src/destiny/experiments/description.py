"""What a folder of results tells of its network and of how it was made, as plain tables for JSON files."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from destiny._version import __version__
from destiny.protocols import ProblemBase, TopologyBase

AGENTS, LINKS = 1000, 20_000  # more are a gray block in any picture, and megabytes in a file


def network_facts(network: TopologyBase) -> dict[str, Any]:
    """Facts, links and where to draw the agents; of a network that changes, with all its links up."""
    facts = network.with_all_links.facts() | network.facts()  # the name and the count of what changes win
    links = network.all_edges()
    degrees = np.bincount(links.ravel(), minlength=network.agents)
    facts |= {
        "agents": network.agents,
        "link_count": len(links),
        "degree_min": int(degrees.min()),
        "degree_mean": float(degrees.mean()),
        "degree_max": int(degrees.max()),
        "changing": network.changes,
    }
    facts.pop("links", None)
    if network.agents <= AGENTS and len(links) <= LINKS:
        facts |= {
            "links": links.tolist(),
            "degrees": degrees.tolist(),
            "positions": np.round(network.layout(), 4).tolist(),
        }
    return facts


def about(problem: ProblemBase, seed: int | None, engine: str, started: datetime | None) -> dict[str, Any]:
    """Problem, versions, seed and time."""
    facts: dict[str, Any] = {"problem": sentence} if (sentence := problem.describe()) else {}
    if problem.column_names:
        facts["columns"] = {what: list(names) for what, names in problem.column_names.items()}
    return facts | {
        "kind": problem.kind,
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
