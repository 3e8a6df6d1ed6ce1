"""Make the pictures of the README and the documentation: ``python docs/pictures.py``."""

from pathlib import Path

import destiny
from destiny.plots import convergence
from destiny.steps import Constant, PlainBB

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    problem = destiny.problems.pca.synthetic(n=300, m=3200, p=10, xi=0.95, agents=32, seed=0)
    network = destiny.networks.erdos_renyi(32, prob=0.4, seed=0)
    network.draw(IMAGES / "network.png")
    methods = {
        "DESTINY, defaults": destiny.Destiny(),
        "paper's BB steps": destiny.Destiny(beta=0.03, step_size=PlainBB(1.0)),
        "constant step": destiny.Destiny(beta=0.03, step_size=Constant(10.0)),
    }
    histories = {
        label: destiny.solve(problem, network, method, rounds=1500).history
        for label, method in methods.items()
    }
    convergence(histories, IMAGES / "convergence.png", "decentralised PCA, 32 agents, 300 x 10")


if __name__ == "__main__":
    main()
