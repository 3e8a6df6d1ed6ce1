"""Make the pictures of the README and the documentation: ``python docs/pictures.py``."""

from pathlib import Path

import destiny
from destiny.algorithms import ADSA, DRGTA, DeEPCA

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    problem = destiny.problems.pca.synthetic(n=300, m=3200, p=10, xi=0.95, agents=32, seed=0)
    network = destiny.networks.erdos_renyi(32, prob=0.4, seed=0)
    network.draw(IMAGES / "network.png")
    methods = {
        "DESTINY, accelerated": destiny.DestinyMomentum(),
        "DESTINY": destiny.Destiny(),
        "DRGTA": DRGTA(),
        "DeEPCA (PCA only)": DeEPCA(),
        "ADSA (PCA only)": ADSA(),
    }
    comparison = destiny.compare(problem, network, methods, rounds=2000)
    comparison.plot(IMAGES / "convergence.png")


if __name__ == "__main__":
    main()
