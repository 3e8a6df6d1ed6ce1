"""Orthogonal least squares regression on Cora, the paper's Section 4.4."""

from benchopt import BaseDataset

import destiny


class Dataset(BaseDataset):
    """The first 100 words of a part of Cora and the fields of its papers, dealt out to 32 agents in order."""

    name = "Cora OLSR"
    parameters = {"part": ["DS", "HA", "PL"], "agents": [32]}
    parameter_template = "{part}"

    def get_data(self):
        """Read it from DESTINY_DATA; without its files the data set is skipped and says what is missing."""
        try:
            cora = destiny.datasets.cora(self.part)
        except destiny.DestinyError as error:
            return {"problem": None, "reason": str(error)}
        targets = destiny.problems.olsr.one_hot(cora.labels)
        return {"problem": destiny.problems.olsr.from_data(cora.data, targets, self.agents), "reason": None}
