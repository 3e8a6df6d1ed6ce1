"""Small real runs, written as `destiny run` and reproduced figures write them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

import destiny
from destiny.algorithms import DeEPCA
from destiny.experiments import result_folder

METHODS: dict[str, Any] = {"DESTINY": destiny.DestinyAccelerated(), "DeEPCA": DeEPCA()}


def write_run(folder: Path, problem, network, methods=None, rounds=400, **facts) -> dict[str, destiny.Result]:
    folder.mkdir(parents=True)
    results = {}
    for label, method in (methods or METHODS).items():
        results[label] = destiny.solve(problem, network, method, rounds=rounds, label=label)
        result_folder.write(folder, results)
    result_folder.describe(folder, problem, network, results, seed=0, **facts)
    return results


def pca(folder: Path, seed: int = 0, prob: float = 0.5):
    problem = destiny.problems.pca.synthetic(n=12, m=96, p=2, xi=0.7, agents=6, seed=seed)
    return write_run(folder, problem, destiny.networks.erdos_renyi(6, prob=prob, seed=seed))


def olsr(folder: Path):
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 60)
    C = rng.standard_normal((8, 60)) / 4 + np.eye(8)[kinds].T
    problem = destiny.problems.olsr.from_data(C.T, np.eye(3)[kinds], agents=4)
    methods = {"DESTINY": destiny.DestinyAccelerated()}
    return write_run(folder, problem, destiny.networks.ring(4), methods, classes=["ant", "bee", "<cat>"])


def sdl(folder: Path, image=(4, 4)):
    problem = destiny.problems.sdl.synthetic(n=16, m=200, p=5, agents=4, seed=0)
    methods = {"DESTINY": destiny.DestinyAccelerated()}
    return write_run(folder, problem, destiny.networks.ring(4), methods, rounds=60, image=image)


CLAIMS = [
    {"claim": "DESTINY needs more rounds", "measured": "1.5 times", "holds": True, "panels": ["prob-0.4"]},
    {"claim": "the stars stand well", "measured": "they were not asked", "holds": None, "panels": []},
    {"claim": "less is more", "measured": "1 < 2", "holds": False, "panels": ["prob-0.4", "prob-0.9"]},
]


def reproduced(folder: Path) -> None:
    """Two panels, two seeds, two methods."""
    panels = {"prob-0.4": 0.4, "prob-0.9": 0.9}
    for name, prob in panels.items():
        for seed in (0, 1):
            pca(folder / name / f"seed-{seed}", seed, prob)
    figure = {
        "name": folder.name,
        "title": "Denser networks",
        "about": "How the probability of a link matters.",
        "paper": "Section 4.2, Figure 3",
        "seeds": [0, 1],
        "seconds": {"total": 3.2, "measuring": 0.4},
        "panels": [{"name": name, "title": f"prob = {prob}"} for name, prob in panels.items()],
        "settings": {"problem": {"kind": "pca", "n": 12}, "network": {"kind": "erdos-renyi"}},
        "small": True,
    }
    (folder / "figure.json").write_text(json.dumps(figure))
    (folder / "claims.json").write_text(json.dumps(CLAIMS))


NEW = ("network.json", "about.json", "extras.json")
EVIL = "<script>hacked = 1</script><img src=x onerror=hacked=1>"


def poison(folder):
    """Every text of a folder that a stranger may have written."""
    entries = json.loads((folder / "summary.json").read_text())
    for entry in entries:
        entry |= {
            "reason": EVIL,
            "notes": [EVIL],
            "algorithm": EVIL,
            "settings": {EVIL: EVIL},
            "rounds": EVIL,
        }
    label = "a<b onclick=hacked=1>&amp;<!--"
    (folder / "DeEPCA").rename(folder / label)
    entries[1]["label"] = label
    (folder / "summary.json").write_text(json.dumps(entries))
    (folder / "experiment.json").write_text(json.dumps({EVIL: {EVIL: EVIL}}))
    for name in NEW:
        table = json.loads((folder / name).read_text())
        table |= {
            key: EVIL for key in ("name", "weights", "problem", "engine", "started", "lambda") if key in table
        }
        if "spectrum" in table:
            found = table["spectrum"]["found"]
            found[EVIL] = found.pop("DeEPCA")
        (folder / name).write_text(json.dumps(table))
    return label
