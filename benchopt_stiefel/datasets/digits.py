"""The 1,797 digits that come with scikit-learn: real data without a download."""

from benchopt import BaseDataset

import destiny


class Dataset(BaseDataset):
    """One of the paper's three problems on 8 x 8 pixels in 0..1, dealt out in order."""

    name = "Digits"
    parameters = {"kind, p": [("pca", 5), ("olsr", 10), ("sdl", 1)], "agents": [16]}
    parameter_template = "{kind},p={p}"

    def get_data(self):
        """p of OLSR is the number of classes."""
        try:
            digits = destiny.datasets.digits()
        except destiny.DestinyError as error:
            return {"problem": None, "reason": str(error)}
        if self.kind == "olsr":
            targets = destiny.problems.olsr.one_hot(digits.labels)
            problem = destiny.problems.olsr.from_data(digits.data, targets, self.agents, scale=1 / 16)
        else:
            make = {"pca": destiny.problems.pca, "sdl": destiny.problems.sdl}[self.kind].from_data
            problem = make(digits.data, p=self.p, agents=self.agents, scale=1 / 16)
        return {"problem": problem, "reason": None}
