"""Sparse dictionary learning on MNIST, the paper's Section 4.5."""

from benchopt import BaseDataset

import destiny


class Dataset(BaseDataset):
    """Images in the order of the file, pixels in 0..1, dealt out to 32 agents."""

    name = "MNIST SDL"
    parameters = {"p": [1], "agents": [32], "images": [60_000]}
    parameter_template = "p={p},images={images}"

    def get_data(self):
        """Read it from DESTINY_DATA; without its files the data set is skipped and says what is missing."""
        try:
            data = destiny.datasets.mnist().data[: self.images]
        except destiny.DestinyError as error:
            return {"problem": None, "reason": str(error)}
        problem = destiny.problems.sdl.from_data(data, p=self.p, agents=self.agents, scale=1 / 255)
        return {"problem": problem, "reason": None}
