"""Folders of runs and agents that are not over, as they write them."""

import json
from datetime import UTC, datetime
from pathlib import Path

EVIL = "<script>hacked = 1</script><img src=x onerror=hacked=1>"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def running(folder: Path, rounds: int = 5, label: str = "DESTINY", problem: str = "PCA of iris") -> None:
    """A run with one method under way and one to come."""
    steps = list(range(0, 10 * rounds, 10))
    history = {
        "step": steps,
        "round": steps,
        "scalars": [40 * k for k in steps],
        "seconds": [k / 100 for k in steps],
        "stationarity": [10.0 ** (-k / 10) for k in steps],
        "consensus": [None, *(1e-3 for _ in steps[1:])],
        "feasibility": [1e-4] * len(steps),
    }
    method = {"label": label, "state": "running", "rounds": 900, "tolerance": 1e-8, "history": history}
    other = {"label": "DRGTA", "state": "waiting", "rounds": 900, "tolerance": 1e-8, "history": {}}
    links, positions = [[0, 1], [1, 2], [0, 2]], [[0, 0], [1, 0], [0, 1]]
    network = {"name": "ring", "agents": 3, "links": links, "positions": positions}
    times = {"started": now(), "updated": now(), "every": 1.0}
    write(folder, {**times, "problem": problem, "network": network, "methods": [method, other]})


def agent(folder: Path, name: str, late: dict[str, bool], run: str = "trial") -> None:
    """An agent that runs; ``late``: whether it waits for each of its neighbors."""
    same = {"state": "connected", "round": 6, "received": 800, "sent": 900}
    neighbors = [
        {"name": other, "index": k, "late": waits, **same} for k, (other, waits) in enumerate(late.items())
    ]
    write(
        folder,
        {
            "agent": name,
            "index": 0,
            "agents": 3,
            "run": run,
            "updated": now(),
            "every": 1.0,
            "phase": "running",
            "waiting": 12.0,
            "step": 7,
            "round": 7,
            "rounds": 100,
            "rate": 12.5,
            "residual": 1e-3,
            "feasibility": 1e-9,
            "tolerance": 1e-8,
            "neighbors": neighbors,
            "history": [[1, 1.0, 0.1], [4, 0.1, 0.01], [7, 1e-3, 1e-9]],
        },
    )


def write(folder: Path, content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / ".status"
    aside.write_text(json.dumps(content), encoding="utf-8")
    aside.replace(folder / "status.json")
