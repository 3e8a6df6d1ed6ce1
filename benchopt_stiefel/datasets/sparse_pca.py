"""PCA with an l1 term, for methods with a prox."""

from benchopt import BaseDataset

import destiny


class Dataset(BaseDataset):
    """The weight is a share of the largest eigenvalue xi / agents of the mean matrix."""

    name = "Sparse PCA"
    parameters = {"n, m, p, xi, agents": [(60, 1600, 4, 0.9, 16)], "weight": [0.02], "seed": [0]}
    parameter_template = "n={n},p={p},agents={agents}"
    test_parameters = {"n, m, p, xi, agents": [(12, 80, 2, 0.6, 8)]}

    def get_data(self):
        """Draw it."""
        size = {"n": self.n, "m": self.m, "p": self.p, "xi": self.xi, "agents": self.agents}
        smooth = destiny.problems.pca.synthetic(**size, seed=self.seed)
        l1 = destiny.problems.L1(self.weight * self.xi / self.agents)
        return {"problem": smooth + l1, "reason": None}
