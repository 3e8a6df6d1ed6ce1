"""PCA with the spectrum of the paper's Section 4.3."""

from benchopt import BaseDataset

import destiny


class Dataset(BaseDataset):
    """Eigenvalues xi, xi^2, ... of the pooled data; the default is the size of Figure 3."""

    name = "Synthetic PCA"
    parameters = {"n, m, p, xi, agents": [(300, 3200, 10, 0.95, 32)], "seed": [0]}
    parameter_template = "n={n},p={p},agents={agents}"
    test_parameters = {"n, m, p, xi, agents": [(12, 80, 2, 0.6, 8)]}

    def get_data(self):
        """Draw it."""
        size = {"n": self.n, "m": self.m, "p": self.p, "xi": self.xi, "agents": self.agents}
        return {"problem": destiny.problems.pca.synthetic(**size, seed=self.seed), "reason": None}
