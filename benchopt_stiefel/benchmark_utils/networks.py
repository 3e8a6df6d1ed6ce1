"""Networks by name."""

import destiny


def network_of(name, agents, seed):
    """The network of "KIND" or "KIND PROBABILITY", such as "ring" and "erdos-renyi 0.4"."""
    kind, *prob = name.split()
    if not prob:
        return destiny.networks.build(kind, agents)
    return destiny.networks.build(kind, agents, prob=float(prob[0]), seed=seed)
