"""What asynchronous methods cannot do, refused before anything is computed."""

from __future__ import annotations

from destiny.engines.mixers import Messages
from destiny.errors import MismatchError, SettingsError
from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase
from destiny.protocols import ProblemBase, TopologyBase
from destiny.run.parts.batches import require_stochastic
from destiny.run.parts.privacy import privacy_of, require_private_messages
from destiny.run.parts.private_products import products_of
from destiny.run.plan import require_fit

NO_PRIVATE_SUMS = "private messages are sums over all agents, and agents that do not wait have none"


def prepared_async(
    algorithm: AsyncAlgorithmBase, problem: ProblemBase, network: TopologyBase, messages: Messages
) -> AsyncAlgorithmBase:
    """The method on this network, once it fits the problem, the network and the messages."""
    require_fit(algorithm, problem)
    require_stochastic(algorithm, problem.batches)
    require_private_messages(privacy_of(problem), messages.private)
    if problem.centering:
        raise MismatchError(
            f"{algorithm.kind} cannot center data, which takes rounds: subtract the means beforehand"
        )
    if products_of(problem) is not None:
        raise MismatchError(
            f"{algorithm.kind} cannot release private products, which takes rounds: use another method"
        )
    if network.changes:
        raise SettingsError(
            f"{algorithm.kind} has no rounds, so its network cannot change from round to round: "
            "give a fixed network; a link that is down for a while is loss of messages"
        )
    if messages.private:
        raise SettingsError(f"{algorithm.kind} cannot sum privately: {NO_PRIVATE_SUMS}; leave private out")
    if messages.few_bits:
        raise SettingsError(
            f"{algorithm.kind} sends sums that grow, which few bits cannot carry: leave bits out"
        )
    if not messages.exact:
        raise SettingsError(
            f"{algorithm.kind} sends sums that grow, whose distances tell nothing of lies: leave clip out"
        )
    return algorithm.on(network)


def takes_async(
    algorithm: AsyncAlgorithmBase, problem: ProblemBase, network: TopologyBase, messages: Messages
) -> bool:
    """Whether the method fits the problem, the network and the messages."""
    try:
        prepared_async(algorithm, problem, network, messages)
    except (MismatchError, SettingsError):
        return False
    return True
