"""The contract: what problems, networks and algorithms must have, and what else they may be asked for.

`Problem`, `Topology` and `Algorithm` are what a user's object must have, and no more. `ProblemBase`,
`TopologyBase` and `AlgorithmBase` are the whole contract: every further member has a default.
Classes of the package derive from the bases; other objects are wrapped once, where they come in
(`destiny.problems.own_problem`, `destiny.run.own`). Inside, nobody asks
whether a member is there. The contract of step rules is `destiny.steps.StepRule`, that of engines is in
`destiny.engines.team`.
"""

from destiny.protocols.algorithms import (
    About,
    Agents,
    Algorithm,
    AlgorithmBase,
    Bounds,
    Method,
    Observer,
    Trait,
)
from destiny.protocols.arrays import Array, State
from destiny.protocols.networks import Topology, TopologyBase, Tree, spanning_tree
from destiny.protocols.problems import (
    CountedSamples,
    GeneralizedHosted,
    Hosted,
    Objective,
    Problem,
    ProblemBase,
    QuadraticHosted,
    RegularizedHosted,
    Regularizer,
    Sampled,
)
from destiny.protocols.wrapping import forward

__all__ = [
    "About",
    "Agents",
    "Algorithm",
    "AlgorithmBase",
    "Array",
    "Bounds",
    "CountedSamples",
    "GeneralizedHosted",
    "Hosted",
    "Method",
    "Objective",
    "Observer",
    "Problem",
    "ProblemBase",
    "QuadraticHosted",
    "RegularizedHosted",
    "Regularizer",
    "Sampled",
    "State",
    "Topology",
    "TopologyBase",
    "Trait",
    "Tree",
    "forward",
    "spanning_tree",
]
