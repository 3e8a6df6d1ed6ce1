"""Who talks to whom, and with which weights.

>>> from destiny import networks
>>> network = networks.ring(8)
>>> round(network.lambda_, 3), network.diameter
(0.805, 4)
"""

from destiny.networks.from_user import from_edges, from_file, from_graph, from_weights
from destiny.networks.graphs import (
    complete,
    erdos_renyi,
    exponential,
    grid,
    hypercube,
    path,
    random_geometric,
    random_regular,
    ring,
    small_world,
    star,
    torus,
)
from destiny.networks.kinds import KINDS, build, options_of
from destiny.networks.network import Network
from destiny.networks.time_varying import (
    LinkLoss,
    Matchings,
    Schedule,
    link_loss,
    matchings,
    periodic,
    sequence,
)
from destiny.networks.weights import RULES

__all__ = [
    "KINDS",
    "RULES",
    "LinkLoss",
    "Matchings",
    "Network",
    "Schedule",
    "build",
    "complete",
    "erdos_renyi",
    "exponential",
    "from_edges",
    "from_file",
    "from_graph",
    "from_weights",
    "grid",
    "hypercube",
    "link_loss",
    "matchings",
    "options_of",
    "path",
    "periodic",
    "random_geometric",
    "random_regular",
    "ring",
    "sequence",
    "small_world",
    "star",
    "torus",
]
